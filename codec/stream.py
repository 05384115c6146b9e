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

from typing import TYPE_CHECKING

from codec.accumulator import Accumulator
from codec.call import ErrorObject
from codec.chunk import find_error, is_done, is_usage_only
from codec.errors import LimitExceeded
from codec.json_size import decoded_bytes
from codec.jsontext import decode_json
from codec.sse import SseDecoder, read_line
from codec.template import learn_template

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.answer import ChatResponse
    from codec.sse import ServerSentEvent
    from codec.template import ChunkTemplate

__all__ = ("MAX_TAIL_BYTES", "MAX_WASTED_TEMPLATES", "ChatStream")

MAX_WASTED_TEMPLATES = 16
"""Templates in a row that matched nothing: the chunks of this stream differ in other places."""

MAX_TAIL_BYTES = 1_024
"""How much of an event may wait for the rest of it outside the decoder: most chunks have some 300
bytes. What comes byte by byte is joined again with each of them, so it must be short."""

_MAX_UNFOLDED_BYTES = 32 * 1024
"""Of events whose texts wait to be folded together, some hundred, or of one read that has more."""

_MAX_DECODED_EVENT_BYTES = 48 * 1024 * 1024
"""What the values of one event may take: the longest text, or a hundred thousand small objects."""

_UNWEIGHED_BYTES = 512 * 1024
"""An event of so many bytes takes some 20 MiB at most, and only for as long as it is folded."""

_SMALL_PENDING_BYTES = 32 * 1024
"""Of an event that is under way: as much as an open stream takes anyway."""

_EVENT_END = b"\n\n"
_EVENT_END_BYTES = len(_EVENT_END)


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
        "_joined",
        "_last_alike",
        "_other_count",
        "_pending_bytes",
        "_room_bytes",
        "_tail",
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
        self._tail = b""  # the beginning of an event, before the decoder has any of it
        self._texts: list[str] = []  # of the events like it, not folded yet
        self._joined = 0  # how many more there were before some of them were put together
        self._last_alike = b""  # a read, up to the end of the last of these
        self._room_bytes = 0  # of such events that fit; none inside another event
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
        template = self._template
        size = len(data)
        room_bytes = self._room_bytes - size
        if template is not None and room_bytes >= 0 and not self._tail:
            # The usual read is one event like the last one, and this is all that is done for it.
            text = template.match_whole(data)
            if text is not None:
                self._texts.append(text)
                self._last_alike = data
                self._room_bytes = room_bytes
                self.chunk_count += 1
                return
        start = 0
        if self._tail:
            start = self._end_tail(data)
            if start == size:
                return
        while self._wasted < MAX_WASTED_TEMPLATES:
            template = self._template if self._between_events else None
            if template is not None:
                start = self._take_alike(template, data, start)
                if start == size:
                    return
            # An event that no template knows is read alone, and may well be the next template.
            end = data.find(_EVENT_END, start) + _EVENT_END_BYTES
            if end < _EVENT_END_BYTES:
                if template is not None:
                    tail = data[start:]
                    if len(tail) <= MAX_TAIL_BYTES and template.may_begin(tail):
                        self._tail = tail  # it may be another one like the last
                        return
                break
            self._feed_event(data[start:end])
            start = end
            if start == size:
                return
        if start < size:
            self._feed(data[start:])

    def _end_tail(self, data: bytes) -> int:
        """Take the rest of the event that waits for it, a read of its own; where that ends."""
        tail, self._tail = self._tail, b""
        end = 0 if tail.endswith(b"\n") else data.find(_EVENT_END) + _EVENT_END_BYTES
        if end < _EVENT_END_BYTES:  # it goes on, or an end of it may be in both
            end = len(data)
        self.feed(tail + data[:end])
        return end

    def _feed_event(self, event: bytes) -> None:
        """Take bytes that end in a blank line: one event, where one may begin here."""
        data = read_line(event) if self._between_events else None
        if data is not None:  # usual: the decoder would give just this
            self._take_data(data)
        else:
            self._feed(event)

    def _feed(self, data: bytes) -> None:
        if self._decoder is None:
            return
        try:
            for event in self._decoder.feed(data):
                self._take(event)
        except LimitExceeded:
            self._give_up()
        else:
            self._between_events = self._decoder.between_events
            if not self._between_events:
                self._room_bytes = 0
            pending_bytes = self._decoder.pending_bytes
            if pending_bytes > _SMALL_PENDING_BYTES or self._pending_bytes:
                self._set_aside(pending_bytes)

    def _set_aside(self, pending_bytes: int) -> None:
        """Hold so many bytes of the event under way; without room nothing more is read."""
        if self._accumulator.set_aside(pending_bytes - self._pending_bytes):
            self._pending_bytes = pending_bytes
        else:
            self._give_up()

    def _take_alike(self, template: ChunkTemplate, data: bytes, start: int) -> int:
        """Take the events from an offset on that are like the last one; where they end."""
        size = len(data)
        if size > self._room_bytes and not self._make_room(template, size):
            return start
        texts, count, end = template.match_all(data, start)
        if count:
            self._texts += texts
            self._joined += count - len(texts)
            self._room_bytes -= size
            if template.padding_member is not None:
                self._last_alike = data[:end]
            self.chunk_count += count
        return end

    def _make_room(self, template: ChunkTemplate, size_bytes: int) -> bool:
        """Whether so many bytes of events surely fit, once what was taken is folded."""
        self._fold_alike()
        room_bytes = self._accumulator.room_bytes(template.index)
        self._room_bytes = min(room_bytes, max(size_bytes, _MAX_UNFOLDED_BYTES))
        return size_bytes <= room_bytes

    def _fold_alike(self) -> None:
        """Fold the texts of the events that were like the last one."""
        texts, template = self._texts, self._template
        if not texts or template is None:
            return
        self._accumulator.feed_texts(template.index, template.member, texts, self._joined)
        self._texts = []
        self._joined = self._wasted = 0
        if template.padding_member is not None:
            padding = template.padding_of(self._last_alike)
            self._accumulator.feed_padding(template.padding_member, padding)

    def finish(self) -> ChatResponse:
        """Take the end of the bytes and return what the stream said. Call it once."""
        if self._tail:
            self._feed(self._tail)
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
        data = event.data
        if not data:
            if error := find_error(None, event.event, event.comments):
                self._accumulator.note_error(error)
            return
        self._take_data(data, event.event, is_single_line=event.is_single_line, cut_off=cut_off)

    def _take_data(
        self,
        data: bytes,
        name: str | None = None,
        *,
        is_single_line: bool = True,
        cut_off: bool = False,
    ) -> None:
        """Take the data of an event; its name; whether the event is that one line and no more."""
        if is_done(data):
            self.done = self.is_complete = True
            return
        if len(data) > _UNWEIGHED_BYTES and decoded_bytes(data) > _MAX_DECODED_EVENT_BYTES:
            self.chunk_count += 1
            self._accumulator.note("observer_limit")
            return
        try:
            value = decode_json(data)
        except ValueError:
            self._take_text(data, name, cut_off=cut_off)
            return
        self._fold_alike()
        hidden = self._hides_usage and is_single_line and is_usage_only(value)
        accumulator = self._accumulator
        accumulator.feed(value, event_name=name, hidden_usage=hidden)
        if hidden or (accumulator.has_error and find_error(value, name)):
            self._other_count += 1
        else:
            self.chunk_count += 1
        # What a template recognises neither finishes a choice nor begins one.
        finished = accumulator.finished
        self.is_complete = self.done or (finished and accumulator.has_usage)
        self._template = None
        self._room_bytes = 0
        if finished or not accumulator.has_content:
            return  # hardly ever is the next one like it
        if is_single_line and name is None and self._wasted < MAX_WASTED_TEMPLATES:
            self._template = learn_template(data, value)
            self._wasted += self._template is not None

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
