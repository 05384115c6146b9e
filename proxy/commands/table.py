"""Recorded calls as a table on a terminal: a row each, as much of it as there is room for.

Rules, beside those of :mod:`proxy.commands.render`:

1. A row is one line, and an id is never cut.
2. No number is cut, for half of one is a wrong one: where a terminal is too narrow whole columns
   are left out, those that say least first.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from proxy.escape import escape_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from rich.console import Console

    from proxy.commands.call import RecordedCall

__all__ = ("cell", "format_duration", "local_time", "outcome_cell", "print_table")

MAX_CELL_CHARACTERS = 48
"""A longer model name or the like is cut in the table; in full it is one ``show`` away."""

_STATUS_STYLES = {"OK": "green", "ERROR": "red", "UNSET": "yellow"}
_ABSENT = Text("-", style="dim")

WIDE_COLUMNS = 110
"""The terminal width from which columns stand two apart; in a narrower one it is one."""


class _Column(NamedTuple):
    """A column.

    Attributes:
        width: of usual contents, so that tables printed one after the other stand in line.
        rank: the order in which columns get room (rule 2); 80 characters hold the first eight.
        is_number: it stands on the right.
        may_be_cut: its words may, to its width.
    """

    title: str
    width: int
    rank: int
    is_number: bool = False
    may_be_cut: bool = False


_COLUMNS = (
    _Column("time", 14, rank=7),
    _Column("span id", 16, rank=1),
    _Column("model", 8, rank=5, may_be_cut=True),
    _Column("outcome", 9, rank=2, may_be_cut=True),
    _Column("finish", 6, rank=9, may_be_cut=True),
    _Column("in", 4, rank=3, is_number=True),
    _Column("out", 4, rank=4, is_number=True),
    _Column("ttft", 6, rank=8, is_number=True),
    _Column("took", 6, rank=6, is_number=True),
    _Column("state", 5, rank=10, may_be_cut=True),
)


def print_table(
    console: Console,
    calls: Iterable[RecordedCall],
    *,
    above: Sequence[str] = (),
    zone: tzinfo | None = None,
) -> tuple[str, ...]:
    """Print one row per call, and return the titles of its columns.

    A line of titles comes first, unless they are those of the rows `above`. Times are local, or of
    `zone`.
    """
    rows = [dict(zip(_COLUMNS, _row(call, zone), strict=True)) for call in calls]
    gap = 2 if console.width >= WIDE_COLUMNS else 1
    widths = _fit_columns(rows, console.width, gap)
    if (titles := tuple(column.title for column in widths)) != tuple(above):
        rows.insert(0, {column: Text(column.title, style="bold") for column in widths})
    for row in rows:
        line = Text()
        for column, width in widths.items():
            text = _cut(row[column], width)
            text.align("right" if column.is_number else "left", width)
            line.append_text(text).append(" " * gap)
        line.rstrip()
        console.print(line, soft_wrap=True)
    return titles


def _fit_columns(rows: Sequence[Mapping[_Column, Text]], room: int, gap: int) -> dict[_Column, int]:
    """Choose the columns that have room, and their widths (rule 2)."""
    wanted = {
        column: max([column.width, *(row[column].cell_len for row in rows)]) for column in _COLUMNS
    }
    widths: dict[_Column, int] = {}
    room += gap  # none behind the last
    for column in sorted(_COLUMNS, key=lambda column: column.rank):
        width = column.width if column.may_be_cut else wanted[column]
        if widths and room < width + gap:
            break
        widths[column] = width
        room -= width + gap
    for column, width in widths.items():
        widths[column] = min(wanted[column], width + max(room, 0))
        room -= widths[column] - width
    return {column: widths[column] for column in _COLUMNS if column in widths}


def _cut(text: Text, width: int) -> Text:
    """Cut a text to a width, with an ellipsis; half a number goes as a whole."""
    text = text.copy()
    if text.cell_len > width:
        text.truncate(width, overflow="ellipsis")
        whole = text.plain.removesuffix("…").rstrip("0123456789.,")
        text.right_crop(len(text) - len(whole))
        text.append("…")
    return text


def format_duration(duration_ns: float) -> str:
    """Write a duration with a fitting precision: ``131 ms``, ``2.04 s``, ``3 min 05 s``."""
    seconds = duration_ns / 1e9
    # The bounds are where the shorter form would round up to the next unit.
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(int(seconds + 0.005), 60)
    return f"{minutes} min {rest:02d} s"


def _row(call: RecordedCall, zone: tzinfo | None) -> Iterator[Text]:
    summary = call.summary
    yield Text(f"{local_time(summary.start_ns, zone):%m-%d %H:%M:%S}")
    yield Text(summary.span_id, style="bold")
    yield cell(summary.model)
    yield outcome_cell(call)
    yield cell(call.finish_reason)
    yield cell(summary.prompt_tokens)
    yield cell(summary.completion_tokens)
    yield cell(None if call.ttft_ms is None else format_duration(call.ttft_ms * 1e6))
    yield cell(format_duration(call.duration_ns))
    yield cell(summary.state)


def outcome_cell(call: RecordedCall) -> Text:
    """Write the outcome of a call, and the type of its error where that says more."""
    words = call.summary.outcome
    if call.error_type and call.error_type != words:
        words = f"{words} {call.error_type}"
    text = cell(words)
    text.stylize(_STATUS_STYLES[call.summary.status])
    return text


def cell(value: object) -> Text:
    """Escape a value and cut it to :data:`MAX_CELL_CHARACTERS`; a dash where it is absent."""
    if value is None:
        return _ABSENT.copy()
    return _cut(Text(escape_line(str(value))), MAX_CELL_CHARACTERS)


def local_time(at_ns: int, zone: tzinfo | None) -> datetime:
    """Convert a time to a zone, by default the local one."""
    # By whole microseconds: a float of seconds does not hold today's nanoseconds.
    moment = datetime.fromtimestamp(at_ns // 1_000_000_000, UTC)
    return moment.replace(microsecond=at_ns // 1_000 % 1_000_000).astimezone(zone)
