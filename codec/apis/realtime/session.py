"""Realtime over a WebSocket: the messages of both directions become calls.

A call is a response. The client asks for one by ``response.create``, or the server begins one by
itself because the user stopped speaking. The input is the whole conversation so far, as the server
says what is in it, unless the request has an input itself. Sound stands there as its transcript.
If it is kept, the request that it came with has it as well, and no later one.

The transcript of what the user said comes late, mostly while the answer is under way, and sometimes
after it. Then the call gets another body, and its stream the event as well. A call that has ended
waits for transcripts for a while (:mod:`~codec.apis.realtime.transcripts`). Those that come later
are in the input of the calls after it.

A session that only transcribes or translates has no responses, and so no calls.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from codec.apis.realtime.conversation import ADDED, Conversation
from codec.apis.realtime.creates import Creates
from codec.apis.realtime.heard import HeardSound
from codec.apis.realtime.settings import find_servers, make_body, merge_settings, read_limits
from codec.apis.realtime.sound import (
    count_seconds,
    find_rate,
    find_sound,
    name_format,
    put_sound,
    take_sound,
)
from codec.apis.realtime.stream import TRANSCRIBED, RealtimeStream
from codec.apis.realtime.transcripts import AwaitedTranscripts
from codec.apis.responses.messages import decode_object, glimpse, read_head
from codec.apis.session import MAX_VALUE_BYTES, CallEnd, SessionCall
from codec.media import count_sound
from codec.members import object_of, string_of, text_of
from codec.text.json_size import decoded_bytes
from codec.text.jsontext import decode_json, encode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codec.apis.realtime.creates import Create
    from codec.apis.responses.messages import MessageHead, ResponseHead
    from codec.text.jsontext import JsonObject

__all__ = ("MAX_OPEN", "RealtimeSession")

MAX_OPEN: Final = 32
"""The most responses at once. A conversation answers one at a time; those outside of it are few."""

_MAX_NAME_CHARS: Final = 256

_UNTRANSCRIBED: Final = "conversation.item.input_audio_transcription.failed"
_EXPIRED: Final = "session_expired"
"""The code of the error that ends all responses, after an hour."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Open:
    """A response under way; it may stand outside of the conversation.

    `heard_bytes` is how much sound its request has, in base64.
    """

    call: SessionCall
    stream: RealtimeStream
    is_outside: bool
    heard_bytes: int


class RealtimeSession:
    """Reads one connection. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).
        state: the :attr:`state` of the session that it continues.
        keeps_sound: what the user said stands as sound in the request that it came with.
    """

    __slots__ = (
        *("_awaited", "_conversation", "_creates", "_ended", "_heard", "_held_bytes", "_lend"),
        *("_limits", "_open", "_servers", "_session_id", "_settings", "_sound_bytes", "_waiting"),
    )

    def __init__(
        self,
        *,
        lend: Callable[[int], bool] | None = None,
        state: bytes = b"",
        keeps_sound: bool = False,
    ) -> None:
        self._lend = lend
        self._conversation = Conversation()
        self._settings: JsonObject = {}
        self._servers: JsonObject = {}  # what the client said of MCP servers
        self._held_bytes = 0  # of the settings
        self._session_id: str | None = None
        self._creates = Creates(self._conversation)
        self._open: dict[str, _Open] = {}  # by the id of the response
        self._ended: deque[str] = deque(maxlen=MAX_OPEN)
        self._awaited = AwaitedTranscripts()
        self._waiting: deque[_Open] = deque(maxlen=MAX_OPEN)  # ended, but for such a transcript
        self._sound_bytes: int | None = 0  # of the client, since the last response began
        self._limits: tuple[tuple[str, str], ...] = ()  # the last ones that were reported
        self._heard = HeardSound() if keeps_sound else None
        if state:
            self._restore(decode_json(state))

    @property
    def held_bytes(self) -> int:
        """What the sound takes that is kept."""
        if self._heard is None:
            return 0
        opened = (*self._open.values(), *self._waiting)
        return self._heard.held_bytes + sum(it.heard_bytes for it in opened)

    def give_up(self) -> None:
        """Forget all sound (:meth:`codec.apis.session.Session.give_up`)."""
        if self._heard is not None:
            self._heard.forget()
        for opened in (*self._open.values(), *self._waiting):
            if opened.heard_bytes:
                call = opened.call
                items = [take_sound(item)[0] for item in call.body["input"]]
                call.body, call.is_partial = call.body | {"input": items}, True
                opened.heard_bytes = 0

    @property
    def state(self) -> bytes | None:
        """What a new session needs to continue (:attr:`codec.apis.session.Session.state`)."""
        if self._open or self._creates or self._waiting:
            return None
        session = self._settings | {"id": self._session_id}
        heard = (0, False) if self._heard is None else self._heard.state
        own = [self._servers, [*self._ended], self._sound_bytes, self._limits, heard]
        kept = [session, self._conversation.state, self._awaited.until_ns, *own]
        return encode_json(kept).encode()

    def _restore(self, state: list[Any]) -> None:
        session, conversation, self._awaited.until_ns, self._servers, *rest = state
        ended, self._sound_bytes, limits, (missing_bytes, is_partial) = rest
        if self._heard is not None:
            self._heard = HeardSound(missing_bytes, is_partial=is_partial)
        self._conversation.restore(*conversation)
        self._set(session)
        self._ended.extend(ended)
        self._limits = tuple((name, value) for name, value in limits)

    def feed(
        self, text: bytes, *, from_client: bool, at_ns: int, is_whole: bool = True
    ) -> Sequence[SessionCall]:
        """Feed the next message (:meth:`codec.apis.session.Session.feed`)."""
        is_read = is_whole and decoded_bytes(text) <= MAX_VALUE_BYTES
        head = read_head(text) if is_read else glimpse(text)[0]
        if from_client:
            self._read_command(head, text if is_read else None, at_ns)
        elif head.type == "error":
            return [*self._fail(decode_object(text) if is_read else {}, text, at_ns)]
        elif head.type.startswith("response."):
            return [*self._read_event(head, text if is_read else None, at_ns)]
        elif is_read:
            return self._read_other(head.type, text, at_ns)
        elif head.type.startswith("conversation.item."):
            self._conversation.is_partial = True
        return ()

    def close(self, at_ns: int) -> Sequence[SessionCall]:
        """End the calls that the end of the connection cuts off, and return them."""
        cut = [*self._open.values()]
        while self._creates:
            cut.append(self._begin(self._creates.pop(), None, at_ns))
        return [self._end(opened, CallEnd.CLOSED, at_ns) for opened in cut]

    def _read_command(self, head: MessageHead, text: bytes | None, at_ns: int) -> None:
        """Read a message of the client; ``None`` for one that is too large."""
        if head.type == "response.create":
            event = {} if text is None else decode_object(text)
            asked = self._count_items(object_of(event.get("response")))
            self._creates.add(asked, event.get("event_id"), at_ns, is_cut=text is None)
        elif head.type == "input_audio_buffer.append":
            sound = None if text is None else string_of(decode_object(text).get("audio"))
            self._count(None if sound is None else count_sound(sound))
            if self._heard is not None:
                self._heard.append(sound or "")
        elif head.type == "input_audio_buffer.clear" and self._heard is not None:
            self._heard.clear()
        elif head.type == "session.update" and text is not None:
            session = object_of(decode_object(text).get("session"))
            self._servers = find_servers(session) if "tools" in session else self._servers
        elif head.type == "conversation.item.create" and text is not None:
            self._count(take_sound(object_of(decode_object(text).get("item")))[1])

    def _count(self, size_bytes: int | None) -> None:
        """Count sound of the client; ``None`` if its size is not known."""
        if self._sound_bytes is not None:
            self._sound_bytes = None if size_bytes is None else self._sound_bytes + size_bytes

    def _count_items(self, asked: JsonObject) -> JsonObject:
        """Count the sound in the items of a request, and take it out."""
        if not isinstance(given := asked.get("input"), list):
            return asked
        taken = [take_sound(item) if isinstance(item, dict) else (item, 0) for item in given]
        self._count(sum(size for _, size in taken))
        return asked | {"input": [item for item, _ in taken]}

    def _read_other(self, kind: str, text: bytes, at_ns: int) -> Sequence[SessionCall]:
        """Read an event of the server that is about the session or its conversation."""
        event = decode_object(text)
        if kind in ADDED:
            self._awaited.expect(object_of(event.get("item")), self._settings, at_ns)
        self._conversation.follow(kind, event)
        if kind == TRANSCRIBED and text_of(event.get("transcript")) is not None:
            return self._transcribe(event, text, at_ns)
        if kind == _UNTRANSCRIBED:
            self._awaited.end(event.get("item_id"))
            return self._end_waits(at_ns)
        if kind in {"session.created", "session.updated"}:
            self._set(object_of(event.get("session")))
        elif kind == "input_audio_buffer.committed" and self._heard is not None:
            self._heard.commit(event.get("item_id"), name_format(self._settings, "input"))
        elif kind == "rate_limits.updated":
            self._limits = read_limits(event.get("rate_limits"))
        return ()

    def _set(self, session: JsonObject) -> None:
        self._session_id = text_of(session.get("id")) or self._session_id
        self._conversation.release(self._held_bytes)
        self._settings = merge_settings(self._settings, session, self._servers)
        self._held_bytes = self._conversation.hold(self._settings)
        if not self._held_bytes:
            self._settings = {name: it for name, it in self._settings.items() if name == "model"}
            self._conversation.is_partial = True

    def _end_waits(self, at_ns: int) -> Sequence[SessionCall]:
        """Return the calls that do not wait any more."""
        waits = (
            (it, self._awaited.find_wait(it.call.body["input"], at_ns)) for it in self._waiting
        )
        ended = [opened for opened, until_ns in waits if not until_ns]
        for opened in ended:
            self._waiting.remove(opened)
            opened.call.waits_until_ns = 0
        return [opened.call for opened in ended]

    def _transcribe(self, event: JsonObject, text: bytes, at_ns: int) -> Sequence[SessionCall]:
        """Give an item its transcript, also in the input of responses under way."""
        item_id = self._conversation.change_part(
            event.get("item_id"), event.get("content_index"), transcript=event["transcript"]
        )
        value = self._conversation.get(item_id)
        if item_id is None or value is None:
            return ()
        self._awaited.end(item_id)
        changed = []
        for opened in (*self._open.values(), *self._waiting):
            call = opened.call
            names = [object_of(item).get("id") for item in call.body["input"]]
            if item_id in names:
                given = [*call.body["input"]]
                at = names.index(item_id)
                given[at] = put_sound(value, find_sound(given[at]))
                call.body = call.body | {"input": given}
                changed.append(call)
                if call.end is None:
                    opened.stream.feed_message(text)
        self._end_waits(at_ns)
        return changed

    def _read_event(
        self, head: MessageHead, text: bytes | None, at_ns: int
    ) -> Iterator[SessionCall]:
        response = head.response
        name = head.response_id or (None if response is None else response.id)
        opened = self._open.get(name or "")
        if opened is None and name is None and len(self._open) == 1:
            [opened] = self._open.values()  # a gateway names none
        if opened is None and response is not None and name is not None:
            if name in self._ended or len(name) > _MAX_NAME_CHARS:
                return
            if len(self._open) >= MAX_OPEN:
                yield self._end(next(iter(self._open.values())), CallEnd.REPLACED, at_ns)
            opened = self._begin(self._creates.take_of(response), response, at_ns)
            opened.call.answer_id = name
            self._open[name] = opened
        if opened is None:
            return
        call, stream = opened.call, opened.stream
        if text is not None:
            stream.feed_message(text)
        else:
            stream.feed_cut(head.type)
        if call.first_ns is None:
            call.first_ns = at_ns
        yield self._end(opened, CallEnd.ANSWERED, at_ns) if stream.is_complete else call

    def _begin(self, create: Create | None, response: ResponseHead | None, at_ns: int) -> _Open:
        """Begin a response, with all of the conversation as far as it is known."""
        asked = {} if create is None else create.asked
        items = self._conversation.list()
        is_partial = self._conversation.is_partial
        if isinstance(given := asked.get("input"), list):
            items = self._conversation.resolve(given)
            is_partial = len(items) < len(given)
        conversation_id = msgspec.UNSET if response is None else response.conversation_id
        is_outside = asked.get("conversation") == "none" or conversation_id is None
        heard_bytes = 0
        if self._heard is not None and response is not None and not is_outside:
            is_partial |= self._heard.is_partial
            items, heard_bytes = self._heard.bring(items)
        body = make_body(self._settings, asked, items)
        if self._session_id is not None:
            body["session_id"] = self._session_id
        if response is not None and not is_outside:
            if self._sound_bytes:
                seconds = count_seconds(self._sound_bytes, find_rate(body, "input"))
                body["input_audio"] = {"bytes": self._sound_bytes, "seconds": seconds}
            self._sound_bytes = 0
        stream = RealtimeStream(lend=self._lend, rate=find_rate(body, "output"))
        call = SessionCall(
            body=body,
            is_partial=is_partial or (create is not None and create.is_partial),
            has_request=create is not None,
            start_ns=at_ns if create is None else create.at_ns,
            stream=stream,
            head=self._limits,
        )
        return _Open(call=call, stream=stream, is_outside=is_outside, heard_bytes=heard_bytes)

    def _end(self, opened: _Open, end: CallEnd, at_ns: int) -> SessionCall:
        call = opened.call
        said = call.said = opened.stream.finish()
        call.end, call.end_ns = end, at_ns
        if end is CallEnd.ANSWERED:
            call.waits_until_ns = self._awaited.find_wait(call.body["input"], at_ns)
            if call.waits_until_ns:
                self._waiting.append(opened)
        if call.answer_id is not None:
            self._open.pop(call.answer_id, None)
            self._ended.append(call.answer_id)
        if not opened.is_outside:
            for item in said.items:
                self._conversation.put(item, is_new=False)
        return call

    def _fail(self, event: JsonObject, text: bytes, at_ns: int) -> Iterator[SessionCall]:
        """End what an error is about: a request that waits, or all that is under way."""
        error = object_of(event.get("error"))
        if error.get("code") == _EXPIRED:
            for opened in [*self._open.values()]:
                opened.stream.feed_message(text)
                yield self._end(opened, CallEnd.BROKEN, at_ns)
        elif (create := self._creates.take_refused(error)) is not None:
            opened = self._begin(create, None, at_ns)
            opened.stream.feed_message(text)
            yield self._end(opened, CallEnd.REFUSED, at_ns)
