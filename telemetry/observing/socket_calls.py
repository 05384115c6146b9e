"""The calls of a WebSocket: its bytes in, the frames of one exchange for each call out, sans-IO.

A session of an API (:mod:`codec.apis.session`) says which calls the messages are about. Each call
becomes an exchange as if it had come by HTTP (:mod:`telemetry.observing.socket_call`). So all that
holds for calls holds here as well: masks, limits, times, what is shown while it runs.

Ids follow from the connection's identity and the number of the call, so that frames that come again
give the same spans (R8). Between two calls there is a state, from which a new object continues
behind what was read.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import msgspec

from codec.apis.table import get_api
from codec.errors import CodecError
from codec.text.jsontext import encode_json
from codec.websockets import MessageKind, MessageParser, read_deflate
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import End, ResponseHead, SocketData, SocketState
from telemetry.observing.open_bodies import Holding
from telemetry.observing.socket_call import SocketCall, prefer_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codec.apis.session import OpenSession, Session, SessionCall
    from codec.websockets import Deflate, Message
    from telemetry.frames.frame import Begin, Frame, Headers
    from telemetry.observing.open_bodies import OpenBodies
    from telemetry.span_identity import SpanIdentity

_EXTENSIONS = "sec-websocket-extensions"

_UNREAD = "nothing that followed on the WebSocket could be read"

_QUIET_CLOSES = frozenset({None, 1000, 1001})
"""Codes of a close that is no error (RFC 6455, section 7.4.1)."""

_TEXTS = frozenset({MessageKind.TEXT, MessageKind.BINARY})


class _State(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The state of a connection's calls.

    Attributes:
        count: how many calls there were.
        windows: of the parsers of the client's and the server's messages.
        session: the session's own.
    """

    count: int
    windows: tuple[bytes, bytes]
    session: bytes


_encode_state = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(_State).decode


class SocketCalls:
    """The calls of one connection.

    Args:
        begin: the first frame of the connection.
        open_session: begins to read its messages.
        next_number: gives a number that no other exchange has.
        bodies: the room for large messages under way.

    Attributes:
        read_bytes: how many bytes of both directions were read.
        is_unread: something broke the protocol, or us, so nothing that follows is read.
    """

    def __init__(
        self,
        begin: Begin,
        open_session: OpenSession,
        next_number: Callable[[], int],
        bodies: OpenBodies,
    ) -> None:
        self.read_bytes = 0
        self._begin = begin
        self._open_session = open_session
        self._session: Session = open_session()
        self._next_number = next_number
        self._at_ns = begin.at_ns
        self._deflate: Deflate | None = None
        self._bodies = bodies
        self._holding = Holding(bodies, self._give_up)  # the requests of open calls
        self._directions: dict[bool, _Direction] = {}  # by whether it is the client's
        self._head: ResponseHead | None = None
        self._open: dict[SessionCall, SocketCall] = {}
        self._count = 0
        self.is_unread = False

    @property
    def open_numbers(self) -> list[int]:
        """The numbers of the exchanges that are open."""
        return [call.number for call in self._open.values()]

    def feed(self, frame: Frame) -> Iterator[Frame]:
        """Feed a frame of the connection, and yield those of its calls."""
        if isinstance(frame, ResponseHead):
            self._head = frame
            agreed = [value for name, value in frame.headers if name == _EXTENSIONS]
            self._deflate = read_deflate(",".join(agreed))
            self._open_directions((b"", b""))
        elif isinstance(frame, End):
            is_cut = frame.shed_bytes > 0
            yield from self._end(frame.at_ns, frame.kind, frame.message, is_cut=is_cut)
        elif isinstance(frame, SocketState):
            self._continue(frame)
        elif isinstance(frame, SocketData):
            self.read_bytes += len(frame.data)
            self._at_ns = frame.at_ns
            yield from self.end_due(frame.at_ns)
            if not self.is_unread:
                yield from self._read(frame)

    def _open_directions(self, windows: tuple[bytes, bytes]) -> None:
        self._close_directions()
        for from_client, window in zip((True, False), windows, strict=True):
            parser = MessageParser(from_client=from_client, deflate=self._deflate, window=window)
            self._directions[from_client] = _Direction(parser, self._bodies)

    def close(self) -> None:
        """Forget the messages under way, and give back all room."""
        self._close_directions()
        self._holding.close()

    def _close_directions(self) -> None:
        for direction in self._directions.values():
            direction.close()
        self._directions.clear()

    @property
    def state(self) -> SocketState | None:
        """What a new object needs to continue here; ``None`` within a call or a message."""
        if self.is_unread:
            return SocketState(self._begin.exchange, self._at_ns, self.read_bytes, b"")
        if self._open or not self._directions:
            return None
        client, server = (each.parser.window for each in self._directions.values())
        if client is None or server is None:
            return None
        if (session := self._session.state) is None:
            return None
        state = _State(self._count, (client, server), session)
        return SocketState(self._begin.exchange, self._at_ns, self.read_bytes, _encode_state(state))

    def _continue(self, frame: SocketState) -> None:
        """Continue from a state."""
        self.read_bytes, self._at_ns = frame.read_bytes, frame.at_ns
        if not frame.data:
            self.is_unread = True
            return
        state = _decode_state(frame.data)
        self._count = state.count
        self._open_directions(state.windows)
        self._session = self._open_session(state=state.session)

    def end_due(self, now_ns: float) -> Iterator[Frame]:
        """End the calls that have ended, and whose request misses nothing that may still come."""
        for call in [*self._open]:
            yield from self._end_due(call, now_ns)

    def _end_due(self, call: SessionCall, now_ns: float) -> Iterator[Frame]:
        if call.end_ns is not None and call.waits_until_ns <= now_ns:
            open_call = self._open.pop(call)
            yield from open_call.end(call.end_ns, open_call.end_kind)

    def _read(self, frame: SocketData) -> Iterator[Frame]:
        direction = self._directions.get(frame.from_client)
        if direction is None:
            return
        try:
            for message in direction.feed(frame.data):
                is_close = message.kind is MessageKind.CLOSE and not frame.from_client
                text = _read_close(message) if is_close else message
                if text.kind in _TEXTS:
                    yield from self._read_text(text, frame)
        except CodecError:
            yield from self._stop()

    def _stop(self) -> Iterator[Frame]:
        """End all calls here, because nothing that follows is read."""
        self.is_unread = True
        yield from self._end(self._at_ns, EndKind.UPSTREAM_BROKEN, _UNREAD, is_cut=True)

    def fail(self) -> Iterator[Frame]:
        """End the open calls after a defect of ours, which may have broken the session as well."""
        self.is_unread = True
        self._session = self._open_session()
        self.close()
        yield from self._end_open(self._at_ns, EndKind.UPSTREAM_BROKEN, _UNREAD, is_cut=True)

    def _read_text(self, message: Message, frame: SocketData) -> Iterator[Frame]:
        """Yield the frames of the calls that a message is about."""
        calls = self._session.feed(
            message.data,
            from_client=frame.from_client,
            at_ns=frame.at_ns,
            is_whole=message.is_whole,
        )
        self._hold()
        for call in calls:
            if call.first_ns is None and call.end is None:
                continue  # it waits for its turn
            is_new = call not in self._open
            open_call = self._open_call(call)
            if is_new:
                yield from open_call.begin(message.data)
            if not frame.from_client:
                open_call.is_cut |= not message.is_whole
                if message.is_whole:
                    yield from open_call.take(message.data, frame.at_ns)
            yield from self._end_due(call, frame.at_ns)

    def _hold(self) -> None:
        """Reserve what the requests of open calls take, or forget them."""
        more_bytes = self._session.held_bytes - self._holding.held_bytes
        if more_bytes < 0:
            self._holding.give_back(-more_bytes)
        elif not self._holding.reserve(more_bytes):
            self._holding.give_up()

    def _give_up(self) -> None:
        """Forget the requests of open calls; their frames are not made again."""
        self._session.give_up()
        for open_call in self._open.values():
            open_call.forget_body()

    def _open_call(self, call: SessionCall) -> SocketCall:
        known = self._open.get(call)
        if known is None:
            self._count += 1
            identity = derive_identity(self._begin.identity, self._count)
            number = self._next_number()
            known = self._open[call] = SocketCall(
                call,
                msgspec.structs.replace(
                    self._begin,
                    exchange=number,
                    at_ns=call.start_ns,
                    identity=identity,
                    headers=prefer_metadata(_drop_coding(self._begin.headers), call.body),
                ),
                _drop_coding(self._head.headers) if self._head is not None else (),
                self._session_id,
            )
        return known

    @property
    def _session_id(self) -> str | None:
        """The id of the conversation that the connection is, where a provider may give it none."""
        is_conversation = get_api(self._begin.endpoint).sockets_only
        return self._begin.identity.span_id if is_conversation else None

    def _end(self, at_ns: int, kind: EndKind, message: str, *, is_cut: bool) -> Iterator[Frame]:
        """End what the end of the connection cuts off; `is_cut`: not all of it is known."""
        self.close()
        yield from self.end_due(math.inf)
        for call in self._session.close(at_ns):
            if call not in self._open:
                yield from self._open_call(call).begin()
        if kind in (EndKind.UPSTREAM_EOF, EndKind.UPSTREAM_UNFRAMED_END):
            kind = EndKind.UPSTREAM_BROKEN  # it ended in the middle of an answer
        yield from self._end_open(at_ns, kind, message, is_cut=is_cut)

    def _end_open(
        self, at_ns: int, kind: EndKind, message: str, *, is_cut: bool
    ) -> Iterator[Frame]:
        for open_call in self._open.values():
            open_call.is_cut |= is_cut
            yield from open_call.end(at_ns, kind, message)
        self._open.clear()


class _Direction:
    """A direction of a connection, and the room that its message under way takes.

    Args:
        bodies: lends the room, and may have it back: then the message is cut.
    """

    def __init__(self, parser: MessageParser, bodies: OpenBodies) -> None:
        self.parser = parser
        self._holding = Holding(bodies, parser.cut)
        parser.lend = self._holding.reserve

    def feed(self, data: bytes) -> Iterator[Message]:
        """Feed a read, and yield the messages that it ends; their room is theirs until the next."""
        for message in self.parser.feed(data):
            yield message
            self._holding.release()

    def close(self) -> None:
        """Give back the room."""
        self._holding.close()


def _read_close(close: Message) -> Message:
    """Make a message of an error that a server says as it closes: Google has no other errors."""
    code = close.close_code
    if code in _QUIET_CLOSES:
        return close
    words = close.close_reason or f"the upstream closed the WebSocket with the status {code}"
    data = encode_json({"error": {"code": code, "message": words}}).encode()
    return msgspec.structs.replace(close, kind=MessageKind.TEXT, data=data, size_bytes=len(data))


def _drop_coding(headers: Headers) -> Headers:
    """Leave out the coding of a handshake's body: it says nothing of the messages."""
    return tuple(field for field in headers if field[0] != "content-encoding")


def derive_identity(identity: SpanIdentity, number: int) -> SpanIdentity:
    """Derive the identity of a call; without a caller each call has a trace to itself."""
    seed = f"{identity.trace_id} {identity.span_id} {number}".encode()
    digest = hashlib.sha256(seed).hexdigest()
    trace_id = identity.trace_id if identity.parent_span_id is not None else digest[16:48]
    return msgspec.structs.replace(identity, trace_id=trace_id, span_id=digest[:16])
