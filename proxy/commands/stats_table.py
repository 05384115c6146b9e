"""Sums of calls as a table on a terminal, or as lines of JSON.

An unknown amount is a dash, or ``null``. One that is known only for some calls has a star; in JSON
``priced`` says for how many.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.text import Text

from proxy.commands.amounts import format_cost, format_dollars, format_duration, local_time
from proxy.commands.table import Column, cell, print_rows
from proxy.reading.sum_members import build_costs, round_dollars
from telemetry.facts import RANKED, SUMMED
from telemetry.reading.sums import HOUR_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import tzinfo

    from rich.console import Console

    from codec.text.jsontext import JsonObject
    from telemetry.pricing.repricing import Repricing
    from telemetry.reading.calls import CallUsages
    from telemetry.reading.sums import CallSums, Ranks

_ALL: Final = "all"
"""The name of the row of all calls."""

_NUMBERS = (
    Column("calls", 6, rank=2, is_number=True),
    Column("errors", 6, rank=3, is_number=True),
    Column("in", 8, rank=5, is_number=True),
    Column("out", 8, rank=6, is_number=True),
    Column("cached", 6, rank=12, is_number=True),
    Column("out/s", 6, rank=9, is_number=True),
    Column("took p50", 8, rank=7, is_number=True),
    Column("p90", 7, rank=13, is_number=True),
    Column("p99", 7, rank=14, is_number=True),
    Column("ttft p50", 8, rank=8, is_number=True),
    Column("ttft p90", 8, rank=15, is_number=True),
    Column("ttft p99", 8, rank=16, is_number=True),
    Column("saved", 7, rank=10, is_number=True),
    Column("unpriced", 8, rank=11, is_number=True),
    Column("cost", 8, rank=4, is_number=True),
)
"""The columns after the first, in their order on a line."""

_KEY_WIDTH: Final = 12


class Repriced(NamedTuple):
    """What calls would have cost.

    Attributes:
        name: the model whose price is used.
        by_key: for each group, the dollars and the number of calls that have a price.
        total: the same for all calls.
    """

    name: str
    by_key: Mapping[str | int, tuple[float, int]]
    total: tuple[float, int]

    def find(self, key: str | int, by: str) -> tuple[float, int]:
        """Find the cost of a group, or of all calls if `by` is empty."""
        return self.by_key.get(key, (0.0, 0)) if by else self.total


def reprice(repricing: Repricing, usages: Iterable[CallUsages]) -> Repriced:
    """Price each group, and all calls together, at another model's price."""
    by_key: dict[str | int, tuple[float, int]] = {}
    total, all_priced = 0.0, 0
    for usage in usages:
        each = repricing.price(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
        if each is not None:
            dollars, priced = by_key.get(usage.key, (0.0, 0))
            by_key[usage.key] = dollars + each * usage.calls, priced + usage.calls
            total, all_priced = total + each * usage.calls, all_priced + usage.calls
    return Repriced(repricing.name, by_key, (total, all_priced))


def print_sums(
    console: Console,
    groups: Iterable[CallSums],
    total: Iterable[CallSums],
    *,
    by: str,
    repriced: Repriced | None = None,
    zone: tzinfo | None = None,
    marks: set[str] | None = None,
) -> None:
    """Print a row per group, and one for all calls.

    Args:
        console: a terminal, whose width counts, or anything else, for which nothing is cut.
        groups: the sums of each group.
        total: the sums of all calls; empty if there is no call.
        by: what the calls of a group have in common
            (:data:`telemetry.reading.sums.GROUPS`).
        repriced: what they would have cost.
        zone: the time zone of hours; by default the local one.
        marks: gets the marks that are shown.
    """
    columns = [Column(by, _KEY_WIDTH, rank=1, may_be_cut=True), *_NUMBERS]
    if repriced is not None:
        title = f"as {repriced.name}"
        columns.append(Column(title, len(title), rank=4, is_number=True))
    rows = []
    for sums_of, group in ((groups, by), (total, "")):
        for sums in sums_of:
            cells = [_name(sums.key, group, zone), *_cells(sums)]
            if repriced is not None:
                amount, priced = repriced.find(sums.key, group)
                cells.append(_dollars(amount, priced, sums.calls - priced))
            rows.append(dict(zip(columns, cells, strict=True)))
    print_rows(console, columns, rows, marks=marks)


def build_sums_record(sums: CallSums, by: str, repriced: Repriced | None) -> JsonObject:
    """Build the record of a group, or of all calls if `by` is empty."""
    totals, ranks = sums.totals, sums.ranks
    record: JsonObject = {
        "by": by or None,
        "key": _iso_hour(sums.key) if isinstance(sums.key, int) else sums.key or None,
        "calls": sums.calls,
        "errors": sums.errors,
        "prompt_tokens": totals["prompt_tokens"],
        "completion_tokens": totals["completion_tokens"],
        "cached_tokens": totals["cached_tokens"],
        "cached_share": _share(sums),
        "output_tokens_per_second": _speed(sums),
        **build_costs(sums),
        "duration_ms": _ranks_record(ranks["duration_ns"]),
        "ttft_ms": _ranks_record(ranks["ttft_ns"]),
    }
    for fact in (*SUMMED, *RANKED):
        name = fact.json_name
        if name is not None and name not in record:
            is_summed = fact.name in totals
            record[name] = totals[fact.name] if is_summed else _ranks_record(ranks[fact.name])
    if repriced is not None:
        dollars, priced = repriced.find(sums.key, by)
        record["price_as"] = {
            "name": repriced.name,
            "cost_usd": round_dollars(dollars) if priced else None,
            "priced": priced,
        }
    return record


def _name(key: str | int, by: str, zone: tzinfo | None) -> Text:
    if not by:
        return Text(_ALL, style="bold")
    if isinstance(key, int):
        return Text(f"{local_time(key * HOUR_SECONDS * 1_000_000_000, zone):%m-%d %H:%M}")
    return cell(key or None)


def _cells(sums: CallSums) -> Iterator[Text]:
    totals, share, speed = sums.totals, _share(sums), _speed(sums)
    yield cell(sums.calls)
    yield Text(str(sums.errors), style="red" if sums.errors else "")
    yield cell(totals["prompt_tokens"])
    yield cell(totals["completion_tokens"])
    yield cell(None if share is None else f"{share:.0%}")
    yield cell(None if speed is None else f"{speed:.1f}")
    for name in ("duration_ns", "ttft_ns"):
        for rank_ns in sums.ranks[name].shown:
            yield cell(None if rank_ns is None else format_duration(rank_ns))
    yield cell(format_dollars(totals["saved_usd"]) if sums.priced else None)
    yield cell(sums.unpriced)
    yield _dollars(totals["cost_usd"], sums.priced, sums.unpriced, sums.list_usd)


def _dollars(amount: float, priced: int, unpriced: int, list_usd: float = 0.0) -> Text:
    """Write an amount, with a star if it is missing for some calls."""
    if not priced:
        return cell(None)
    return cell(f"{format_cost(amount, list_usd)}{'*' if unpriced else ''}")


def _share(sums: CallSums) -> float | None:
    """The share of the prompts' tokens that came from a cache."""
    totals = sums.totals
    prompt = totals["prompt_tokens"]
    return totals["cached_tokens"] / prompt if prompt else None


def _speed(sums: CallSums) -> float | None:
    """Tokens of output per second of output."""
    return sums.totals["completion_tokens"] / sums.output_ms * 1e3 if sums.output_ms else None


def _ranks_record(ranks: Ranks) -> JsonObject:
    names = ("p50", "p90", "p99")
    of_rank = {
        name: None if rank_ns is None else rank_ns / 1e6
        for name, rank_ns in zip(names, ranks.shown, strict=True)
    }
    return {"calls": ranks.calls, **of_rank}


def _iso_hour(hour: int) -> str:
    return f"{datetime.fromtimestamp(hour * HOUR_SECONDS, UTC):%Y-%m-%dT%H:00:00Z}"
