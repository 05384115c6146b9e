"""``GET /api/stats``: sums of calls over time and by model, and the calls worth a look.

Without a filter all sums are made from sums by minute, for a million calls in milliseconds. With a
filter they are made from rows. If the time was not enough, ``complete`` is false, and the answer is
about the newest calls. Durations are given by rank, as by ``spantap stats``
(:mod:`telemetry.reading.sums`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.page.api.parameters import MAX_NUMBER
from proxy.page.api.rows import build_row
from proxy.page.errors import PageError
from proxy.reading.costs import NEWEST_ROWS, explain_newest
from proxy.reading.record import write_time
from proxy.reading.sum_members import build_costs
from telemetry.reading.sums import NO_SUMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from proxy.reading.costs import Gap
    from telemetry.reading.calls import Calls
    from telemetry.reading.sums import Aggregate, CallSums

SUM_SECONDS: Final = 0.25
"""How long sums may take."""

LIST_SECONDS: Final = 0.15
"""How long lists of calls may take."""

MAX_BUCKETS: Final = 200
"""The most buckets. Each is some whole minutes, hours or days long, and some may have no calls."""

MAX_GROUPS: Final = 100
"""The most groups, those with most calls; nobody compares more than a hundred models."""

LISTED: Final = 5

STATS_PARAMETERS: Final = ("from", "to", "filter")

_MINUTE: Final = 60

_MINUTE_NS: Final = _MINUTE * 1_000_000_000

_LAST_MINUTE: Final = MAX_NUMBER // _MINUTE_NS - 61
"""The last minute, in the year 2262, because the store counts nanoseconds in 64 bits; a later time
counts as that one."""

_STEPS: Final = (
    *(_MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400),
)
"""Lengths of buckets, in seconds."""


def read_stats(reader: Calls, parameters: Parameters) -> JsonObject:
    """Read the statistics of the calls that began between two times."""
    wanted = parameters.filter()
    if wanted.texts:
        raise PageError("filter", "statistics take conditions alone, and no text", position=0)
    since, until = _read_times(reader, parameters)
    step = _find_step(since, until)
    within = wanted.where().also(since_ns=since * _MINUTE_NS, until_ns=until * _MINUTE_NS)
    chosen = reader.that(within)
    aggregate = chosen.aggregate("model", "upstream", step_seconds=step, seconds=SUM_SECONDS)
    notable = chosen.notable(LISTED, LIST_SECONDS)
    total = aggregate.total
    gaps: list[Gap] = []
    if total is not None and total.unpriced:
        gaps = explain_newest(reader, within, NEWEST_ROWS)
    return {
        "from": write_time(since * _MINUTE_NS),
        "to": write_time(until * _MINUTE_NS),
        "step_seconds": step,
        "buckets": _build_buckets(aggregate, since, until, step),
        "groups": [
            {"model": one.key[0] or None, "upstream": one.key[1] or None, **_build_sums(one)}
            for one in aggregate.groups[:MAX_GROUPS]
        ],
        "left_out": max(0, len(aggregate.groups) - MAX_GROUPS),
        "totals": _build_sums(aggregate.total),
        "slowest": _build_rows(reader, notable.slowest),
        "dearest": _build_rows(reader, notable.dearest),
        "failed": [
            {"error_type": one.error_type, "calls": one.calls, "last": row}
            for one in notable.failed
            for row in _build_rows(reader, [one.last_seq])
        ],
        "unpriced": [{"why": gap.why, "mend": gap.mend} for gap in gaps],
        "complete": aggregate.is_whole and notable.is_whole,
    }


def _read_times(reader: Calls, parameters: Parameters) -> tuple[int, int]:
    """Read the first minute, and the one after the last; by default of all calls up to now."""
    since_ns, until_ns = parameters.time_ns("from"), parameters.time_ns("to")
    until = -(-(parameters.now_ns if until_ns is None else until_ns) // _MINUTE_NS)
    if since_ns is None:
        first_ns = reader.first_ns()
        since = until - _MINUTE if first_ns is None else min(first_ns // _MINUTE_NS, until - 1)
    else:
        since = since_ns // _MINUTE_NS
    since, until = (max(-_LAST_MINUTE, min(one, _LAST_MINUTE)) for one in (since, until))
    if since >= until:
        raise PageError("parameter", "from is a time before to")
    return since, until


def _find_step(since: int, until: int) -> int:
    """Find the shortest length with which there are not too many buckets.

    The buckets that are cut off at both ends count too.
    """
    least = -(-(until - since) * _MINUTE // (MAX_BUCKETS - 1))
    return next((step for step in _STEPS if step >= least), least)


def _build_buckets(aggregate: Aggregate, since: int, until: int, step: int) -> list[JsonObject]:
    first, last = since * _MINUTE // step, (until * _MINUTE - 1) // step
    buckets = []
    for number in range(first, last + 1):
        calls, errors = aggregate.steps.get(number, (0, 0))
        time = write_time(number * step * 1_000_000_000)
        buckets.append({"time": time, "calls": calls, "errors": errors})
    return buckets


def _build_sums(sums: CallSums | None) -> JsonObject:
    if sums is None:
        sums = NO_SUMS
    # A number in a damaged row may be a fraction.
    totals, ranks = sums.totals, sums.ranks["duration_ns"]
    tokens, output_ms = int(totals["completion_tokens"]), int(sums.output_ms)
    speed = tokens * 1_000 / output_ms if tokens and output_ms else None
    return {
        "calls": sums.calls,
        "errors": sums.errors,
        # Sums do not say whether any call had a count of tokens: a sum of 0 is taken for none.
        "prompt_tokens": int(totals["prompt_tokens"]) or None,
        "cached_tokens": int(totals["cached_tokens"]) or None,
        "completion_tokens": tokens or None,
        **build_costs(sums),
        "output_tokens_per_second": speed,
        "duration_ms": {
            name: None if time_ns is None else time_ns / 1e6
            for name, time_ns in (
                ("p50", ranks.p50_ns),
                ("p90", ranks.p90_ns),
                ("p95", ranks.p95_ns),
                ("p99", ranks.p99_ns),
            )
        },
    }


def _build_rows(reader: Calls, numbers: Sequence[int]) -> list[JsonObject]:
    return [build_row(row) for row in reader.rows(numbers)]
