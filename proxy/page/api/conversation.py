"""``GET /api/conversations/N``: the runs of a conversation, and all its rows as bars.

``…/context`` says how its prompts grew, and which parts grew.

Bars of sub-agents are among the bars, with their own run. Times are milliseconds from the beginning
of the conversation. Token counts are the provider's. How they divide among the parts of a prompt is
an estimate in the span (:mod:`telemetry.conversations.prompt`), ``null`` if the span has none.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from codec.members import object_of
from proxy.page.api.rows import build_bar
from proxy.page.errors import PageError
from proxy.reading.call import decode_call
from proxy.reading.record import write_time
from proxy.reading.run_record import build_run_record, find_ending
from proxy.reading.spent_time import build_time, measure_time
from proxy.reading.turns import build_conversation
from telemetry.conversations.prompt import PARTS
from telemetry.reading.calls import make_clock
from telemetry.semconv import MetadataMember

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from telemetry.reading.calls import Calls
    from telemetry.reading.conversations import ConversationSums
    from telemetry.store.rows import SpanSummary

MAX_BARS: Final = 2_000

MAX_RUNS: Final = 300
"""The most runs in an answer, the newest: each is summed up separately, in a quarter of a
millisecond."""

FAMILY_SECONDS: Final = 0.25
"""How long the search for sub-agents may take."""

BARS_PARAMETERS: Final = ("after",)


def find_conversation(reader: Calls, parameters: Parameters) -> ConversationSums:
    """Find the conversation that the path names.

    Raises:
        PageError: there is no such conversation.
    """
    number = parameters.index("number")
    sums = reader.of_conversation(number).sum()
    if sums is None:
        raise PageError("not_found", f"there is no conversation {number} in the store")
    return sums


def read_conversation(reader: Calls, parameters: Parameters) -> JsonObject:
    """Read a conversation."""
    after = parameters.number("after", 0)
    sums = find_conversation(reader, parameters)
    family = reader.of_conversation(sums.number).family(make_clock(FAMILY_SECONDS))
    placed = [one for one in family.rows if one.seq > after]
    shown, left_out = placed[:MAX_BARS], max(0, len(placed) - MAX_BARS)
    depths = {one.seq: one.depth for one in shown}
    rows = [*reader.rows_of([one.seq for one in shown])]
    bars = [build_bar(row, depths[row.seq], sums.start_ns) for row in rows]
    return {
        "conversation": build_conversation(sums),
        "runs": [*_build_runs(reader, sums.run_numbers, rows)],
        "sub_agents": [*_build_runs(reader, family.sub_runs, rows)],
        "bars": sorted(bars, key=_find_start),
        "left_out": left_out,
        "next": shown[-1].seq if left_out else None,
        "complete": family.is_whole,
    }


def _build_runs(
    reader: Calls, numbers: Sequence[int], rows: Sequence[SpanSummary]
) -> Iterator[JsonObject]:
    """Build the records of runs, each with its place among them and where its time went."""
    of_run: dict[int | None, list[SpanSummary]] = {}
    for row in rows:
        of_run.setdefault(row.columns.run, []).append(row)
    first = max(0, len(numbers) - MAX_RUNS)
    for place, number in enumerate(numbers[first:], first + 1):
        if (sums := reader.of_run(number)) is None:
            continue
        try:
            record = build_run_record(sums, find_ending(sums, reader))
        except (TypeError, ValueError, OverflowError, AttributeError):
            continue  # a damaged row hides no other run
        spent = build_time(measure_time(of_run.get(number, ())))
        yield {**record, "run_place": place, "runs": len(numbers), "time": spent}


def _find_start(bar: JsonObject) -> tuple[float, int]:
    """Return what bars are sorted by: when they begin, then their number."""
    return bar["start_ms"] or 0.0, bar["seq"]


CONTEXT_SECONDS: Final = 0.1

MAX_POINTS: Final = 500
"""The most points of a page. If prompts are large, a page has fewer, because its time is up."""

CONTEXT_PARAMETERS: Final = ("after",)


def read_context(reader: Calls, parameters: Parameters) -> JsonObject:
    """Read the prompts of a conversation's calls, oldest first."""
    after = parameters.number("after", 0)
    number = find_conversation(reader, parameters).number
    until_seconds = time.monotonic() + CONTEXT_SECONDS
    rows = reader.of_conversation(number).calls(MAX_POINTS + 1, after=after)
    points: list[JsonObject] = []
    for stored in reader.with_bytes(rows[:MAX_POINTS]):
        row, call = stored.summary, decode_call(stored.summary, stored.span)
        place = object_of(call.metadata.get(MetadataMember.CONVERSATION))
        parts = object_of(place.get("estimated_tokens_by_part"))
        points.append(
            {
                "span_id": row.span_id,
                "seq": row.seq,
                "start_time": write_time(row.start_ns),
                "prompt_tokens": row.prompt_tokens,
                "cached_tokens": row.columns.cached_tokens,
                "parts": {name: _count(parts.get(name)) for name in PARTS} if parts else None,
                "compacted": place.get("compacted") is True,
            }
        )
        if time.monotonic() >= until_seconds:
            break
    end = points[-1]["seq"] if points else after
    return {"points": points, "next": end if rows and rows[-1].seq > end else None}


def _count(value: object) -> int:
    """Return a part's tokens; 0 if it is absent, because the other parts are the whole prompt."""
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0
