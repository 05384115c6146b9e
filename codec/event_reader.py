"""Event streams of any API, read within bounds: what comes before a fold.

Rules:

1. Nothing raises (R2). Past a limit nothing more is read: without an event's end there is no
   telling where the next one begins.
2. What an event under way holds is set aside, and told the lender.
3. What the values of an event would take is told before they are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.base64_text import shorten_base64_text
from codec.errors import LimitExceeded
from codec.json_size import decoded_bytes
from codec.jsontext import decode_json
from codec.sse import SseDecoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.budget import Budget
    from codec.sse import ServerSentEvent

__all__ = (
    "MAX_SHORTENED_EVENT_BYTES",
    "SMALL_PENDING_BYTES",
    "EventReader",
    "decode_event",
    "read_data",
)

MAX_SHORTENED_EVENT_BYTES = 16 * 1024 * 1024
"""Of an event without its images: some APIs repeat the whole answer in the last one."""

_MAX_DECODED_EVENT_BYTES = 48 * 1024 * 1024
"""What the values of one event may take: the longest text, or a hundred thousand small objects."""

_UNWEIGHED_BYTES = 512 * 1024
"""An event of so many bytes takes some 20 MiB at most, and only for as long as it is folded."""

SMALL_PENDING_BYTES = 32 * 1024
"""Of an event that is under way: as much as an open stream takes anyway."""

_NAME_FIELD = b"event: "
_DATA_FIELD = b"data: "
_LF, _CR = b"\n\r"  # as numbers, which are searched for as they are


class EventReader:
    """Reads the events of one stream. Not safe for concurrent calls.

    Args:
        budget: of the answer.

    Attributes:
        between_events: the next byte begins an event.
        is_lost: a limit was passed, and nothing more is read.
    """

    __slots__ = ("_budget", "_decoder", "_pending_bytes", "between_events", "is_lost")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._decoder = SseDecoder(
            limit_bytes=MAX_SHORTENED_EVENT_BYTES, shorten=shorten_base64_text
        )
        self._pending_bytes = 0  # as far as they were set aside
        self.between_events = False
        self.is_lost = False

    def feed(self, data: bytes) -> Sequence[ServerSentEvent]:
        """Take one read, cut anywhere, and return the events that it completes."""
        if self.is_lost:
            return ()
        try:
            events = self._decoder.feed(data)
        except LimitExceeded:
            self._give_up()
            return ()
        self.between_events = not self._decoder.pending_bytes
        pending_bytes = self._decoder.pending_bytes
        if pending_bytes > SMALL_PENDING_BYTES or self._pending_bytes:
            if self._budget.reserve(0, pending_bytes - self._pending_bytes):
                self._pending_bytes = pending_bytes
            else:
                self._give_up()
        return events

    def finish(self) -> ServerSentEvent | None:
        """Return the event that was under way when the stream ended, if any."""
        if self.is_lost:
            return None
        try:
            return self._decoder.finish()
        except LimitExceeded:
            self._give_up()
            return None

    def _give_up(self) -> None:
        self.is_lost = True
        self.between_events = False
        self._decoder = SseDecoder()


def read_data(data: bytes) -> bytes | None:
    """Return the data of a read that is one event, written as nearly all are.

    That is one line of data, and the event's name before it or none. ``None`` where it is not.
    """
    start = data.find(_LF) + 1 if data.startswith(_NAME_FIELD) else 0
    if (
        data.startswith(_DATA_FIELD, start)
        and data.endswith(b"\n\n")
        and data.find(_LF, start) == len(data) - 2
        and _CR not in data
    ):
        return data[start + 6 : -2]
    return None


def decode_event(data: bytes) -> Any:
    """Decode the data of an event.

    Raises:
        LimitExceeded: its values would take too much.
        ValueError: it is no JSON.
    """
    if len(data) > _UNWEIGHED_BYTES and decoded_bytes(data) > _MAX_DECODED_EVENT_BYTES:
        raise LimitExceeded("MAX_DECODED_EVENT_BYTES", _MAX_DECODED_EVENT_BYTES)
    return decode_json(data)
