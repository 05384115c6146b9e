"""``GET /api/status``: the store in a few numbers, and what is live."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec._version import __version__
from proxy.reading.record import format_time

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.page.live_state import LiveState
    from telemetry.store.paged_reader import PagedReader


def read_status(reader: PagedReader, live: LiveState, now_ns: int) -> JsonObject:
    """Read the status."""
    states = reader.count_states()
    return {
        "version": __version__,
        "store": str(reader.path),
        "calls": reader.count_calls(),
        "newest_seq": reader.last_seq(),
        "pending": states.get("pending", 0),
        "rejected": states.get("rejected", 0),
        **live._asdict(),
        "now": format_time(now_ns),
    }
