"""``GET /api/conversations/N/transcript``: what each call of a conversation added, and its answer.

A call adds what is new compared with the call that it continues (:mod:`proxy.reading.growth`),
except the answer of that call, which was shown already. Heads have their places in the whole
request, to ask for the rest of them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from proxy.page.api.conversation import find_conversation
from proxy.page.api.messages import build_heads
from proxy.reading.call import read_with_pictures
from proxy.reading.growth import find_before, read_growth
from proxy.reading.record import write_time
from proxy.reading.tool_results import read_failed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from proxy.reading.call import RecordedCall
    from telemetry.reading.calls import Calls

TRANSCRIPT_SECONDS: Final = 0.25
"""How long a page of the transcript may take, or one call if that takes longer."""

DEFAULT_LIMIT: Final = 20

MAX_LIMIT: Final = 100

TRANSCRIPT_PARAMETERS: Final = ("after", "limit")


def read_transcript(reader: Calls, parameters: Parameters) -> JsonObject:
    """Read the turns of a conversation, oldest first."""
    after = parameters.number("after", 0)
    limit = parameters.number("limit", DEFAULT_LIMIT, least=1, most=MAX_LIMIT)
    number = find_conversation(reader, parameters).number
    until_seconds = time.monotonic() + TRANSCRIPT_SECONDS
    rows = reader.of_conversation(number).calls(limit + 1, after=after)
    failed = read_failed(reader, number, rows[-1].seq if rows else 0)
    turns: list[JsonObject] = []
    last: RecordedCall | None = None
    for stored in reader.with_bytes(rows[:limit]):
        call = read_with_pictures(reader, stored)
        turns.append(_build_turn(call, find_before(reader, call, last), failed))
        last = call
        if time.monotonic() >= until_seconds:
            break
    end = turns[-1]["seq"] if turns else after
    return {"turns": turns, "next": end if rows and rows[-1].seq > end else None}


def _build_turn(
    call: RecordedCall, before: RecordedCall | None, failed: Mapping[str, Sequence[str]]
) -> JsonObject:
    growth = read_growth(call, before)
    row = call.summary
    said = () if before is None else before.output_messages
    heads = build_heads(call.input_messages, said, failed if row.columns.run is not None else None)
    return {
        "span_id": row.span_id,
        "seq": row.seq,
        "run": row.columns.run,
        "turn": row.columns.turn,
        "model": row.model,
        "status": row.status,
        "outcome": row.outcome,
        "finish_reason": call.finish_reason,
        "start_time": write_time(row.start_ns),
        "duration_ms": call.duration_ns / 1e6,
        "system_changed": growth.system_changed,
        "new": heads[growth.added_from :],
        "answer": build_heads(call.output_messages),
    }
