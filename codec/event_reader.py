"""Event streams of any API, and other streams of JSON: read within bounds, before a fold.

Rules:

1. Nothing raises, whatever the bytes are; faults become anomalies or the error (R2).
2. Beyond a limit nothing more is read, because without an event's end the beginning of the next
   event is unknown. Bytes of an unfinished event are reserved in the memory budget.
3. The size of an event's values is estimated before they are made.
4. An event that the end of the stream cuts off counts if it parses
   (``docs/contract/wire.md#the-last-event``). Otherwise it is dropped and noted
   (``event_cut_off``), even if only the first letter of a field came, because the fault is in what
   is missing. An event with the name of an error is not one if its data had not begun.
5. The events do not depend on how the bytes are cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from codec.error_objects import find_error
from codec.errors import LimitExceeded
from codec.said import ErrorObject
from codec.text.json_size import decoded_bytes
from codec.text.jsontext import decode_json
from codec.text.sse import SseDecoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.budget import Budget
    from codec.growing_text import GrowingText
    from codec.text.sse import ServerSentEvent

__all__ = ("SMALL_PENDING_BYTES", "Decoder", "EventReader", "Fold")

_END_MARK = b"[DONE]"
"""The end marker's data begins so; the official Python SDK checks this beginning, too."""

_MAX_DECODED_EVENT_BYTES = 48 * 1024 * 1024
"""The most memory that the values of one event may take: the longest text, or a hundred thousand
small objects."""

_UNWEIGHED_BYTES = 512 * 1024
"""Largest event whose memory is not estimated: its values take some 20 MiB at most, and only while
they are folded."""

SMALL_PENDING_BYTES = 32 * 1024
"""Largest event under way that needs no loan; an open stream takes as much memory anyway."""


class Decoder(Protocol):
    """Cuts a stream into events, as :class:`~codec.text.sse.SseDecoder` and others do."""

    @property
    def is_between_events(self) -> bool:
        """Whether the next byte begins an event."""

    @property
    def pending_bytes(self) -> int:
        """The size of the event under way."""

    def split(self, data: bytes) -> list[bytes]:
        """Split one read and return the bytes of the events that it completes.

        Raises:
            LimitExceeded: an event passes its limit.
        """

    def finish(self) -> ServerSentEvent | None:
        """Return the event that was under way when the stream ended, if any.

        Raises:
            LimitExceeded: as :meth:`split`.
        """


class Fold(Protocol):
    """The accumulator that events are folded into."""

    budget: Budget
    has_content: bool

    def note(self, anomaly: str) -> None:
        """Note an anomaly by its name in ``docs/contract/spans.md#anomalies``."""

    def note_error(self, error: ErrorObject) -> None:
        """Note an error."""

    def look(self) -> Sequence[GrowingText]:
        """Look at the texts that have come so far."""


_Fold = TypeVar("_Fold", bound=Fold)


class EventReader(ABC, Generic[_Fold]):
    """Reads the events of one stream. Not safe for concurrent calls.

    Each API defines what an event says: :meth:`_feed_value` and :meth:`_feed_done`.

    Attributes:
        chunk_count: the number of chunks so far, which are events with a piece of the answer.
    """

    __slots__ = (
        "_between_events",
        "_decoder",
        "_fold",
        "_is_lost",
        "_other_count",
        "_pending_bytes",
        "chunk_count",
    )

    def __init__(self, fold: _Fold, decoder: Decoder) -> None:
        self.chunk_count = 0
        self._fold = fold
        self._decoder = decoder
        self._other_count = 0  # events with data that are not chunks
        self._pending_bytes = 0  # reserved bytes of the event under way
        self._between_events = False  # the next byte begins an event
        self._is_lost = False  # a limit was passed, and nothing more is read

    @property
    def has_content(self) -> bool:
        """Whether text, reasoning, a refusal, a call or a picture was seen."""
        return self._fold.has_content

    def look(self) -> Sequence[GrowingText]:
        """Look at the texts that have come so far (:mod:`codec.growing_text`)."""
        return self._fold.look()

    def _feed_done(self) -> None:
        """Note the end marker ``[DONE]``."""

    @abstractmethod
    def _feed_value(self, value: Any, event: ServerSentEvent) -> None:
        """Fold the value of an event, and count it."""

    def _split(self, data: bytes) -> list[bytes]:
        """Return the events that a read completes, as bytes."""
        if self._is_lost:
            return []
        try:
            return self._decoder.split(data)
        except LimitExceeded:
            self._give_up()
            return []

    def _reserve_pending(self) -> None:
        """Reserve the bytes of the event under way, and find out whether there is one.

        If there is no room, nothing more is read.
        """
        pending_bytes = self._decoder.pending_bytes
        self._between_events = self._decoder.is_between_events and not self._is_lost
        if pending_bytes > SMALL_PENDING_BYTES or self._pending_bytes:
            if self._fold.budget.reserve(0, pending_bytes - self._pending_bytes):
                self._pending_bytes = pending_bytes
            else:
                self._give_up()

    def _read_end(self) -> None:
        """Read the rest at the end of the bytes."""
        if self._is_lost:
            return
        try:
            event = self._decoder.finish()
        except LimitExceeded:
            self._give_up()
        else:
            if event is not None:
                self._feed_event(event, is_cut_off=True)

    def _give_up(self) -> None:
        self._is_lost = True
        self._between_events = False
        self._decoder = SseDecoder()
        self._fold.note("observer_limit")

    def _feed_event(self, event: ServerSentEvent, *, is_cut_off: bool = False) -> None:
        data = event.data
        if not data:
            if is_cut_off:  # its data may have been to come, whatever its name says
                if not event.is_comment:
                    self._fold.note("event_cut_off")
                return
            if error := find_error(None, event.event, event.comments):
                self._fold.note_error(error)
            return
        if data.startswith(_END_MARK):
            self._feed_done()
            return
        try:
            value = _decode_event(data)
        except LimitExceeded:
            self.chunk_count += 1
            self._fold.note("observer_limit")
        except ValueError:
            self._feed_text(data, event.event, is_cut_off=is_cut_off)
        else:
            self._feed_value(value, event)

    def _feed_text(self, data: bytes, name: str | None, *, is_cut_off: bool) -> None:
        """Feed data that is not JSON."""
        if is_cut_off:
            self._fold.note("event_cut_off")
        elif name == "error":
            self._other_count += 1
            text = data.decode("utf-8", "replace")
            self._fold.note_error(ErrorObject(message=text, raw=text))
        else:
            self.chunk_count += 1
            self._fold.note("non_json_event")


def _decode_event(data: bytes) -> Any:
    """Decode the data of an event.

    Raises:
        LimitExceeded: its values would take too much memory.
        ValueError: it is not JSON.
    """
    if len(data) > _UNWEIGHED_BYTES and decoded_bytes(data) > _MAX_DECODED_EVENT_BYTES:
        raise LimitExceeded("MAX_DECODED_EVENT_BYTES", _MAX_DECODED_EVENT_BYTES)
    return decode_json(data)
