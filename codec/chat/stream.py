"""A streamed chat completion: bytes in, :class:`~codec.chat.answer.ChatResponse` out.

It keeps the rules of :mod:`codec.event_reader`. The answer ends with the bytes: ``[DONE]`` is
noted, and what follows it is still read (``docs/contract/wire.md#end-of-the-bytes``). Events that a
template recognises (:mod:`codec.chat.template`) are folded to the same result as the others. An
event with an error is not counted as a chunk, and neither is one that the client does not receive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.chat.accumulator import Accumulator
from codec.chat.template import decode_line, learn_template
from codec.chat.usage_event import is_usage_event
from codec.error_objects import find_error
from codec.event_reader import EventReader
from codec.text.sse import SseDecoder, read_event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.chat.answer import ChatResponse
    from codec.chat.template import ChunkTemplate
    from codec.growing_text import GrowingText
    from codec.text.sse import ServerSentEvent

__all__ = ("MAX_WASTED_TEMPLATES", "ChatStream")

MAX_WASTED_TEMPLATES = 16
"""After so many templates in a row that matched nothing, the chunks of a stream differ in other
places, and no further template is made."""

_MAX_UNFOLDED_BYTES = 64 * 1024
"""The most bytes of events whose texts wait to be folded together, some three hundred events."""


class ChatStream(EventReader[Accumulator]):
    r"""Reads one event stream. Not safe for concurrent calls.

    Args:
        choice_count: how many choices were asked for (``n``). The answer is complete only when so
            many have finished, because choices may come one after the other.
        hides_usage: the client does not receive usage-only events, because
            :mod:`codec.chat.usage_filter` takes them out: their usage counts, but ``body`` does not
            show them.
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).

    >>> stream = ChatStream()
    >>> stream.feed(b'data: {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}\n\n')
    >>> stream.finish().choices[0].message.content
    'Hi'
    """

    __slots__ = (
        "_hides_usage",
        "_last_alike",
        "_room_bytes",
        "_template",
        "_texts",
        "_wasted",
        "done",
        "is_complete",
    )

    def __init__(
        self,
        *,
        choice_count: int = 1,
        hides_usage: bool = False,
        lend: Callable[[int], bool] | None = None,
    ) -> None:
        super().__init__(Accumulator(choice_count=choice_count, lend=lend), SseDecoder())
        self._hides_usage = hides_usage
        self._template: ChunkTemplate | None = None
        self._texts: list[str] = []  # of events like the template, not folded yet
        self._last_alike = b""  # the last of these events
        self._room_bytes = 0  # how many bytes of such events still fit
        self._wasted = 0
        self.done = False
        """The end marker ``[DONE]`` was seen."""
        self.is_complete = False
        """Nothing is missing (``docs/contract/promises.md#endings``).

        That is: the end marker was seen, or a finish reason of every choice and the usage. It
        becomes false again if another choice begins after all others finished."""

    @property
    def event_count(self) -> int:
        """The number of events with data so far, without the end marker."""
        return self.chunk_count + self._other_count

    def feed(self, data: bytes) -> None:
        """Feed one read of the (decompressed) body, cut anywhere."""
        if self._between_events and self._feed_alike(data):
            return  # most reads are one event like the last one
        self._feed_all(self._split(data))
        self._reserve_pending()

    def _feed_alike(self, event: bytes) -> bool:
        """Feed an event if only its text differs from the last one; return whether that is so."""
        template = self._template
        text = template.match(event) if template is not None else None
        if text is None:
            return False
        if len(event) > self._room_bytes:
            self._fold_alike()
            if len(event) > self._room_bytes:
                return False
        self._texts.append(text)
        self._last_alike = event
        self._room_bytes -= len(event)
        self.chunk_count += 1
        return True

    def _feed_all(self, events: list[bytes]) -> None:
        at = 0
        while at < len(events):
            count = self._feed_run(events, at)
            if not count and (event := read_event(events[at])) is not None:
                self._feed_event(event)
            at += count or 1

    def _feed_run(self, events: list[bytes], start: int) -> int:
        """Feed the events from `start` on that are like the last one; return their number."""
        template = self._template
        texts = template.match_run(events, start) if template is not None else []
        if template is None or not texts:
            return 0
        run = events[start : start + len(texts)]
        return len(texts) * self._add_alike(template, texts, run[-1], sum(map(len, run)))

    def _add_alike(
        self, template: ChunkTemplate, texts: list[str], last: bytes, size_bytes: int
    ) -> bool:
        """Add the texts of events that are alike; return whether there is room for them.

        Args:
            template: the template that they match.
            texts: the text of each event.
            last: the last event.
            size_bytes: the size of all events.
        """
        if size_bytes > self._room_bytes:
            self._fold_alike()
            if size_bytes > self._fold.room_bytes(template.index):
                return False
        self._texts += texts
        self._last_alike = last
        self._room_bytes -= size_bytes
        self.chunk_count += len(texts)
        if self._room_bytes < 0:  # a large read is folded at once
            self._fold_alike()
        return True

    def _fold_alike(self) -> None:
        """Fold the waiting texts, and the last of their events with its padding."""
        template, texts = self._template, self._texts
        if template is not None and texts:
            self._texts = []
            self._wasted = 0
            self._fold.feed_texts(template.index, template.member, texts[:-1])
            self._fold.feed(decode_line(self._last_alike))
            self._make_room(template)

    def _make_room(self, template: ChunkTemplate) -> None:
        """Find out how many bytes of such events will fit, whatever their texts are."""
        room_bytes = self._fold.room_bytes(template.index)
        self._room_bytes = min(room_bytes, _MAX_UNFOLDED_BYTES)

    def look(self) -> Sequence[GrowingText]:
        """Look at the texts that have come so far, including those that are not folded yet."""
        template = self._template
        if template is None or not self._texts:
            return self._fold.look()
        return self._fold.look(template.index, template.member, self._texts)

    def finish(self) -> ChatResponse:
        """End the stream and return what it said. Call it once."""
        self._read_end()
        self._fold_alike()
        return self._fold.response(done=self.done, event_count=self.event_count)

    def _give_up(self) -> None:
        self._fold_alike()
        self._template = None
        super()._give_up()

    def _feed_done(self) -> None:
        self.done = self.is_complete = True

    def _feed_value(self, value: Any, event: ServerSentEvent) -> None:
        fold, name = self._fold, event.event
        self._fold_alike()
        self._template = None
        hidden = self._hides_usage and is_usage_event(event, value)
        fold.feed(value, event_name=name, hidden_usage=hidden)
        if hidden or (fold.has_error and find_error(value, name)):
            self._other_count += 1
        else:
            self.chunk_count += 1
        # Events that a template recognises neither finish a choice nor begin one.
        finished = fold.finished
        self.is_complete = self.done or (finished and fold.has_usage)
        if not finished and fold.has_content and not fold.has_error:
            self._learn(event, value)

    def _learn(self, event: ServerSentEvent, chunk: Any) -> None:
        """Make a template for the next events."""
        if self._wasted == MAX_WASTED_TEMPLATES or len(event.raw) > _MAX_UNFOLDED_BYTES:
            return
        if event.event or not event.is_single_line:
            return
        self._template = template = learn_template(event.raw, chunk)
        if template is not None:
            self._wasted += 1
            self._make_room(template)
