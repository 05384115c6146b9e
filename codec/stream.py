"""A streamed chat completion: bytes in, :class:`~codec.answer.ChatResponse` out.

Rules:

1. Nothing raises, whatever the bytes are; what went wrong becomes an anomaly or the error (R2).
2. The end is the end of the bytes. ``[DONE]`` is noted, and what follows it is still read
   (``dialects.md`` section 1, rule 6).
3. An event that is cut off by the end counts if it parses (section 5), else it is dropped and
   noted (``event_cut_off``): what is missing is no fault of its text.
4. The events do not depend on how the bytes are cut.
5. What a template recognises (:mod:`codec.template`) is folded as the general way would have.
6. An event that tells of an error is no chunk, and neither is one that the client does not receive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.accumulator import Accumulator
from codec.call import ErrorObject
from codec.chunk import find_error, is_done, is_usage_only
from codec.errors import LimitExceeded
from codec.event_reader import SMALL_PENDING_BYTES, decode_event
from codec.sse import SseDecoder, read_event
from codec.template import decode_line, learn_template

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.answer import ChatResponse
    from codec.sse import ServerSentEvent
    from codec.template import ChunkTemplate

__all__ = ("MAX_WASTED_TEMPLATES", "ChatStream")

MAX_WASTED_TEMPLATES = 16
"""Templates in a row that matched nothing: the chunks of this stream differ in other places."""

_MAX_UNFOLDED_BYTES = 64 * 1024
"""Of events whose texts wait to be folded together, some three hundred."""


class ChatStream:
    r"""Reads one event stream. Not safe for concurrent calls.

    Args:
        choice_count: how many choices were asked for (``n``): so many must finish before finish
            reasons make the answer complete, for choices may come one after the other.
        hides_usage: the client does not receive usage-only events (:mod:`codec.usage_filter` takes
            them out): their usage counts, but ``body`` does not show them.
        lend: whether so many more bytes may be taken beside all others (:mod:`codec.budget`).

    >>> stream = ChatStream()
    >>> stream.feed(b'data: {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}\n\n')
    >>> stream.finish().choices[0].message.content
    'Hi'
    """

    __slots__ = (
        "_accumulator",
        "_between_events",
        "_decoder",
        "_hides_usage",
        "_last_alike",
        "_other_count",
        "_pending_bytes",
        "_room_bytes",
        "_template",
        "_texts",
        "_wasted",
        "chunk_count",
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
        self._decoder: SseDecoder | None = SseDecoder()
        self._accumulator = Accumulator(choice_count=choice_count, lend=lend)
        self._hides_usage = hides_usage
        self._between_events = False
        self._template: ChunkTemplate | None = None
        self._texts: list[str] = []  # of the events like it, not folded yet
        self._last_alike = b""  # the last of these events
        self._room_bytes = 0  # of such events that fit
        self._wasted = 0
        self._other_count = 0  # events with data that are no chunk
        self._pending_bytes = 0  # of the event under way, as far as they were set aside
        self.chunk_count = 0
        """Chunks so far: events with data but for the end marker and what rule 6 says."""
        self.done = False
        """The end marker ``[DONE]`` was seen."""
        self.is_complete = False
        """Nothing is missing (``design.md`` section 6).

        That is: the end marker was seen, or a finish reason of every choice and the usage. It may
        become false again, where another choice begins after all others finished."""

    @property
    def event_count(self) -> int:
        """Events with data so far, the end marker excluded."""
        return self.chunk_count + self._other_count

    @property
    def has_content(self) -> bool:
        """A delta with text, reasoning, a refusal or a tool call was seen."""
        return self._accumulator.has_content

    def feed(self, data: bytes) -> None:
        """Take one read of the (decompressed) body, cut anywhere."""
        if self._between_events and self._take_alike(data):
            return  # the usual read is one event like the last one
        if self._decoder is None:
            return
        try:
            self._take_all(self._decoder.split(data))
        except LimitExceeded:
            self._give_up()
        else:
            pending_bytes = self._decoder.pending_bytes
            self._between_events = not pending_bytes
            if pending_bytes > SMALL_PENDING_BYTES or self._pending_bytes:
                self._set_aside(pending_bytes)

    def _take_alike(self, event: bytes) -> bool:
        """Take an event that differs from the last one in its text only."""
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

    def _take_all(self, events: list[bytes]) -> None:
        at = 0
        while at < len(events):
            count = self._take_run(events, at)
            if not count and (event := read_event(events[at])) is not None:
                self._take(event)
            at += count or 1

    def _take_run(self, events: list[bytes], start: int) -> int:
        """Take the events from one on that are like the last one, and return how many they are."""
        template = self._template
        texts = template.match_run(events, start) if template is not None else []
        if template is None or not texts:
            return 0
        run = events[start : start + len(texts)]
        size_bytes = sum(map(len, run))
        if size_bytes > self._room_bytes:
            self._fold_alike()
            if size_bytes > self._accumulator.room_bytes(template.index):
                return 0
        self._texts += texts
        self._last_alike = run[-1]
        self._room_bytes -= size_bytes
        self.chunk_count += len(texts)
        if self._room_bytes < 0:  # a large read, which is folded at once
            self._fold_alike()
        return len(texts)

    def _fold_alike(self) -> None:
        """Fold the events that were like the last one; the last of them with its padding."""
        template, texts = self._template, self._texts
        if template is not None and texts:
            self._texts = []
            self._wasted = 0
            self._accumulator.feed_texts(template.index, template.member, texts[:-1])
            self._accumulator.feed(decode_line(self._last_alike))
            self._make_room(template)

    def _make_room(self, template: ChunkTemplate) -> None:
        """Reserve room for the next events, in which all of them surely fit."""
        room_bytes = self._accumulator.room_bytes(template.index)
        self._room_bytes = min(room_bytes, _MAX_UNFOLDED_BYTES)

    def _set_aside(self, pending_bytes: int) -> None:
        """Hold so many bytes of the event under way; without room nothing more is read."""
        if self._accumulator.set_aside(pending_bytes - self._pending_bytes):
            self._pending_bytes = pending_bytes
        else:
            self._give_up()

    def finish(self) -> ChatResponse:
        """Take the end of the bytes and return what the stream said. Call it once."""
        if self._decoder is not None:
            try:
                event = self._decoder.finish()
            except LimitExceeded:
                self._give_up()
            else:
                if event is not None:
                    self._take(event, cut_off=True)
        self._fold_alike()
        return self._accumulator.response(done=self.done, event_count=self.event_count)

    def _give_up(self) -> None:
        """Read no further: without the event's end there is no telling where the next begins."""
        self._fold_alike()
        self._decoder = self._template = None
        self._between_events = False
        self._accumulator.note("observer_limit")

    def _take(self, event: ServerSentEvent, *, cut_off: bool = False) -> None:
        data, name, accumulator = event.data, event.event, self._accumulator
        if not data:
            if error := find_error(None, name, event.comments):
                accumulator.note_error(error)
            return
        if is_done(data):
            self.done = self.is_complete = True
            return
        try:
            value = decode_event(data)
        except LimitExceeded:
            self.chunk_count += 1
            accumulator.note("observer_limit")
            return
        except ValueError:
            self._take_text(data, name, cut_off=cut_off)
            return
        self._fold_alike()
        self._template = None
        hidden = self._hides_usage and is_usage_only(value) and event.is_single_line
        accumulator.feed(value, event_name=name, hidden_usage=hidden)
        if hidden or (accumulator.has_error and find_error(value, name)):
            self._other_count += 1
        else:
            self.chunk_count += 1
        # What a template recognises neither finishes a choice nor begins one.
        finished = accumulator.finished
        self.is_complete = self.done or (finished and accumulator.has_usage)
        if not finished and accumulator.has_content and not accumulator.has_error:
            self._learn(event, value)

    def _learn(self, event: ServerSentEvent, chunk: Any) -> None:
        """Learn what the next events may look like."""
        if self._wasted == MAX_WASTED_TEMPLATES or len(event.raw) > _MAX_UNFOLDED_BYTES:
            return
        if event.event or not event.is_single_line:
            return
        self._template = template = learn_template(event.raw, chunk)
        if template is not None:
            self._wasted += 1
            self._make_room(template)

    def _take_text(self, data: bytes, name: str | None, *, cut_off: bool) -> None:
        """Take data that is no JSON."""
        if cut_off:
            self._accumulator.note("event_cut_off")
        elif name == "error":
            self._other_count += 1
            text = data.decode("utf-8", "replace")
            self._accumulator.note_error(ErrorObject(message=text, raw=text))
        else:
            self.chunk_count += 1
            self._accumulator.note("non_json_event")
