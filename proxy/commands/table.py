"""Recorded calls as a table on a terminal: a row each, as much of it as there is room for.

Rules, beside those of :mod:`proxy.commands.render` and :mod:`proxy.commands.columns`:

1. An id is whole, or its first :data:`ID_DIGITS` digits, by which ``show`` finds the call.
2. A row is made of the columns of the store alone, never of a span's bytes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import floor, log10
from typing import TYPE_CHECKING, Final

from rich.text import Text

from proxy.commands.columns import Column, cut_text, print_rows
from proxy.escape import escape_line
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import tzinfo

    from rich.console import Console

    from telemetry.store.rows import SpanSummary

MAX_CELL_CHARACTERS: Final = 48
"""A longer model name or the like is cut in the table; in full it is one ``show`` away."""

MAX_PREVIEW_CHARACTERS: Final = 120
"""The most characters of what was asked: as much as the store has of it."""

ID_DIGITS: Final = 8
"""Digits of a span id that is not shown whole: of a million calls some hundred share theirs with
another, and ``show`` then lists both."""

_STATUS_STYLES = {"OK": "green", "ERROR": "red", "UNSET": "yellow"}
_ABSENT = Text("-", style="dim")


_ID = Column("id", ID_DIGITS, rank=1, is_id=True)

COLUMNS = (
    Column("time", 14, rank=7),
    _ID,
    Column("model", 8, rank=3, may_be_cut=True),
    Column("client", 8, rank=12, may_be_cut=True),
    Column("what", 16, rank=6, may_be_cut=True),
    Column("in", 5, rank=4, is_number=True),
    Column("out", 4, rank=5, is_number=True),
    Column("cached", 6, rank=11, is_number=True),
    Column("ttft", 6, rank=9, is_number=True),
    Column("took", 6, rank=8, is_number=True),
    Column("cost", 6, rank=10, is_number=True),
    Column("outcome", 9, rank=2, may_be_cut=True),
    Column("state", 5, rank=13, may_be_cut=True),
)
"""The columns in their order on a line. A terminal of 34 columns has those of the first four ranks,
one of 80 the first eight, one of 130 all of them."""


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
    rows = [dict(zip(COLUMNS, _row(call, zone), strict=True)) for call in calls]
    return print_rows(console, COLUMNS, rows, above=above, whole_ids=whole_ids)


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
    yield cell(_what(call), MAX_PREVIEW_CHARACTERS)
    yield cell(call.prompt_tokens)
    yield cell(call.completion_tokens)
    yield cell(columns.cached_tokens)
    yield cell(None if columns.ttft_ns is None else format_duration(columns.ttft_ns))
    yield cell(format_duration(call.end_ns - call.start_ns))
    yield cell(None if columns.cost_usd is None else format_dollars(columns.cost_usd))
    yield outcome_cell(call, columns.error_type)
    yield cell(call.state)


def _what(call: SpanSummary) -> str | None:
    """What was asked; of a row that is no call its name, where nobody asked anything."""
    preview = call.columns.preview
    return call.name if preview is None and not is_call(call.columns.kind) else preview


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
    return cut_text(Text(escape_line(str(value))), limit)


def local_time(at_ns: int, zone: tzinfo | None) -> datetime:
    """Convert a time to a zone, by default the local one."""
    # By whole microseconds: a float of seconds does not hold today's nanoseconds.
    moment = datetime.fromtimestamp(at_ns // 1_000_000_000, UTC)
    return moment.replace(microsecond=at_ns // 1_000 % 1_000_000).astimezone(zone)
