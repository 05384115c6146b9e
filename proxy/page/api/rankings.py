"""``GET /api/rankings``: the most expensive and the longest conversations or runs, and why.

Nothing keeps these sums, so they are read from the newest call back until the time is over; then
``searched_to`` says how far. Rows do not divide a cost into input and output, so that comes from
the most expensive calls of each conversation or run.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import SpanAttributes

from proxy.page.errors import PageError
from proxy.reading.call import decode_call
from proxy.reading.record import write_time
from proxy.reading.spent_time import measure_time
from proxy.reading.sum_members import build_sums
from telemetry.finding.where import ALL_CALLS, ALL_ROWS, ask_known

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from telemetry.reading.calls import Calls
    from telemetry.reading.groups import GroupSums

RANKING_SECONDS: Final = 0.1
"""How long sums may take."""

WHY_SECONDS: Final = 0.075
"""How long the reasons of each list may take; after that they are ``null``."""

LISTED: Final = 5

MAX_READ_CALLS: Final = 5
"""Of how many calls of a conversation or run the cost is divided: the most expensive ones."""

MAX_ROWS: Final = 1_000
"""Rows whose times are measured; a longer conversation or run has no reason."""

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
    ranked = {
        "dearest": [_build_group(reader, by, one) for one in dearest[:LISTED]],
        "longest": [_build_group(reader, by, one) for one in longest[:LISTED]],
    }
    until = time.monotonic() + WHY_SECONDS
    for record in ranked["dearest"]:
        record["input_share"] = _divide_cost(reader, by, record["key"], until)
    until = time.monotonic() + WHY_SECONDS
    for record in ranked["longest"]:
        record.update(_divide_time(reader, by, record["key"], until))
    back_to = found.back_to
    return {
        "by": by,
        **ranked,
        "left_out": found.left_out,
        "searched_to": write_time(reader.began_at(back_to)) if back_to else None,
    }


def _get_cost(sums: GroupSums) -> float:
    return sums.cost_usd or 0.0


def _get_time(sums: GroupSums) -> int:
    return sums.end_ns - sums.start_ns


def _build_group(reader: Calls, by: str, sums: GroupSums) -> JsonObject:
    asked = ALL_ROWS.also(ask_known("preview"), **{by: sums.key})
    first = reader.that(asked).after(0, 1)
    return {
        "key": sums.key,
        "title": first[0].columns.preview if first else None,
        **build_sums(sums),
        "took_ms": _get_time(sums) / 1e6,
        "input_share": None,
        "model_ms": None,
        "tools_ms": None,
    }


def _divide_cost(reader: Calls, by: str, key: int, until: float) -> float | None:
    """Find which part of the cost was for input, in the most expensive calls."""
    if time.monotonic() >= until:
        return None
    calls = reader.that(ALL_CALLS.also(**{by: key}))
    prompt = total = 0.0
    for stored in calls.with_bytes(calls.rows(calls.numbers(MAX_READ_CALLS, "cost_usd"))):
        attributes = decode_call(stored.summary, stored.span).span.attributes
        part: Any = attributes.get(SpanAttributes.LLM_COST_PROMPT)
        whole: Any = attributes.get(SpanAttributes.LLM_COST_TOTAL)
        if isinstance(part, float) and isinstance(whole, float):
            prompt, total = prompt + part, total + whole
        if time.monotonic() >= until:
            break
    return min(1.0, prompt / total) if total > 0 else None


def _divide_time(reader: Calls, by: str, key: int, until: float) -> JsonObject:
    """Find how long models and tools took."""
    if time.monotonic() >= until:
        return {}
    rows = reader.that(ALL_ROWS.also(**{by: key})).after(0, MAX_ROWS)
    if len(rows) == MAX_ROWS:
        return {}
    spent = measure_time(rows)
    return {"model_ms": spent.model_ns / 1e6, "tools_ms": spent.tools_ns / 1e6}
