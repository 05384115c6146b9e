"""A tool call in a few words: its name and the argument that tells most, ``Edit notes.txt``.

Names and arguments come from spans, so that whatever is hidden, masked or cut there is so here.
``spantap traces show`` imports this module, so it imports nothing that takes long.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codec.text.jsontext import decode_json
from telemetry.attribute_values import clean_text
from telemetry.facts import MAX_PREVIEW_CHARS
from telemetry.privacy.json_strings import REDACTED

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_VALUE_CHARS: Final = 60
"""The most characters of an argument or of an answer: a file's name, a command, some words."""

_READ_CHARS: Final = 4_096
"""How much of a call's arguments is searched for the telling one."""

_SOUGHT: Final = ("pattern", "query", "queries", "q")
_FILES: Final = (
    *("file_path", "filePath", "absolute_path", "notebook_path", "target_file", "path"),
    *("filename", "file_name", "file", "dir_path", "directory"),
)
_DONE: Final = ("command", "commands", "cmd", "url", "skill", "skill_name", "task_name")
_EXPLAINED: Final = ("description", "prompt", "task", "title", "subject", "name", "message")
"""Names of arguments, those that tell most first. Of a file the last part of its path is shown."""

_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
"""The file in a patch as Codex writes it."""


def describe_call(name: str | None, arguments: str | None) -> str | None:
    """Describe a tool call by its name and its telling argument, as its span shows them."""
    shown = write_one_line(name)
    return finish_line(f"{shown} {find_telling(arguments)}".rstrip()) if shown else None


def finish_line(line: str) -> str | None:
    """Cut a line to the length of a preview; ``None`` if nothing is left."""
    return clean_text(cut_end(line, MAX_PREVIEW_CHARS)) or None


def find_telling(arguments: object) -> str:
    """Find the argument that tells most; empty if there is none."""
    if not isinstance(arguments, str) or arguments == REDACTED:
        return ""
    head = arguments[:_READ_CHARS]
    if head.lstrip()[:1] not in {"{", "["}:  # free text
        return shorten(_find_patched(head) or head.strip().partition("\n")[0])
    for pattern, is_file in _PATTERNS:
        if (found := pattern.search(head)) is not None and (value := _decode(found[1])):
            return shorten(_name_file(value) if is_file else _find_patched(value) or value)
    return ""


def _find_patched(text: str) -> str:
    """Find the file that a patch changes; empty if the text is no patch."""
    found = _PATCHED.search(text)
    return _name_file(found[1]) if found else ""


def _decode(written: str) -> str:
    """Decode the beginning of a string of JSON; empty if it is hidden."""
    try:
        value = str(decode_json(f'"{written}"'))
    except ValueError:  # it ends within an escape
        value = written
    return "" if value == REDACTED else value


def _name_file(path: str) -> str:
    """Return the last part of a path."""
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1] or path


def shorten(text: str) -> str:
    """Write the beginning of a value in one line."""
    return cut_end(write_one_line(text), MAX_VALUE_CHARS)


def write_one_line(text: object) -> str:
    """Write a text of the span in one line; nothing if it is hidden."""
    if not isinstance(text, str) or text == REDACTED:
        return ""
    return " ".join(text[:_READ_CHARS].split())


def cut_end(text: str, most: int) -> str:
    """Cut a text to so many characters, with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _list_patterns() -> Iterator[tuple[re.Pattern[str], bool]]:
    """Yield patterns of arguments in the order in which they are tried; true for files'."""
    string = r'"((?:[^"\\]|\\.){1,200}+)'
    # Of a command that is a list of words, the last word says most: `["bash", "-lc", "make"]`.
    words = r'(?:\[\s*+(?:"(?:[^"\\]|\\.)*+"\s*+,\s*+)*+)?'
    for names in (_SOUGHT, _FILES, _DONE, _EXPLAINED):
        yield re.compile(rf'"(?:{"|".join(names)})"\s*:\s*{words}{string}'), names is _FILES
    yield re.compile(rf'"[^"\\]{{1,64}}"\s*:\s*{string}'), False


_PATTERNS: Final = tuple(_list_patterns())
