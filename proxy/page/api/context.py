"""``GET /api/conversations/N/context``: how the prompts of a conversation grew, and of what.

Rules:

1. Counts are the provider's. How they divide is an estimate that the span has
   (:mod:`telemetry.conversations.prompt`); ``null`` where it has none.
2. A page takes :data:`CONTEXT_SECONDS`, for each point a span is read.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from codec.members import object_of
from proxy.page.api.conversation import find_conversation
from proxy.page.api.rows import tell_time
from proxy.reading.call import decode_call
from telemetry.conversations.prompt import PARTS
from telemetry.semconv import MetadataMember

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from telemetry.store.paged_reader import PagedReader

CONTEXT_SECONDS: Final = 0.1

MAX_POINTS: Final = 500
"""Points of a page, more than its time is enough for where prompts are large."""

CONTEXT_PARAMETERS: Final = ("after",)


def read_context(reader: PagedReader, parameters: Parameters) -> JsonObject:
    """Read the prompts of a conversation's calls, oldest first."""
    after = parameters.number("after", 0)
    number = find_conversation(reader, parameters).number
    until_seconds = time.monotonic() + CONTEXT_SECONDS
    rows = reader.conversation_rows(number, MAX_POINTS + 1, after=after)
    points: list[JsonObject] = []
    for stored in reader.with_bytes(rows[:MAX_POINTS]):
        row, call = stored.summary, decode_call(stored.summary, stored.span)
        place = object_of(call.metadata.get(MetadataMember.CONVERSATION))
        parts = object_of(place.get("estimated_tokens_by_part"))
        points.append(
            {
                "span_id": row.span_id,
                "seq": row.seq,
                "start_time": tell_time(row.start_ns),
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
    """A part that is not told has no tokens: the others are all of them."""
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0
