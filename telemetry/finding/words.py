r"""Splits a filter into words: where each begins, and its parts.

Rules (``docs/contract/page.md#filter``):

1. White space separates words. A word is ``key:value``, with any of :data:`OPERATORS`; any other
   word is a text to search for. ``-`` before a key means not.
2. A value or text in double quotes may hold white space. In quotes ``\"`` is a quote and ``\\`` a
   backslash; before anything else a backslash stands for itself.
3. Each argument of a command line is one word with all its spaces, because the shell has removed
   the quotes. An argument that holds quotes itself, or several conditions and nothing else, is read
   as a text of several words.
4. Unclear input is refused with its position; nothing is guessed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from telemetry.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OPERATORS = (":", ">=", "<=", "=", ">", "<")
"""Signs between a key and its value."""

MAX_FILTER_CHARS = 4096
"""More than anybody types, and less than SQLite's limit for a pattern (50,000 bytes)."""

MAX_WORDS = 64
"""SQLite refuses a statement of a thousand conditions; nobody means more than a few."""

_CONDITION = re.compile(rf"(-?)([A-Za-z][A-Za-z_]*)({'|'.join(OPERATORS)})")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_SPACES = re.compile(r"\s*")
_BARE = re.compile(r"\S*")
_ESCAPE = re.compile(r'\\(["\\])')
_NO_TEXT = re.compile(r"[\0\ud800-\udfff]")


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """A word of a filter.

    Attributes:
        start: where it begins, in characters of the whole text.
        key: as written; empty for a text to search for.
        operator: one of :data:`OPERATORS`; empty without a key.
        value: without its quotes. The value of a condition still has its escapes.
        value_start: where the value begins.
    """

    start: int
    is_not: bool = False
    key: str = ""
    operator: str = ""
    value: str
    value_start: int
    is_quoted: bool = False


def read_words(words: Sequence[str] | str) -> tuple[str, list[Word]]:
    """Read a text, or the arguments of a command line; return the whole text and its words.

    Raises:
        FilterError: a quote has no end, a text is empty or excluded, or there is too much of it.
    """
    text = words if isinstance(words, str) else " ".join(words)
    if len(text) > MAX_FILTER_CHARS:
        raise FilterError(
            f"a filter has at most {MAX_FILTER_CHARS} characters", text, MAX_FILTER_CHARS
        )
    if wrong := _NO_TEXT.search(text):
        raise FilterError("a filter is made of text; leave this out", text, wrong.start())
    found: list[Word] = []
    if isinstance(words, str):
        found.extend(_split(text, 0, len(text)))
    else:
        start = 0
        for argument in words:
            found.extend(_read_argument(text, start, start + len(argument)))
            start += len(argument) + 1
    if len(found) > MAX_WORDS:
        raise FilterError(f"a filter has at most {MAX_WORDS} words", text, found[MAX_WORDS].start)
    return text, found


def quote(value: str) -> str:
    """Write a value in quotes if it needs them; its quotes and backslashes are escaped already.

    >>> quote("gpt-5*"), quote("my agent")
    ('gpt-5*', '"my agent"')
    """
    return value if value and _BARE.fullmatch(value) else f'"{value}"'


def quote_text(text: str) -> str:
    r"""Write a text to search for, so that it reads as such a text.

    >>> quote_text("timeout"), quote_text("a:b"), quote_text('say "hi"')
    ('timeout', '"a:b"', '"say \\"hi\\""')
    """
    if text[:1] not in {"", "-", '"'} and _BARE.fullmatch(text) and not _CONDITION.match(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read_argument(text: str, start: int, end: int) -> list[Word]:
    """Read one argument of a command line (rule 3)."""
    found = list(_split(text, start, end))
    if len(found) < 2 or all(word.key for word in found) or any(word.is_quoted for word in found):
        return found
    head = _CONDITION.match(text, start, end)
    if head is None:
        return [Word(start=start, value=text[start:end], value_start=start)]
    return [_condition(head, text[head.end() : end])]


def _split(text: str, start: int, end: int) -> Iterator[Word]:
    """Read the words between two positions of a text (rules 1 and 2)."""
    at = _skip(_SPACES, text, start, end)
    while at < end:
        head = _CONDITION.match(text, at, end)
        if head is None and text[at] == "-":
            raise FilterError(
                "only a condition can be excluded, as in `-status:ok`; put a text that begins with"
                " `-` in double quotes",
                text,
                at,
            )
        value_start = at if head is None else head.end()
        is_quoted = text.startswith('"', value_start, end)
        if is_quoted:
            value, stop = _read_quoted(text, value_start, end)
        else:
            stop = _skip(_BARE, text, value_start, end)
            value = text[value_start:stop]
        if head is not None:
            yield _condition(head, value, is_quoted=is_quoted)
        else:
            if is_quoted:
                value = _ESCAPE.sub(r"\1", value)
            if not value:
                raise FilterError("these quotes hold no text to search for", text, at)
            yield Word(start=at, value=value, value_start=value_start, is_quoted=is_quoted)
        at = _skip(_SPACES, text, stop, end)


def _read_quoted(text: str, start: int, end: int) -> tuple[str, int]:
    """Return the text in quotes, and where the word ends."""
    quoted = _QUOTED.match(text, start, end)
    if quoted is None:
        raise FilterError('this quote has no end; write `"` after the text', text, start)
    stop = quoted.end()
    if stop < end and not text[stop].isspace():
        raise FilterError("after a quoted value comes a space", text, stop)
    return quoted[1], stop


def _condition(head: re.Match[str], value: str, *, is_quoted: bool = False) -> Word:
    return Word(
        start=head.start(),
        is_not=bool(head[1]),
        key=head[2],
        operator=head[3],
        value=value,
        value_start=head.end(),
        is_quoted=is_quoted,
    )


def _skip(pattern: re.Pattern[str], text: str, start: int, end: int) -> int:
    """Return where a run of characters, which may be empty, ends."""
    found = pattern.match(text, start, end)
    return start if found is None else found.end()
