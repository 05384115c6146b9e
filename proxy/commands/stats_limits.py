"""``spantap stats --by limit``: how near each rate limit of a provider came.

A row is a limit of an upstream, for one model. It has the lowest share that was left, in which call
that was, and when the limit began anew, as the provider wrote it. Only the newest calls are read
(:mod:`telemetry.reading.limits`), and a line says so if there are more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from proxy.commands.amounts import local_time
from proxy.commands.table import Column, cell, print_rows
from proxy.reading.record import build_limit_record, encode_line, format_time
from telemetry.facts import ID_DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from codec.text.jsontext import JsonObject
    from proxy.commands.store_command import StoreCommand
    from telemetry.reading.calls import Calls
    from telemetry.reading.limits import Nearest

MAX_SECONDS: Final = 10.0
"""How long calls are read: longer than usual, for spans of a megabyte each."""

_COLUMNS: Final = (
    Column("limit", 16, rank=1, may_be_cut=True),
    Column("left", 5, rank=2, is_number=True),
    Column("remaining", 9, rank=4, is_number=True),
    Column("of", 9, rank=5, is_number=True),
    Column("reset", 10, rank=6, may_be_cut=True),
    Column("when", 14, rank=3),
    Column("model", 12, rank=7, may_be_cut=True),
    Column("upstream", 8, rank=8, may_be_cut=True),
    Column("calls", 5, rank=9, is_number=True),
    Column("id", ID_DIGITS, rank=10),
)


def show_limits(
    reader: Calls, limit: int, command: StoreCommand, console: Console, *, as_json: bool
) -> int | None:
    """Show limits, the nearest first; return how many are left out.

    ``None`` if no call says what is left of one, and nothing is shown.
    """
    found = reader.limits(MAX_SECONDS)
    if not found.is_whole:
        command.tell(f"of the newest {found.calls} calls; `until:` and the like choose others.")
    if not found.nearest:
        return None
    shown = found.nearest[:limit]
    if as_json:
        for one in shown:
            console.out(encode_line(_build_record(one)))
    else:
        rows = [dict(zip(_COLUMNS, _cells(one), strict=True)) for one in shown]
        print_rows(console, _COLUMNS, rows)
    return len(found.nearest) - len(shown)


def _cells(one: Nearest) -> Iterator[Text]:
    lowest, row = one.lowest, one.row
    yield cell(lowest.name)
    yield Text(f"{lowest.left:.0%}", style="red" if lowest.is_near else "")
    yield cell(_write_amount(lowest.remaining))
    yield cell(_write_amount(lowest.limit))
    yield cell(lowest.reset)
    yield Text(f"{local_time(row.start_ns, None):%m-%d %H:%M:%S}")
    yield cell(one.model)
    yield cell(one.upstream)
    yield cell(one.calls)
    yield cell(row.span_id[:ID_DIGITS])


def _write_amount(amount: float | None) -> str | None:
    return None if amount is None else f"{amount:.15g}"


def _build_record(one: Nearest) -> JsonObject:
    lowest, row = one.lowest, one.row
    record = build_limit_record(lowest)
    return {
        "by": "limit",
        "key": record.pop("name"),
        "upstream": one.upstream,
        "model": one.model,
        "calls": one.calls,
        **record,
        "time": format_time(row.start_ns),
        "span_id": row.span_id,
    }
