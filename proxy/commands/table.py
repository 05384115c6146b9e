"""Recorded calls as a table on a terminal: a row each, as much of it as there is room for.

Rules, beside those of :mod:`proxy.commands.render`:

1. A row is one line. An id is whole, or its first :data:`ID_DIGITS` digits, by which ``show`` finds
   the call; never anything else of it.
2. No number is cut, for half of one is a wrong one: where a terminal is too narrow whole columns
   are left out, those that say least first (:class:`_Column`, ``rank``). Words are cut where that
   makes room, with an ellipsis.
3. What is left of the width goes to words that are cut, and then to the ids.
4. A row is made of the columns of the store alone, never of a span's bytes
   (``page-and-conversations.md`` section 0).
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import floor, log10
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.text import Text

from proxy.escape import escape_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from rich.console import Console

    from telemetry.store.rows import SpanSummary

__all__ = (
    "ID_DIGITS",
    "cell",
    "format_dollars",
    "format_duration",
    "local_time",
    "outcome_cell",
    "print_table",
)

MAX_CELL_CHARACTERS: Final = 48
"""A longer model name or the like is cut in the table; in full it is one ``show`` away."""

MAX_PREVIEW_CHARACTERS: Final = 120
"""The most characters of what was asked: as much as the store has of it."""

ID_DIGITS: Final = 8
"""Digits of a span id that is not shown whole: of a million calls some hundred share theirs with
another, and ``show`` then lists both."""

WIDE_COLUMNS: Final = 130
"""The terminal width from which columns stand two apart; in a narrower one it is one."""

_STATUS_STYLES = {"OK": "green", "ERROR": "red", "UNSET": "yellow"}
_ABSENT = Text("-", style="dim")


class _Column(NamedTuple):
    """A column.

    Attributes:
        width: of usual contents, so that tables printed one after the other stand in line.
        rank: the order in which columns get room (rule 2).
        is_number: it stands on the right.
        may_be_cut: its words may, to its width.
    """

    title: str
    width: int
    rank: int
    is_number: bool = False
    may_be_cut: bool = False


_ID = _Column("id", ID_DIGITS, rank=1)

_COLUMNS = (
    _Column("time", 14, rank=7),
    _ID,
    _Column("model", 8, rank=3, may_be_cut=True),
    _Column("client", 8, rank=12, may_be_cut=True),
    _Column("what", 16, rank=6, may_be_cut=True),
    _Column("in", 5, rank=4, is_number=True),
    _Column("out", 4, rank=5, is_number=True),
    _Column("cached", 6, rank=11, is_number=True),
    _Column("ttft", 6, rank=9, is_number=True),
    _Column("took", 6, rank=8, is_number=True),
    _Column("cost", 6, rank=10, is_number=True),
    _Column("outcome", 9, rank=2, may_be_cut=True),
    _Column("state", 5, rank=13, may_be_cut=True),
)
"""The columns in their order on a line. A terminal of 34 columns has those of the first four ranks,
one of 80 the first eight, one of 130 all of them."""

_BY_RANK = sorted(_COLUMNS, key=lambda column: column.rank)


def print_table(
    console: Console,
    calls: Iterable[SpanSummary],
    *,
    above: Mapping[str, int] | None = None,
    whole_ids: bool = False,
    zone: tzinfo | None = None,
) -> Mapping[str, int]:
    """Print one row per call, and return the columns: their titles, each with its width.

    Args:
        console: a terminal, whose width counts, or anything else, for which nothing is cut.
        calls: the rows; all of their cells are held in memory.
        above: the columns of the rows that stand there already, which these go on. A line of titles
            comes first, unless they are the same.
        whole_ids: rather than most of the other columns.
        zone: of the times that are shown; by default the local one.
    """
    above = above or {}
    rows = [dict(zip(_COLUMNS, _row(call, zone), strict=True)) for call in calls]
    gap = 2 if console.width >= WIDE_COLUMNS else 1
    fitted = _fit_columns(rows, console.width, gap, above, whole_ids=whole_ids)
    titles = {column.title: width for column, width in fitted.items()}
    if [*titles] != [*above]:
        rows.insert(0, {column: Text(column.title, style="bold") for column in fitted})
    for row in rows:
        line = Text()
        for column, width in fitted.items():
            text = row[column]
            text = text[:width] if column is _ID else _cut(text, width)
            text.align("right" if column.is_number else "left", width)
            line.append_text(text).append(" " * gap)
        line.rstrip()
        console.print(line, soft_wrap=True)
    return titles


def _fit_columns(
    rows: Sequence[Mapping[_Column, Text]],
    room: int,
    gap: int,
    above: Mapping[str, int],
    *,
    whole_ids: bool,
) -> dict[_Column, int]:
    """Choose the columns that have room, and their widths (rules 2 and 3)."""
    wanted = {
        column: max(
            [
                column.width,
                above.get(column.title, 0),
                *(row[column].cell_len for row in rows),
            ]
        )
        for column in _COLUMNS
    }
    widths: dict[_Column, int] = {}
    room += gap  # none behind the last
    for column in _BY_RANK:
        is_short = column.may_be_cut or (column is _ID and not whole_ids)
        width = column.width if is_short else wanted[column]
        if widths and room < width + gap:
            break
        widths[column] = width
        room -= width + gap
    for column, width in widths.items():
        if column.may_be_cut:
            widths[column] = min(wanted[column], width + max(room, 0))
            room -= widths[column] - width
    if room >= wanted[_ID] - widths[_ID]:
        widths[_ID] = wanted[_ID]
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


def format_dollars(amount: float) -> str:
    """Write six significant digits, never a power of ten."""
    digits = max(2, 5 - floor(log10(amount))) if amount > 0 else 2
    text = f"{amount:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _row(call: SpanSummary, zone: tzinfo | None) -> Iterator[Text]:
    columns = call.columns
    yield Text(f"{local_time(call.start_ns, zone):%m-%d %H:%M:%S}")
    yield Text(call.span_id, style="bold")
    yield cell(call.model)
    yield cell(columns.client)
    yield cell(columns.preview, MAX_PREVIEW_CHARACTERS)
    yield cell(call.prompt_tokens)
    yield cell(call.completion_tokens)
    yield cell(columns.cached_tokens)
    yield cell(None if columns.ttft_ns is None else format_duration(columns.ttft_ns))
    yield cell(format_duration(call.end_ns - call.start_ns))
    yield cell(None if columns.cost_usd is None else format_dollars(columns.cost_usd))
    yield outcome_cell(call, columns.error_type)
    yield cell(call.state)


def outcome_cell(call: SpanSummary, error_type: str | None) -> Text:
    """Write the outcome of a call, and the type of its error where that says more."""
    words = call.outcome
    if error_type and error_type != words:
        words = f"{words} {error_type}"
    text = cell(words)
    text.stylize(_STATUS_STYLES[call.status])
    return text


def cell(value: object, limit: int = MAX_CELL_CHARACTERS) -> Text:
    """Escape a value and cut it to a number of characters; a dash where it is absent."""
    if value is None:
        return _ABSENT.copy()
    return _cut(Text(escape_line(str(value))), limit)


def local_time(at_ns: int, zone: tzinfo | None) -> datetime:
    """Convert a time to a zone, by default the local one."""
    # By whole microseconds: a float of seconds does not hold today's nanoseconds.
    moment = datetime.fromtimestamp(at_ns // 1_000_000_000, UTC)
    return moment.replace(microsecond=at_ns // 1_000 % 1_000_000).astimezone(zone)
