"""A streamed chat completion as events: chunks or bytes in, :mod:`codec.events.kinds` out.

The observer's own accumulator folds the chunks; the events say how its answer grows.

Rules:

1. The order of the wire (``docs/contract/sources.md#s1-4``): the chunk, then for each of its
   choices the deltas of content, refusal, log probabilities and tool calls, then, with the finish
   reason, done events in the same order. There is no content delta without text.
2. The order of openai-python (``docs/contract/sources.md#s1-13``): deltas of tool calls come before
   those of log probabilities; done events follow all deltas of their choice; content, refusal and
   log probabilities are also done as soon as a tool call begins; empty text has its content delta.
3. Everything that begins has one done event, never two: with the next finish reason of its choice
   (Together has one for each call), or, if none follows, at the end of the stream. Done means that
   no more is expected, not that all is there: see :meth:`ChatEventStream.check`. If more comes all
   the same, it has delta events, and counts.
4. A tool call is done earlier, before the next one's delta, if its arguments are a JSON object when
   another call's turn comes for the first time (``docs/contract/sources.md#s1-6``), because nothing
   can be added to an object. Otherwise the call may come again, and waits for the finish reason.
5. An error is the last event. The events of its chunk come before it, without done events; whatever
   follows is not read.
6. All deltas of one kind together are the value of the answer, unless it turns out to repeat itself
   (:mod:`codec.chat.choice`, rule 5). Beyond the limits of :mod:`codec.chat.accumulator` there are
   no more deltas.
7. Nothing raises, whatever chunks or bytes come: a value that is not a chunk is noted in the
   answer's ``anomalies``, and has no event.
8. The work for a chunk depends on the chunk alone, however much came before it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from codec.chat.accumulator import Accumulator
from codec.chat.chunk import is_bare_value, is_chunk
from codec.chat.completion import build_completion
from codec.chat.finish import normalise_finish_reason
from codec.chat.stream import ChatStream
from codec.errors import ContentFiltered, LengthReached
from codec.events._choice import ChoiceEvents
from codec.events.kinds import ChunkEvent, ErrorEvent
from codec.text.integers import index_of

if TYPE_CHECKING:
    from codec.chat.answer import ChatMessage, ChatResponse, ToolCall
    from codec.events.kinds import ChatEvent
    from codec.text.jsontext import JsonObject

__all__ = ("ChatEventStream", "EventOrder")


class EventOrder(Enum):
    """The order of the events of a chunk."""

    WIRE = "wire"
    """Rule 1."""
    OPENAI_PYTHON = "openai-python"
    """Rule 2."""


class ChatEventStream:
    r"""Makes the events of one stream, from chunks or from bytes. Not safe for concurrent calls.

    The ``final_*`` methods return what has come when they are called, also before the end, and
    ``None`` if nothing has come. The caller owns all that they return.

    Args:
        order: the order of events, by rule 1 or 2.
        choice_count: how many choices were asked for (``n``); the response has this number.

    >>> stream = ChatEventStream()
    >>> for event in stream.feed({"choices": [{"index": 0, "delta": {"content": '{"a": [1'}}]}):
    ...     print(event.type)
    chunk
    content.delta
    >>> event.parsed
    {'a': [1]}
    >>> stream.finish()
    [ContentDone(choice_index=0, content='{"a": [1')]
    """

    def __init__(self, *, order: EventOrder = EventOrder.WIRE, choice_count: int = 1) -> None:
        self._fold = _EventFold(order, choice_count)
        self._bytes = _ByteStream(self._fold)
        self._ended = False

    def feed(self, chunk: Any) -> list[ChatEvent]:
        """Feed one chunk, of any JSON type, and return its events.

        There are none after an error, or after :meth:`finish`. The chunk is not changed.
        """
        if self._ended:
            return []
        self._fold.feed(chunk)
        return self._fold.drain()

    def feed_bytes(self, data: bytes) -> list[ChatEvent]:
        """Feed one read of an event stream, cut anywhere, instead of chunks.

        Returns the events of the chunks that it completes; none after an error, or after
        :meth:`finish`.
        """
        if self._ended:
            return []
        self._bytes.feed(data)
        return self._fold.drain()

    def finish(self) -> list[ChatEvent]:
        """End the stream, and return, once, the done events that come only now (rule 3).

        There are no such events after an error.
        """
        if self._ended:
            return []
        self._ended = True
        self._bytes.finish()
        self._fold.finish()
        return self._fold.drain()

    @property
    def snapshot(self) -> JsonObject | None:
        """The answer so far as a complete ``chat.completion``; ``None`` before the first chunk.

        It includes the current delta and the usage (``docs/contract/sources.md#s1-3``), and is
        built each time.
        """
        return _own(build_completion(self.response())) if self._fold.begun else None

    def response(self) -> ChatResponse:
        """Return the answer so far as the observer has it, with usage, error and anomalies.

        ``done`` and ``event_count`` are set only for bytes. JSON members may still change.
        """
        return self._fold.response(done=self._bytes.done, event_count=self._bytes.event_count)

    def final_completion(self) -> JsonObject | None:
        """Return :attr:`snapshot` of the whole (``docs/contract/sources.md#s1-8``)."""
        return self.snapshot

    def final_message(self, choice_index: int = 0) -> ChatMessage | None:
        """Return the message of a choice; ``None`` if that choice did not come."""
        choices = self.response().choices
        return next((c.message for c in choices if c.index == choice_index), None)

    def final_content(self, choice_index: int = 0) -> str | None:
        """Return the text of a choice."""
        message = self.final_message(choice_index)
        return message.content if message else None

    def final_tool_calls(self, choice_index: int = 0) -> tuple[ToolCall, ...] | None:
        """Return the tool calls of a choice; ``None`` if there are none."""
        message = self.final_message(choice_index)
        return message.tool_calls or None if message else None

    def check(self) -> None:
        """Make sure that no finish reason says that a choice is cut.

        See ``docs/contract/sources.md#s1-9``. A choice without a finish reason, and an error, are
        in :meth:`response`.

        Raises:
            LengthReached: the first choice that is cut ended with ``length``.
            ContentFiltered: the first choice that is cut ended with ``content_filter``.
        """
        for choice in self.response().choices:
            reason = choice.finish_reason
            if reason is None:
                continue
            if normalise_finish_reason(reason) == "length":
                raise LengthReached(choice.index, reason)
            if reason == "content_filter":
                raise ContentFiltered(choice.index, reason)


class _EventFold(Accumulator):
    """The accumulator, which also collects events."""

    def __init__(self, order: EventOrder, choice_count: int) -> None:
        super().__init__(choice_count=choice_count)
        self.begun = False
        self._order = order
        self._events: list[ChatEvent] = []
        self._choice_events: dict[int, ChoiceEvents] = {}
        self._error_given = False

    def feed(
        self, chunk: Any, *, event_name: str | None = None, hidden_usage: bool = False
    ) -> None:
        if self._error is not None:
            return
        if is_chunk(chunk) or is_bare_value(chunk):
            self.begun = True
            self._events.append(ChunkEvent(chunk=chunk))
        super().feed(chunk, event_name=event_name, hidden_usage=hidden_usage)

    def room_bytes(self, index: int) -> int:  # noqa: ARG002 - the accumulator's
        """Return 0, because each chunk has events and must be fed separately."""
        return 0

    def finish(self) -> None:
        """End the stream."""
        if self._error is None:
            for _, choice_events in sorted(self._choice_events.items()):
                self._events.extend(choice_events.finish())

    def drain(self) -> list[ChatEvent]:
        """Return, once, the events since the last call."""
        events, self._events = self._events, []
        if self._error is not None and not self._error_given:
            self._error_given = True
            events.append(ErrorEvent(error=self._error))
        return events

    def _feed_choice(self, position: int, choice: JsonObject) -> None:
        index = index_of(choice.get("index"))
        if index is None:
            index = position
        choice_events = self._choice_events.get(index)
        if choice_events is None:
            # Its fold must exist before anything is fed to it.
            super()._feed_choice(position, {"index": index})
            fold = self._choices.get(index)
            if fold is None:  # beyond the limit
                return
            choice_events = self._choice_events[index] = ChoiceEvents(
                fold,
                self.budget,
                self._anomalies.setdefault,
                as_openai_python=self._order is EventOrder.OPENAI_PYTHON,
            )
        super()._feed_choice(position, choice)
        choice_events.add_events(choice, self._events, failed=self._error is not None)


class _ByteStream(ChatStream):
    """The observer's reading of bytes, with a given fold."""

    def __init__(self, fold: _EventFold) -> None:
        super().__init__()
        self._fold = fold


def _own(completion: JsonObject) -> JsonObject:
    """Copy what the fold might still change. This does not recurse, because JSON may be deep."""
    pending: list[Any] = [own := dict(completion)]
    while pending:
        container = pending.pop()
        places = container.items() if isinstance(container, dict) else enumerate(container)
        for place, value in list(places):
            if isinstance(value, dict | list):
                container[place] = copy = value.copy()
                pending.append(copy)
    return own
