"""``GET /api/rankings``: the most expensive and the longest conversations or runs, and why.

These sums are not stored. They are read from the newest call back until the time is over; then
``searched_to`` says how far.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from proxy.page.errors import PageError
from proxy.reading.costs import find_input_share
from proxy.reading.record import write_time
from proxy.reading.spent_time import is_step, measure_time
from proxy.reading.sum_members import build_sums
from telemetry.finding.where import ALL_ROWS
from telemetry.launch_labels import find_name

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from telemetry.reading.calls import Calls
    from telemetry.reading.groups import GroupSums

RANKING_SECONDS: Final = 0.1
"""How long sums may take."""

TIMES_SECONDS: Final = 0.075
"""How long it may take to divide times; after that their parts are ``null``."""

LISTED: Final = 5

MAX_ROWS: Final = 1_000
"""Rows whose times are measured; the time of a longer conversation or run is not divided."""

RANKINGS_PARAMETERS: Final = ("by", "filter", "from", "to")


def read_rankings(reader: Calls, parameters: Parameters) -> JsonObject:
    """Rank the conversations or the runs that have a call which fits a filter."""
    by = parameters.word("by", ("conversation", "run"))
    wanted = parameters.filter()
    if wanted.texts:
        raise PageError("filter", "rankings take conditions alone, and no text", position=0)
    where = wanted.where().also(
        since_ns=parameters.time_ns("from"), until_ns=parameters.time_ns("to")
    )
    found = reader.that(where).newest_groups(by, seconds=RANKING_SECONDS)
    # A lone call is no conversation; there may be a million.
    least = 2 if by == "conversation" else 1
    groups = [one for one in found.groups if isinstance(one.key, int) and one.calls >= least]
    dearest = sorted((one for one in groups if one.cost_usd), key=_get_cost, reverse=True)
    longest = sorted(groups, key=_get_time, reverse=True)
    until = time.monotonic() + TIMES_SECONDS
    back_to = found.back_to
    return {
        "by": by,
        "dearest": [_build_group(reader, by, one) for one in dearest[:LISTED]],
        "longest": [
            _build_group(reader, by, one) | _divide_time(reader, by, one, until)
            for one in longest[:LISTED]
        ],
        "left_out": found.left_out,
        "searched_to": write_time(reader.began_at(back_to)) if back_to else None,
    }


def _get_cost(sums: GroupSums) -> float:
    return sums.cost_usd or 0.0


def _get_time(sums: GroupSums) -> int:
    return sums.end_ns - sums.start_ns


def _build_group(reader: Calls, by: str, sums: GroupSums) -> JsonObject:
    titled = reader.with_title(by, sums)
    return {
        "key": titled.key,
        "title": titled.title,
        "launch": find_name(titled.launch),
        **build_sums(sums),
        "took_ms": _get_time(sums) / 1e6,
        "input_share": find_input_share(sums.input_usd, sums.cost_usd),
        "model_ms": None,
        "tools_ms": None,
    }


def _divide_time(reader: Calls, by: str, sums: GroupSums, until: float) -> JsonObject:
    """Find how long models and tools took between the first and the last of the chosen calls."""
    if time.monotonic() >= until:
        return {}
    rows = reader.that(ALL_ROWS.also(**{by: sums.key})).after(0, MAX_ROWS)
    if len(rows) == MAX_ROWS:
        return {}
    steps = filter(is_step, rows)
    spent = measure_time(
        row for row in steps if row.start_ns >= sums.start_ns and row.end_ns <= sums.end_ns
    )
    return {"model_ms": spent.model_ns / 1e6, "tools_ms": spent.tools_ns / 1e6}
