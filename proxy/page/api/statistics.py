"""``GET /api/stats``: what calls come to, over time and by model, and those worth a look.

Rules:

1. Without a filter all sums are made of those by minute, of a million calls in milliseconds. With
   one they are made of rows, and texts are not looked for: they are an error here.
2. Both take :data:`SUM_SECONDS`, and lists of calls :data:`LIST_SECONDS`, at most; where that was
   not enough, ``complete`` is false, and what is told is of the newest.
3. Times are those of whole minutes. There are :data:`MAX_BUCKETS` buckets at most, each a number of
   minutes, hours or days; one without calls is told as that.
4. How long calls took is told by rank, as ``spantap stats`` tells it
   (:mod:`telemetry.reading.sqlite.ranking`).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from proxy.page.api.parameters import MAX_NUMBER
from proxy.page.api.rows import build_row, tell_time
from proxy.page.errors import PageError
from proxy.reading.chosen_calls import choose
from telemetry.reading.sqlite.paged_reader import CLOCK_SLACK_NS
from telemetry.reading.sqlite.ranking import rank
from telemetry.reading.sqlite.statistics import Sums
from telemetry.store.minutes import MINUTE_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from telemetry.reading.sqlite.paged_reader import PagedReader
    from telemetry.reading.sqlite.ranking import Ranks
    from telemetry.reading.sqlite.statistics import TimeSums

SUM_SECONDS: Final = 0.25

LIST_SECONDS: Final = 0.15

MAX_BUCKETS: Final = 200

MAX_GROUPS: Final = 100
"""Groups that are told, those with most calls; a hundred models are more than anybody compares."""

LISTED: Final = 5

STATS_PARAMETERS: Final = ("from", "to", "filter")

_MINUTE: Final = 60

_LAST_MINUTE: Final = (MAX_NUMBER - CLOCK_SLACK_NS) // MINUTE_NS - 1
"""The store counts nanoseconds in 64 bits, up to the year 2262; a later time is that one."""

_STEPS: Final = (
    *(_MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400),
)
"""Lengths of buckets, in seconds."""


def read_stats(reader: PagedReader, parameters: Parameters) -> JsonObject:
    """Read the statistics of the calls that began between two times."""
    wanted = parameters.filter()
    if wanted.texts:
        raise PageError("filter", "statistics take conditions alone, and no text", position=0)
    since, until = _read_times(reader, parameters)
    step = _find_step(since, until)
    choose(reader, wanted)
    told = reader.time_sums(since, until, step, SUM_SECONDS)
    notable = reader.notable(since, until, LISTED, LIST_SECONDS)
    slowest = _build_rows(reader, notable.slowest)
    took = told.times.took
    total = Sums()
    for sums in told.groups.values():
        total.add(sums.amounts)
    groups = sorted(told.groups.items(), key=lambda one: (-one[1].get("calls"), one[0]))
    return {
        "from": tell_time(since * MINUTE_NS),
        "to": tell_time(until * MINUTE_NS),
        "step_seconds": step,
        "buckets": _build_buckets(told, since, until, step),
        "groups": [
            {
                "model": key[0] or None,
                "upstream": key[1] or None,
                **_build_sums(sums, rank(took.get(key, ()))),
            }
            for key, sums in groups[:MAX_GROUPS]
        ],
        "left_out": max(0, len(groups) - MAX_GROUPS),
        "totals": _build_sums(total, rank([*chain.from_iterable(took.values())])),
        "slowest": slowest,
        "dearest": _build_rows(reader, notable.dearest),
        "failed": [
            {"error_type": one.error_type, "calls": one.calls, "last": row}
            for one in notable.failed
            for row in _build_rows(reader, [one.last_seq])
        ],
        "complete": told.is_whole and notable.is_whole,
    }


def _read_times(reader: PagedReader, parameters: Parameters) -> tuple[int, int]:
    """Read the first minute, and the one behind the last; by default of all calls up to now."""
    since_ns, until_ns = parameters.time_ns("from"), parameters.time_ns("to")
    until = -(-(parameters.now_ns if until_ns is None else until_ns) // MINUTE_NS)
    if since_ns is None:
        first = reader.first_minute()
        since = until - _MINUTE if first is None else min(first, until - 1)
    else:
        since = since_ns // MINUTE_NS
    since, until = (max(-_LAST_MINUTE, min(one, _LAST_MINUTE)) for one in (since, until))
    if since >= until:
        raise PageError("parameter", "from is a time before to")
    return since, until


def _find_step(since: int, until: int) -> int:
    """Find the shortest bucket of which there are not too many, those cut off at the ends too."""
    least = -(-(until - since) * _MINUTE // (MAX_BUCKETS - 1))
    return next((step for step in _STEPS if step >= least), least)


def _build_buckets(told: TimeSums, since: int, until: int, step: int) -> list[JsonObject]:
    first, last = since * _MINUTE // step, (until * _MINUTE - 1) // step
    buckets = []
    for number in range(first, last + 1):
        calls, errors = told.buckets.get(number, (0, 0))
        time = tell_time(number * step * 1_000_000_000)
        buckets.append({"time": time, "calls": calls, "errors": errors})
    return buckets


def _build_sums(sums: Sums, ranks: Ranks) -> JsonObject:
    output_ms, tokens = sums.get("output_ms"), sums.get("completion_tokens")
    priced = sums.get("priced")
    return {
        "calls": sums.get("calls"),
        "errors": sums.get("errors"),
        # Sums do not tell whether anybody told tokens; a sum of none is of calls that told none.
        "prompt_tokens": sums.get("prompt_tokens") or None,
        "cached_tokens": sums.get("cached_tokens") or None,
        "completion_tokens": tokens or None,
        "cost_usd": sums.get("cost_usd") if priced else None,
        "priced": priced,
        "output_tokens_per_second": tokens * 1_000 / output_ms if tokens and output_ms else None,
        "duration_ms": {
            "p50": None if ranks.p50_ns is None else ranks.p50_ns / 1e6,
            "p95": None if ranks.p95_ns is None else ranks.p95_ns / 1e6,
        },
    }


def _build_rows(reader: PagedReader, numbers: Sequence[int]) -> list[JsonObject]:
    return [build_row(row) for row in reader.rows(numbers)]
