"""Lines of a page on a terminal: titles of sections, facts, and members of objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from rich.text import Text

from proxy.escape import escape_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

MAX_MEMBERS: Final = 200
"""How many members of an object are shown; the JSON has all of them."""

MAX_NAME_CHARACTERS: Final = 60
"""A longer name of a member is cut."""

MAX_MEMBER_CHARACTERS: Final = 500
"""A longer value of a member is cut; the JSON has all of it."""

_MAX_NESTING: Final = 8
"""How deeply nested objects are spread over lines; a deeper one is a value."""

Line = tuple[int, Text]
"""A line, and by how many columns it and its wrapped parts are indented (first)."""

MIN_TEXT_COLUMNS: Final = 10
"""The least room for text after its indentation, on however narrow a terminal."""


def print_lines(console: Console, lines: Iterable[Line]) -> None:
    """Print lines; on a terminal they are wrapped within their indentation."""
    for indent, text in lines:
        width = max(console.width - indent, MIN_TEXT_COLUMNS)
        wrapped = text.wrap(console, width) if console.is_terminal else text.split(allow_blank=True)
        for line in wrapped:
            console.print(Text(" " * indent).append_text(line), soft_wrap=True)


def title_lines(words: str) -> Iterator[Line]:
    """Write the title of a section, after a blank line."""
    yield 0, Text()
    yield 0, Text(words, style="bold underline")


def fact_line(name: str, value: str, *, style: str = "") -> Line:
    """Write a fact as a line; `name` is our own text."""
    # A value that is longer than a line, such as an id, is not folded.
    text = Text(f"{name:<11} ", style="dim", overflow="ignore")
    return 2, text.append(escape_line(value), style=f"not dim {style}")


def fact_lines(name: str, value: str, *, style: str = "") -> Iterator[Line]:
    """Write a fact whose value may have several lines, each in its place below the first."""
    first, *others = value.split("\n")
    yield fact_line(name, first, style=style)
    for line in others:
        yield 14, Text(escape_line(line), style=style)


def member_lines(
    members: object, *, nesting: int = _MAX_NESTING, in_words: bool = False, whole: bool = False
) -> Iterator[Line]:
    """Write an object's members, one a line, each with its path; nothing for anything else.

    Args:
        members: the object.
        nesting: how deeply it is spread over lines.
        in_words: write names with spaces.
        whole: leave nothing out.
    """
    values = [*_flatten("", members, nesting)]
    shown = values if whole else values[:MAX_MEMBERS]
    names = [escape_line(name if whole else name[:MAX_NAME_CHARACTERS]) for name, _ in shown]
    if in_words:
        names = [name.replace("_", " ") for name in names]
    width = max(map(len, names), default=0)
    for name, (_, value) in zip(names, shown, strict=True):
        is_long = len(value) > MAX_MEMBER_CHARACTERS and not whole
        text = f"{value[:MAX_MEMBER_CHARACTERS]}..." if is_long else value
        yield fact_line(name.ljust(width), text)
    if len(values) > len(shown):
        yield 2, Text(f"({len(values) - len(shown)} more: --json)", style="dim")


def _flatten(path: str, value: object, nesting: int) -> Iterator[tuple[str, str]]:
    """Spread an object over lines, one for each value, with its path."""
    if isinstance(value, dict) and value and nesting:
        for name, member in value.items():
            yield from _flatten(f"{path}.{name}" if path else str(name), member, nesting - 1)
    elif path:
        yield path, value if isinstance(value, str) else write_compact(value)


def write_compact(value: object) -> str:
    """Write a value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False)
