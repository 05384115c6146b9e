"""Tables on a terminal, of recorded calls and other things: as many columns as fit.

A row is one line. A number is never cut, because half a number is a wrong number: on a narrow
terminal whole columns are left out, the least important first (:class:`Column`, ``rank``). Words
are cut, with an ellipsis. An id is whole, or only its first digits are shown: ``show`` finds the
call with them. The row of a call is made only from the columns of the store, never from a span's
bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.text import Text

from proxy.commands.amounts import format_dollars, format_duration, local_time, write_call_cost
from proxy.escape import escape_line
from telemetry.fact import Form
from telemetry.facts import FACTS
from telemetry.launch_labels import read_name
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from rich.console import Console

    from telemetry.fact import Fact, TerminalColumn
    from telemetry.store.rows import SpanSummary

WIDE_COLUMNS: Final = 150
"""From this width on, the gap between columns is two spaces; on a narrower terminal it is one."""


class Column(NamedTuple):
    """A column.

    Attributes:
        width: the width of usual contents, so that consecutive tables have the same columns.
        rank: the order in which columns get room.
        is_number: its cells are aligned to the right.
        may_be_cut: its words may be cut to its width.
        is_id: its cells are ids, of which the first digits are enough.
        wide: the width that it gets before columns of a greater `wide_rank`; 0 for none.
    """

    title: str
    width: int
    rank: int
    is_number: bool = False
    may_be_cut: bool = False
    is_id: bool = False
    wide: int = 0
    wide_rank: int = 0


def print_rows(
    console: Console,
    columns: Sequence[Column],
    rows: Sequence[Mapping[Column, Text]],
    *,
    above: Mapping[str, int] | None = None,
    whole_ids: bool = False,
    kept: str = "",
    marks: set[str] | None = None,
) -> Mapping[str, int]:
    """Print rows, a line each, and return the columns: their titles, each with its width.

    Args:
        console: a terminal, whose width counts, or anything else, for which nothing is cut.
        columns: in their order on a line.
        rows: the cell of each column.
        above: the columns of the rows above, which these rows continue. A line of titles comes
            first, unless the columns are the same.
        whole_ids: show whole ids, even if most other columns do not fit then.
        kept: the title of a column that gets room before all others.
        marks: gets the marks that are shown (:func:`explain_marks`).
    """
    above = above or {}
    gap = 2 if console.width >= WIDE_COLUMNS else 1
    wanted = {
        column: max(
            [column.width, above.get(column.title, 0), *(row[column].cell_len for row in rows)]
        )
        for column in columns
    }
    fitted = _fit(wanted, console.width + gap, gap, kept, whole_ids=whole_ids)
    titles = {column.title: width for column, width in fitted.items()}
    if marks is not None:
        marks.update(*(_find_marks(column, row[column].plain) for row in rows for column in fitted))
    if [*titles] != [*above]:
        rows = [{column: Text(column.title, style="bold") for column in fitted}, *rows]
    if rows:
        lines = [_lay_out(row, fitted, gap) for row in rows]
        console.print(Text("\n").join(lines), soft_wrap=True)  # at once: it takes a third less
    return titles


def _lay_out(row: Mapping[Column, Text], widths: Mapping[Column, int], gap: int) -> Text:
    """Make a line of a row, each cell in its width, without spaces at the end."""
    line = Text()
    for column, width in widths.items():
        text = row[column]
        if (room := width - text.cell_len) < 0:
            text = text[:width] if column.is_id else cut_text(text, width)
            room = width - text.cell_len
        before, behind = (room, gap) if column.is_number else (0, room + gap)
        line.append(" " * before).append_text(text).append(" " * behind)
    line.rstrip()
    return line


_MARKS: Final = {
    "*": "a cost is missing for some of the calls",
    "!": "some have failed",
    "↳": "another agent asked this",
    "✓": "a tool has answered",
    "✗": "a tool has failed",
}
"""The marks that cells have, and what they mean. The first two are behind numbers."""


def _find_marks(column: Column, text: str) -> Iterable[str]:
    if column.is_number:
        return {text[-1:]} & {"*", "!"}
    return {"↳", "✓", "✗"}.intersection(text) if column.title == "what" else ()


def explain_marks(marks: Iterable[str]) -> str:
    """Explain the marks of a table.

    >>> explain_marks({"!", "*"})
    '`*`: a cost is missing for some of the calls; `!`: some have failed'
    """
    return "; ".join(f"`{mark}`: {words}" for mark, words in _MARKS.items() if mark in marks)


def find_title(fact: str) -> str:
    """Find the title of the column of a fact; empty if it has none."""
    return next((column.title for one, column in _SHOWN if one.name == fact), "")


def _fit(
    wanted: Mapping[Column, int], room: int, gap: int, kept: str, *, whole_ids: bool
) -> dict[Column, int]:
    """Choose the columns that fit, and their widths.

    The rest of the width goes to words that are cut, first to those that lack least, and then to
    ids.

    Args:
        wanted: the width of all cells of each column.
        room: the width of a line, with a gap after each column.
        gap: the gap between two columns.
        kept: the title of the first column that gets room; empty for the one of the first rank.
        whole_ids: show whole ids, even if most other columns do not fit then.
    """
    widths: dict[Column, int] = {}
    steps = [
        (0 if kept and column.title == kept else column.rank, column, False) for column in wanted
    ]
    steps += [(column.wide_rank, column, True) for column in wanted if column.wide]
    for _, column, is_wider in sorted(steps, key=lambda step: step[0]):
        is_short = column.may_be_cut or (column.is_id and not whole_ids)
        width = column.width if is_short else wanted[column]
        needed = width + gap
        if is_wider:
            width, needed = column.wide, column.wide - width
        if widths and room < needed:
            break
        widths[column] = width
        room -= needed
    words = [column for column in widths if column.may_be_cut]
    for column in sorted(words, key=lambda column: wanted[column] - widths[column]):
        width = widths[column]
        widths[column] = max(width, min(wanted[column], width + max(room, 0)))
        room -= widths[column] - width
    for column, width in widths.items():
        if column.is_id and room >= wanted[column] - width:
            widths[column] = wanted[column]
    return {column: widths[column] for column in wanted if column in widths}


def cut_text(text: Text, width: int) -> Text:
    """Cut a text to a width, with an ellipsis; half a number is left out.

    A text that fits is returned unchanged.
    """
    if text.cell_len <= width:
        return text
    text = text.copy()
    text.truncate(width, overflow="ellipsis")
    whole = text.plain.removesuffix("…").rstrip("0123456789.,")
    text.right_crop(len(text) - len(whole))
    text.append("…")
    return text


MAX_CELL_CHARACTERS: Final = 48
"""A longer model name, for example, is cut in the table; ``show`` has all of it."""

_STATUS_STYLES = {"OK": "green", "ERROR": "red", "UNSET": "yellow"}
_ABSENT = Text("-", style="dim")


_SHOWN: Final = sorted(
    ((fact, fact.terminal) for fact in FACTS if fact.terminal is not None),
    key=lambda shown: shown[1].place,
)

COLUMNS: Final = tuple(
    Column(
        column.title,
        column.width,
        column.rank,
        is_number=fact.form.is_number,
        may_be_cut=fact.form.value_type is str and fact.form is not Form.ID,
        is_id=fact.form is Form.ID,
        wide=column.wide,
        wide_rank=column.wide_rank,
    )
    for fact, column in _SHOWN
)
"""The columns in their order on a line. A terminal of 34 columns has those of the first four ranks,
one of 80 the first eight, one of 150 all of them."""


def print_table(
    console: Console,
    calls: Iterable[SpanSummary],
    *,
    above: Mapping[str, int] | None = None,
    whole_ids: bool = False,
    kept: str = "",
    marks: set[str] | None = None,
    zone: tzinfo | None = None,
) -> Mapping[str, int]:
    """Print a row for each call, and return the columns: their titles, each with its width.

    Args:
        console: a terminal, whose width counts, or anything else, for which nothing is cut.
        calls: the rows; all their cells are held in memory.
        above: the columns of the rows above, which these rows continue. A line of titles comes
            first, unless the columns are the same.
        whole_ids: show whole ids, even if most other columns do not fit then.
        kept: the title of a column that gets room before all others.
        marks: gets the marks that are shown (:func:`explain_marks`).
        zone: the time zone of the times; by default the local one.
    """
    rows = [dict(zip(COLUMNS, _row(call, zone), strict=True)) for call in calls]
    return print_rows(
        console, COLUMNS, rows, above=above, whole_ids=whole_ids, kept=kept, marks=marks
    )


def _row(call: SpanSummary, zone: tzinfo | None) -> Iterator[Text]:
    for draw in _CELLS:
        yield draw(call, zone)


def outcome_cell(call: SpanSummary, error_type: str | None) -> Text:
    """Write the outcome of a call, and the type of its error if that says more."""
    words = call.outcome
    if call.status == "ERROR" and not is_call(call.columns.kind):  # a tool that failed has answered
        words = "failed"
    if error_type and error_type != words:
        words = f"{words} {error_type}"
    text = cell(words)
    text.stylize(_STATUS_STYLES[call.status])
    return text


def cell(value: object, limit: int = MAX_CELL_CHARACTERS) -> Text:
    """Escape a value and cut it to a number of characters; a dash if it is absent."""
    if value is None:
        return _ABSENT.copy()
    return cut_text(Text(escape_line(str(value))), limit)


def make_drawer(fact: Fact, column: TerminalColumn) -> Callable[[SpanSummary, tzinfo | None], Text]:
    """Make the function that draws the cells of a fact in a time zone."""
    get, limit = fact.get, column.most_chars or MAX_CELL_CHARACTERS
    if fact.name == "outcome":
        return lambda call, _: outcome_cell(call, call.columns.error_type)
    if fact.name == "what":
        return lambda call, _: _what_cell(call, get(call), limit)
    if fact.name == "cost_usd":
        return lambda call, _: cell(write_call_cost(call.columns))
    if fact.form is Form.ID:
        return lambda call, _: _id_cell(get(call))
    if fact.form is Form.TIME:
        return lambda call, zone: _time_cell(get(call), zone)
    write = _WRITERS.get(fact.form, str)
    if fact.form is Form.ITEMS:
        write = lambda joined: ", ".join(joined.split(fact.separators))  # noqa: E731 - as the others
    return lambda call, _: cell(None if (value := get(call)) is None else write(value), limit)


def _what_cell(call: SpanSummary, what: str | None, limit: int) -> Text:
    """Write what is new in a call, or what a tool did; the row of a tool that failed is marked."""
    text = cell(what, limit)
    if call.status != "ERROR" or is_call(call.columns.kind):
        return text
    return Text("✗ ", style="red").append_text(text)


def _id_cell(value: str | None) -> Text:
    """Write a whole id, which may be a provider's text."""
    return cell(None) if value is None else Text(escape_line(value), style="bold")


def _time_cell(at_ns: int | None, zone: tzinfo | None) -> Text:
    return cell(None) if at_ns is None else Text(f"{local_time(at_ns, zone):%m-%d %H:%M:%S}")


_WRITERS: Final[dict[Form, Callable[[Any], str]]] = {
    Form.DOLLARS: format_dollars,
    Form.DURATION: format_duration,
    Form.FLAG: lambda flag: "yes" if flag else "no",
    Form.LABEL: read_name,
}

_CELLS: Final = tuple(make_drawer(fact, column) for fact, column in _SHOWN)
"""The functions that draw the cells of the columns."""
