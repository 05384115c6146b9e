"""``GET /api/status``: the store in a few numbers, and what is live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codec._version import __version__
from proxy.reading.record import format_time

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from telemetry.store.paged_reader import PagedReader

__all__ = ("NOT_LIVE", "LiveState", "read_status")


class LiveState(NamedTuple):
    """What is live.

    Attributes:
        live: a proxy tells what is under way.
        live_text: and texts as they come.
        lost: spans that could not be recorded; ``None`` where nobody knows.
    """

    live: bool
    live_text: bool
    lost: int | None


NOT_LIVE: Final = LiveState(live=False, live_text=False, lost=None)


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
