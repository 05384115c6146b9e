"""``spantap stats --by conversation`` and ``--by run``: what each comes to, the dearest first.

Only the calls that fit the filter are summed up, of a run without its sub-agents. A title is the
name of the launch and the first question that the user asked. Calls that are in none have a row
together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from proxy.commands.amounts import format_cost, format_dollars, format_duration, local_time
from proxy.commands.table import Column, cell, print_rows
from proxy.reading.record import encode_line, format_time
from proxy.reading.sum_members import build_sums
from telemetry.facts import MAX_PREVIEW_CHARS
from telemetry.launch_labels import find_name, write_title

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from rich.console import Console

    from codec.text.jsontext import JsonObject
    from telemetry.reading.calls import Calls
    from telemetry.reading.groups import GroupSums

_NUMBERS = (
    Column("calls", 5, rank=4, is_number=True),
    Column("errors", 6, rank=5, is_number=True),
    Column("in", 7, rank=7, is_number=True),
    Column("cached", 6, rank=9, is_number=True),
    Column("out", 6, rank=8, is_number=True),
    Column("took", 7, rank=6, is_number=True),
    Column("saved", 7, rank=10, is_number=True),
    Column("unpriced", 8, rank=12, is_number=True),
    Column("cost", 8, rank=2, is_number=True),
)


def show_dearest(
    reader: Calls,
    by: str,
    limit: int,
    console: Console,
    *,
    as_json: bool,
    marks: set[str],
    zone: tzinfo | None = None,
) -> int | None:
    """Show conversations or runs; return how many are left out, ``None`` if there is no call."""
    found = reader.dearest_groups(by, limit)
    if found.total is None:
        return None
    if as_json:
        for sums in found.groups:
            console.out(encode_line(_build_record(sums, by)))
        console.out(encode_line(_build_record(found.total, None)))
        return found.left_out
    columns = (
        Column(by, max(len(by), 5), rank=1, is_number=True),
        Column("time", 14, rank=11),
        Column("what", 16, rank=3, may_be_cut=True),
        *_NUMBERS,
    )
    named = [(cell(sums.key), _name_title(sums, by), sums) for sums in found.groups]
    named.append((Text("all", style="bold"), Text(), found.total))
    rows = [(name, _time(sums, zone), what, *_cells(sums)) for name, what, sums in named]
    print_rows(
        console, columns, [dict(zip(columns, row, strict=True)) for row in rows], marks=marks
    )
    return found.left_out


def _name_title(sums: GroupSums, by: str) -> Text:
    if sums.key is None:
        return Text(f"calls of no {by}", style="dim")
    return cell(write_title(sums.launch, sums.title), MAX_PREVIEW_CHARS)


def _time(sums: GroupSums, zone: tzinfo | None) -> Text:
    if not _is_timed(sums):
        return Text()
    return Text(f"{local_time(sums.start_ns, zone):%m-%d %H:%M:%S}")


def _is_timed(sums: GroupSums) -> bool:
    """Tell whether it is a conversation or a run: calls of none have no time together."""
    return sums.key is not None and bool(sums.start_ns)


def _cells(sums: GroupSums) -> Iterator[Text]:
    share = (sums.cached_tokens or 0) / sums.prompt_tokens if sums.prompt_tokens else None
    took_ns = sums.end_ns - sums.start_ns
    star = "*" if sums.unpriced else ""
    yield cell(sums.calls)
    yield Text(str(sums.errors), style="red" if sums.errors else "")
    yield cell(sums.prompt_tokens)
    yield cell(None if share is None else f"{share:.0%}")
    yield cell(sums.completion_tokens)
    yield cell(format_duration(took_ns)) if _is_timed(sums) else Text()
    yield cell(format_dollars(sums.saved_usd or 0) if sums.priced else None)
    yield cell(sums.unpriced)
    cost = format_cost(sums.cost_usd or 0, sums.list_usd) if sums.priced else None
    yield cell(cost and f"{cost}{star}")


def _build_record(sums: GroupSums, by: str | None) -> JsonObject:
    is_timed = _is_timed(sums)
    return {
        "by": by,
        "key": sums.key,
        "title": sums.title,
        "launch": find_name(sums.launch),
        **build_sums(sums),
        "start_time": format_time(sums.start_ns) if is_timed else None,
        "end_time": format_time(sums.end_ns) if is_timed else None,
        "took_ms": (sums.end_ns - sums.start_ns) / 1e6 if is_timed else None,
    }
