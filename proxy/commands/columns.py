"""Rows of a table on a terminal: as many columns as there is room for.

Rules:

1. A row is one line. An id is whole, or its first digits as far as its column is wide; never
   anything else of it.
2. No number is cut, for half of one is a wrong one: where a terminal is too narrow whole columns
   are left out, those that say least first (:class:`Column`, ``rank``). Words are cut where that
   makes room, with an ellipsis.
3. What is left of the width goes to words that are cut, those that lack least first, and then to
   the ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

WIDE_COLUMNS: Final = 130
"""The terminal width from which columns stand two apart; in a narrower one it is one."""


class Column(NamedTuple):
    """A column.

    Attributes:
        width: of usual contents, so that tables printed one after the other stand in line.
        rank: the order in which columns get room (rule 2).
        is_number: it stands on the right.
        may_be_cut: its words may, to its width.
        is_id: its digits may be fewer (rule 1).
    """

    title: str
    width: int
    rank: int
    is_number: bool = False
    may_be_cut: bool = False
    is_id: bool = False


def print_rows(
    console: Console,
    columns: Sequence[Column],
    rows: Sequence[Mapping[Column, Text]],
    *,
    above: Mapping[str, int] | None = None,
    whole_ids: bool = False,
) -> Mapping[str, int]:
    """Print rows, a line each, and return the columns: their titles, each with its width.

    Args:
        console: a terminal, whose width counts, or anything else, for which nothing is cut.
        columns: in their order on a line.
        rows: by column the cell.
        above: the columns of the rows that stand there already, which these go on. A line of titles
            comes first, unless they are the same.
        whole_ids: rather than most of the other columns.
    """
    above = above or {}
    gap = 2 if console.width >= WIDE_COLUMNS else 1
    wanted = {
        column: max(
            [column.width, above.get(column.title, 0), *(row[column].cell_len for row in rows)]
        )
        for column in columns
    }
    fitted = _fit(wanted, console.width + gap, gap, whole_ids=whole_ids)
    titles = {column.title: width for column, width in fitted.items()}
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


def _fit(
    wanted: Mapping[Column, int], room: int, gap: int, *, whole_ids: bool
) -> dict[Column, int]:
    """Choose the columns that have room, and their widths (rules 2 and 3).

    Args:
        wanted: by column the width of all its cells.
        room: of a line, with a gap behind each column.
        gap: between two columns.
        whole_ids: rather than most of the other columns.
    """
    widths: dict[Column, int] = {}
    for column in sorted(wanted, key=lambda column: column.rank):
        is_short = column.may_be_cut or (column.is_id and not whole_ids)
        width = column.width if is_short else wanted[column]
        if widths and room < width + gap:
            break
        widths[column] = width
        room -= width + gap
    words = [column for column in widths if column.may_be_cut]
    for column in sorted(words, key=lambda column: wanted[column] - widths[column]):
        width = widths[column]
        widths[column] = min(wanted[column], width + max(room, 0))
        room -= widths[column] - width
    for column, width in widths.items():
        if column.is_id and room >= wanted[column] - width:
            widths[column] = wanted[column]
    return {column: widths[column] for column in wanted if column in widths}


def cut_text(text: Text, width: int) -> Text:
    """Cut a text to a width, with an ellipsis; half a number goes as a whole.

    What fits is returned as it is.
    """
    if text.cell_len <= width:
        return text
    text = text.copy()
    text.truncate(width, overflow="ellipsis")
    whole = text.plain.removesuffix("…").rstrip("0123456789.,")
    text.right_crop(len(text) - len(whole))
    text.append("…")
    return text
