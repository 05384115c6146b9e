"""Event streams in which each event names its type, and few events only add a word to a text.

The stream keeps the rules of :mod:`codec.event_reader`. The type in the data wins; the event's own
name counts if the data has none (``docs/contract/apis.md#framing``). An event of unknown type is
counted as a chunk and otherwise ignored. Beyond the budget nothing grows (``observer_limit``); how
the answer ended, its usage and errors are still taken (R5).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from codec.error_objects import find_error, fit_error
from codec.event_reader import EventReader
from codec.members import object_of, text_of
from codec.text.sse import SseDecoder, read_event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.budget import Budget
    from codec.growing_text import GrowingText
    from codec.said import ErrorObject, Said
    from codec.text.jsontext import JsonObject
    from codec.text.sse import ServerSentEvent

__all__ = ("MAX_ANSWER_BYTES", "MAX_EVENT_BYTES", "TypedFold", "TypedStream")

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Largest event, without the images that are taken out of it; as in other APIs."""

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""The most memory that one answer may take, as :mod:`codec.budget` estimates it; as in chats."""


class TypedFold(ABC):
    """Folds the events of one stream. Not safe for concurrent calls.

    Each API defines what an event means: :meth:`_fold_event`.

    Attributes:
        budget: the room for all that is kept.
        has_content: something was said.
        is_complete: the event that ends an answer was seen.
        error: the first error.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.has_content = False
        self.is_complete = False
        self.error: ErrorObject | None = None
        self._anomalies: dict[str, None] = {}  # a set that keeps its order

    @abstractmethod
    def _fold_event(self, kind: str, event: JsonObject) -> None:
        """Fold an event of this type; the fold keeps and changes it."""

    @abstractmethod
    def answer(self) -> Said:
        """The answer as it stands, after the last event."""

    def look(self) -> Sequence[GrowingText]:
        """Look at the texts that have come so far."""
        return ()

    @property
    def anomalies(self) -> Sequence[str]:
        """The anomalies so far."""
        if self.budget.exceeded:
            self.note("observer_limit")
        return tuple(self._anomalies)

    def note(self, anomaly: str) -> None:
        """Note an anomaly by its name in ``docs/contract/spans.md#anomalies``."""
        self._anomalies[anomaly] = None

    def note_error(self, error: ErrorObject) -> None:
        """Note an error; the first one is kept, as far as there is room."""
        if self.error is None:
            self.error = fit_error(error, self.budget)

    def feed(self, value: Any, name: str | None) -> bool:
        """Fold the value of an event, and tell whether it is a chunk; an error is not one.

        Args:
            value: its decoded JSON, of any type.
            name: the event's own name, if it had one.
        """
        if (error := find_error(value, name)) is not None:
            self.note_error(error)
            return False
        members = object_of(value)
        kind = text_of(members.get("type")) or name
        if kind is None:
            self.note("foreign_chunk")
        else:
            self._fold_event(kind, members)
        return True


_Fold = TypeVar("_Fold", bound=TypedFold)


class TypedStream(EventReader[_Fold]):
    """Reads one stream. Not safe for concurrent calls.

    Args:
        fold: the fold of its events.
        shorten: removes long values from large events
            (:class:`codec.text.sse.SseDecoder`).
    """

    __slots__ = ()

    def __init__(self, fold: _Fold, shorten: Callable[[bytes], bytes] | None = None) -> None:
        super().__init__(fold, SseDecoder(limit_bytes=MAX_EVENT_BYTES, shorten=shorten))

    @property
    def is_complete(self) -> bool:
        """Whether the event that ends an answer was seen."""
        return self._fold.is_complete

    def feed(self, data: bytes) -> None:
        """Feed one read of the body, its content coding undone, cut anywhere. Never raises."""
        for raw in self._split(data):
            if (event := read_event(raw)) is not None:
                self._feed_event(event)
        self._reserve_pending()

    def finish(self) -> Said:
        """End the stream and return what it said. Call it once."""
        self._read_end()
        return self._fold.answer()

    def _feed_value(self, value: Any, event: ServerSentEvent) -> None:
        self.chunk_count += self._fold.feed(value, event.event)
