"""Live over a WebSocket: the messages of both directions become calls.

A call is a turn of the model. It begins with what the client asks, a content that is complete or
the output of tools, or else with the first thing that the model says: then the user spoke. It ends
where the model says so, or where it calls tools, because their output begins the next turn. A turn
that the user interrupts says that first, and ends then; if its end does not come, the next turn
ends it.

Messages have no ids, and nothing orders what the user is heard to say among the rest. So words that
are heard while a turn is under way belong to it, until it is interrupted: they come late. Then its
call gets another body.

What the server says between two turns about the session, that it goes away, or about tools whose
output it does not want any more, is in the body of the next turn.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from codec.apis.gemini.live.asked import NOTICES
from codec.apis.gemini.live.history import History
from codec.apis.gemini.live.sound import (
    INPUT_RATE,
    SoundCount,
    SpokenSound,
    put_sound,
    take_sound,
)
from codec.apis.gemini.live.stream import LiveStream
from codec.apis.gemini.names import both, member_of, some_of
from codec.apis.session import MAX_VALUE_BYTES, CallEnd, SessionCall
from codec.budget import size_bytes
from codec.kept_sound import KeptSound
from codec.members import list_of, object_of, text_of
from codec.text.json_size import decoded_bytes
from codec.text.jsontext import decode_json, encode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codec.text.jsontext import JsonObject

__all__ = ("MAX_WAITING", "LiveSession")

MAX_WAITING: Final = 64
"""The most requests that wait: a model takes one turn after the other."""

_MAX_ID_CHARS: Final = 256

_MAX_NOTICE_BYTES: Final = 16 * 1024
"""The most memory that a notice takes until the next turn: ids of calls, or a time."""

_ABOUT_TURN: Final = ("serverContent", "toolCall", "usageMetadata", *NOTICES)
"""Members of the messages that are about a turn. Others may have the handle of the session."""

_RESUMPTION: Final = both("sessionResumption")
_NAME: Final = re.compile(rb'\s*\{\s*"(\w{1,40})"').match
_ASKS: Final = frozenset({b"clientContent", b"client_content", b"toolResponse", b"tool_response"})
_SOUND: Final = frozenset({b"realtimeInput", b"realtime_input"})
_OF_TURN: Final = frozenset({b"serverContent", b"toolCall"})


@dataclass(slots=True, eq=False)
class _Open:
    """A turn under way; `heard` is the sound that is kept in its request."""

    call: SessionCall
    stream: LiveStream
    heard: JsonObject | None


class LiveSession:
    """Reads one connection. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).
        state: the :attr:`state` of the session that it continues.
        keeps_sound: what the user said stands as sound in the request that it came with.
    """

    __slots__ = (
        *("_asked_ns", "_has_begun", "_heard", "_history", "_lend", "_misses_setup", "_notices"),
        *("_open", "_session_id", "_setup", "_sound"),
    )

    def __init__(
        self,
        *,
        lend: Callable[[int], bool] | None = None,
        state: bytes = b"",
        keeps_sound: bool = False,
    ) -> None:
        self._lend = lend
        self._history = History()
        self._setup: JsonObject = {}
        self._misses_setup = True
        self._session_id: str | None = None
        self._has_begun = False  # the server took the setup
        self._notices: JsonObject = {}  # since the last turn ended
        self._asked_ns: deque[int] = deque(maxlen=MAX_WAITING)  # when the client asked
        self._open: _Open | None = None
        self._sound = SoundCount(INPUT_RATE)  # since the last turn began
        if state:
            self._restore(decode_json(state))
        self._heard: SpokenSound | None = None
        if keeps_sound:
            lost = KeptSound(keeps_end=True, missing_bytes=self._sound.size_bytes)
            self._heard = SpokenSound(lost, INPUT_RATE)

    @property
    def held_bytes(self) -> int:
        """What the sound takes that is kept."""
        opened = self._open
        in_request = 0 if opened is None or opened.heard is None else len(opened.heard["data"])
        return in_request + (0 if self._heard is None else len(self._heard))

    def give_up(self) -> None:
        """Forget all sound (:meth:`codec.apis.session.Session.give_up`)."""
        if self._heard is not None:
            self._heard.forget()
        opened = self._open
        if opened is not None and opened.heard is not None:
            opened.heard = None
            opened.call.body = opened.call.body | {"contents": self._history.list()}
            opened.call.is_partial = True

    @property
    def state(self) -> bytes | None:
        """What a new session needs to continue (:attr:`codec.apis.session.Session.state`)."""
        if self._open is not None or self._asked_ns:
            return None
        setup = None if self._misses_setup else self._setup
        sound = [self._sound.size_bytes, self._sound.seconds, self._sound.is_known]
        known = [setup, self._session_id, self._has_begun, self._notices, sound]
        return encode_json([*known, self._history.state]).encode()

    def _restore(self, state: list[Any]) -> None:
        setup, self._session_id, self._has_begun, self._notices, sound, history = state
        if setup is not None:
            self._keep_setup(setup)
        self._sound = SoundCount(INPUT_RATE, *sound)
        self._history.restore(history)

    def feed(
        self, text: bytes, *, from_client: bool, at_ns: int, is_whole: bool = True
    ) -> Sequence[SessionCall]:
        """Feed the next message (:meth:`codec.apis.session.Session.feed`)."""
        if not is_whole or decoded_bytes(text) > MAX_VALUE_BYTES:
            return self._pass_over(text, at_ns)
        try:
            message = object_of(decode_json(text))
        except ValueError:
            return ()
        if from_client:
            self._read_command(message, at_ns)
            return ()
        return [*self._read_event(message, text, at_ns)]

    def close(self, at_ns: int) -> Sequence[SessionCall]:
        """End the calls that the end of the connection cuts off, and return them."""
        ended = [] if self._open is None else [self._end(self._open, CallEnd.CLOSED, at_ns)]
        while self._asked_ns:
            ended.append(self._end(self._begin(at_ns), CallEnd.CLOSED, at_ns))
        return ended

    def _pass_over(self, text: bytes, at_ns: int) -> Sequence[SessionCall]:
        """Note a message that is too large to be read."""
        found = _NAME(text)
        name = b"" if found is None else found[1]
        if name in _ASKS:
            self._history.is_partial = True
            self._asked_ns.append(at_ns)
        elif name in _SOUND:
            self._sound.is_known = False
        elif name in _OF_TURN and self._open is not None:
            self._open.stream.feed_cut()
            return [self._open.call]
        return ()

    def _read_command(self, message: JsonObject, at_ns: int) -> None:
        """Read a message of the client, which has one member."""
        if isinstance(setup := member_of(message, "setup"), dict):
            self._set(setup)
        given = object_of(member_of(message, "clientContent"))
        turns = [turn for turn in some_of(given.get("turns")) if isinstance(turn, dict)]
        for turn in turns:
            parts = some_of(turn.get("parts"))
            self._history.add(turn | {"parts": [*map(self._take_sound, parts)]})
        if member_of(given, "turnComplete") is True:
            self._asked_ns.append(at_ns)
        given = object_of(member_of(message, "toolResponse"))
        results = some_of(member_of(given, "functionResponses"))
        if results:
            parts = [{"functionResponse": result} for result in results]
            self._history.add({"role": "user", "parts": parts})
            self._asked_ns.append(at_ns)
        self._hear(object_of(member_of(message, "realtimeInput")))

    def _set(self, setup: JsonObject) -> None:
        """Take the setup, which comes once.

        Of an earlier connection that it resumes, nothing is known. Its handle is left out, because
        it is as good as a password for the session.
        """
        resumed = object_of(member_of(setup, "sessionResumption"))
        self._history.is_partial |= bool(resumed.get("handle"))
        if self._misses_setup:
            self._keep_setup({name: it for name, it in setup.items() if name not in _RESUMPTION})

    def _keep_setup(self, setup: JsonObject) -> None:
        if self._history.hold(setup):
            self._setup, self._misses_setup = setup, False

    def _hear(self, given: JsonObject) -> None:
        """Read what the user says: count sound, and keep text."""
        blobs = [member_of(given, "audio"), *list_of(member_of(given, "mediaChunks"))]
        for blob in blobs:
            if self._sound.add(object_of(blob)) and self._heard is not None:
                self._heard.add(object_of(blob))
        if (typed := text_of(given.get("text"))) is not None:
            self._history.add({"role": "user", "parts": [{"text": typed}]})

    def _take_sound(self, part: Any) -> Any:
        return take_sound(part, self._sound) if isinstance(part, dict) else part

    def _read_event(self, message: JsonObject, text: bytes, at_ns: int) -> Iterator[SessionCall]:
        if message.get("error"):
            yield from self._fail(text, at_ns)
            return
        self._note_session(message)
        said = object_of(member_of(message, "serverContent"))
        says = _says_something(message, said)
        ends = member_of(said, "turnComplete") is True
        opened = self._open
        if opened is not None and opened.stream.is_interrupted and says and not ends:
            yield self._end(opened, CallEnd.ANSWERED, at_ns)
        self._hear_words(object_of(member_of(said, "inputTranscription")))
        if self._open is None:
            if not says and not (ends and self._asked_ns):
                return
            self._open = self._begin(at_ns)
        if all(member_of(message, name) is None for name in _ABOUT_TURN):
            return
        opened = self._open
        call, stream = opened.call, opened.stream
        stream.feed_message(text)
        if call.first_ns is None:
            call.first_ns = at_ns
        if stream.is_interrupted:
            self._history.pause()
        yield self._end(opened, CallEnd.ANSWERED, at_ns) if stream.is_complete else call

    def _note_session(self, message: JsonObject) -> None:
        """Note what a message says of the session."""
        complete = member_of(message, "setupComplete")
        self._has_begun |= complete is not None
        if (session_id := text_of(member_of(object_of(complete), "sessionId"))) is not None:
            self._session_id = session_id[:_MAX_ID_CHARS]
        if self._open is None:
            for name in NOTICES:
                value = member_of(message, name)
                if value is not None and size_bytes(value) <= _MAX_NOTICE_BYTES:
                    self._notices[name] = value

    def _fail(self, text: bytes, at_ns: int) -> Iterator[SessionCall]:
        """End what an error is about: the open turn, all that waits, or a setup that is refused."""
        if (opened := self._open) is not None:
            opened.stream.feed_message(text)
            yield self._end(opened, CallEnd.BROKEN, at_ns)
        while self._asked_ns or not self._has_begun:
            opened = self._begin(at_ns)
            opened.stream.feed_message(text)
            yield self._end(opened, CallEnd.REFUSED, at_ns)

    def _hear_words(self, heard: JsonObject) -> None:
        if (words := text_of(heard.get("text"))) is not None:
            opened = self._open
            is_late = opened is not None and not opened.stream.is_interrupted
            self._history.hear(words, is_late=is_late)
            if opened is not None and is_late:
                contents = _put_heard(self._history.list(), opened.heard)
                opened.call.body = opened.call.body | {"contents": contents}
                opened.call.is_partial |= self._history.is_partial
        if heard.get("finished") is True:
            self._history.pause()

    def _begin(self, at_ns: int) -> _Open:
        """Begin a turn, with all of the conversation as far as it is known."""
        heard = None if self._heard is None else self._heard.pop()
        contents = _put_heard(self._history.begin(), heard)
        body = self._setup | {"contents": contents} | self._notices
        self._notices, self._has_begun = {}, True
        if self._session_id is not None:
            body["session_id"] = self._session_id
        if (count := self._sound.describe()) is not None:
            body["input_audio"] = count
        self._sound = SoundCount(INPUT_RATE)
        stream = LiveStream(lend=self._lend)
        has_request = bool(self._asked_ns)
        call = SessionCall(
            body=body,
            is_partial=self._misses_setup or self._history.is_partial,
            has_request=has_request,
            start_ns=self._asked_ns.popleft() if has_request else at_ns,
            stream=stream,
        )
        return _Open(call, stream, heard)

    def _end(self, opened: _Open, end: CallEnd, at_ns: int) -> SessionCall:
        call = opened.call
        said = call.said = opened.stream.finish()
        call.end, call.end_ns = end, at_ns
        content = next((object_of(it.get("content")) for _, it in said.candidates), {})
        self._history.end(content if content.get("parts") else None)
        self._open = None
        return call


def _put_heard(contents: list[JsonObject], heard: JsonObject | None) -> list[JsonObject]:
    """Put kept sound beside the words that the user was heard to say last, or behind all."""
    if heard is None:
        return contents
    last = contents[-1] if contents else {}
    is_spoken = any(object_of(part).get("transcript") for part in some_of(last.get("parts")))
    if last.get("role") != "user" or not is_spoken:
        return [*contents, {"role": "user", "parts": put_sound((), heard)}]
    return [*contents[:-1], last | {"parts": put_sound(last["parts"], heard)}]


def _says_something(message: JsonObject, said: JsonObject) -> bool:
    """Tell whether the model says something in a message, or calls a tool."""
    parts = (member_of(said, "modelTurn"), member_of(said, "outputTranscription"))
    return bool(member_of(message, "toolCall")) or any(map(bool, parts))
