"""The parser of one direction of a WebSocket connection: bytes in, messages out (RFC 6455).

It reads an observer's copy. It answers nothing, and expects nothing of the other direction. Text is
not checked to be UTF-8, and any code may close a connection, because endpoints differ in what they
accept. Whatever comes behind a close frame is ignored.

However large a message or a frame is, and however well it was compressed, a parser keeps no more of
it than its limit: a longer message is cut, and the next one is read as usual (R5). Beyond
:data:`FREE_BYTES` it asks its lender for as many again at a time.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, cast

import msgspec
from wsproto.extensions import Extension
from wsproto.frame_protocol import CloseReason, FrameDecoder, Opcode, ParseFailed, RsvBits

from codec.errors import MalformedWebSocket
from codec.websockets.deflate import Inflater

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wsproto.frame_protocol import Frame, FrameProtocol

    from codec.websockets.deflate import Deflate

__all__ = ("FREE_BYTES", "MAX_MESSAGE_BYTES", "Message", "MessageKind", "MessageParser")

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""The most that is kept of a message: as much as of an event over HTTP. A request or an answer may
have pictures."""

FREE_BYTES: Final = 64 * 1024
"""How much of a message is kept without a loan, on each of thousands of connections. Events with
one more word take some 300 bytes, whole requests of agents some 100 KiB. No piece of a message is
larger."""

_READ_BYTES: Final = 64 * 1024
"""How much is parsed at once: wsproto copies what it is fed several times."""


class MessageKind(StrEnum):
    """The kind of a message; the last three are control frames."""

    TEXT = "text"
    BINARY = "binary"
    PING = "ping"
    PONG = "pong"
    CLOSE = "close"


_KINDS: Final = {
    Opcode.TEXT: MessageKind.TEXT,
    Opcode.BINARY: MessageKind.BINARY,
    Opcode.PING: MessageKind.PING,
    Opcode.PONG: MessageKind.PONG,
    Opcode.CLOSE: MessageKind.CLOSE,
}


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message, inflated and unmasked.

    Attributes:
        data: its bytes; of a message that is not whole, its beginning.
        size_bytes: the size of the whole message.
    """

    kind: MessageKind
    data: bytes
    size_bytes: int

    @property
    def is_whole(self) -> bool:
        """Whether all of it is here."""
        return len(self.data) == self.size_bytes

    @property
    def close_code(self) -> int | None:
        """The code of a close frame; ``None`` if it has none."""
        return int.from_bytes(self.data[:2], "big") if len(self.data) >= 2 else None

    @property
    def close_reason(self) -> str:
        """The reason in a close frame, which is often empty."""
        return self.data[2:].decode("utf-8", "replace")


class MessageParser:
    r"""Parses one direction of a connection. Not safe for concurrent calls.

    Args:
        from_client: whether it is the client's direction, whose frames are masked.
        deflate: how the handshake allows messages to be compressed.
        limit_bytes: how much of a message is kept without a loan.
        window: what another parser's :attr:`window` was where this one continues.

    Attributes:
        lend: whether that many more bytes may be kept of a message, beside all that others keep;
            ``None``: never.

    >>> parser = MessageParser(from_client=False)
    >>> [message.data for message in parser.feed(b"\x81\x02Hi\x81")]
    [b'Hi']
    """

    __slots__ = (
        "_data",
        "_decoder",
        "_error",
        "_inflater",
        "_is_closed",
        "_kind",
        "_limit_bytes",
        "_marks",
        "_may_grow",
        "_room_bytes",
        "_size_bytes",
        "lend",
    )

    def __init__(
        self,
        *,
        from_client: bool,
        deflate: Deflate | None = None,
        limit_bytes: int = FREE_BYTES,
        window: bytes = b"",
    ) -> None:
        self._limit_bytes = limit_bytes
        self.lend: Callable[[int], bool] | None = None
        self._marks = _CompressionMarks()
        self._inflater: Inflater | None = None
        if deflate is not None:
            keeps = deflate.client_keeps_context if from_client else deflate.server_keeps_context
            self._inflater = Inflater(keeps_context=keeps, window=window)
        extensions: list[Extension] = [] if deflate is None else [self._marks]
        self._decoder = FrameDecoder(client=not from_client, extensions=extensions)
        self._is_closed = False
        self._error: str | None = None
        self._begin()

    def _begin(self) -> None:
        """Wait for the next message."""
        self._kind: MessageKind | None = None
        self._data = bytearray()
        self._size_bytes = 0
        self._room_bytes, self._may_grow = self._limit_bytes, True

    def cut(self) -> None:
        """Cut the message under way, if it needs a loan, to what needs none."""
        if len(self._data) > self._limit_bytes:
            del self._data[self._limit_bytes :]
            self._room_bytes, self._may_grow = self._limit_bytes, False

    @property
    def window(self) -> bytes | None:
        """The text that later compressed messages may refer to, at most 32 KiB.

        A new parser that begins with it reads what follows as this one does. It is ``None`` within
        a message, and where nothing more is read.
        """
        decoder = self._decoder
        if self._is_closed or self._error or self._kind or decoder.header or len(decoder.buffer):
            return None
        return self._inflater.window if self._inflater is not None else b""

    def feed(self, data: bytes) -> Iterator[Message]:
        """Feed one read, cut anywhere, and yield the messages that it ends.

        They are read while they are asked for: ask for all before the next read.

        Raises:
            MalformedWebSocket: the bytes break the protocol. It is raised again by every later
                call.
        """
        for start in range(0, len(data), _READ_BYTES):
            for frame in self._frames(data[start : start + _READ_BYTES]):
                if (message := self._take(frame)) is not None:
                    yield message

    def _frames(self, read: bytes) -> Iterator[Frame]:
        """Yield control frames, and the pieces of all others."""
        if self._error is not None:
            raise MalformedWebSocket(self._error)
        if self._is_closed:
            return
        self._decoder.receive_bytes(read)
        while not self._is_closed:
            try:
                frame = self._decoder.process_buffer()
            except ParseFailed as error:
                raise self._fail(str(error)) from error
            if frame is None:
                return
            self._is_closed = frame.opcode is Opcode.CLOSE
            yield frame

    def _take(self, frame: Frame) -> Message | None:
        """Take a frame, or a piece of one, and return the message that it ends."""
        payload, kind = cast("bytes", frame.payload), _KINDS.get(frame.opcode)
        if kind is not None and frame.opcode.iscontrol():
            return Message(kind=kind, data=payload, size_bytes=len(payload))
        if kind is not None and self._kind is not None:
            raise self._fail("a message begins before the last one ended")
        self._kind = kind = kind or self._kind
        if kind is None:
            raise self._fail("a message continues that has not begun")
        is_end = frame.frame_finished and frame.message_finished
        if self._inflater is not None and self._marks.is_deflated:
            self._inflate(self._inflater, payload, is_end=is_end)
        else:
            self._keep(payload)
        return self._end(kind) if is_end else None

    def _inflate(self, inflater: Inflater, payload: bytes, *, is_end: bool) -> None:
        try:
            for piece in inflater.inflate(payload, is_end=is_end):
                self._keep(piece)
        except MalformedWebSocket as error:
            raise self._fail(str(error)) from error

    def _keep(self, piece: bytes) -> None:
        """Count a piece of the message under way, and keep what there is room for."""
        self._size_bytes += len(piece)
        if self._may_grow and len(self._data) + len(piece) > self._room_bytes:
            self._grow()
        if (room_bytes := self._room_bytes - len(self._data)) > 0:
            self._data += piece[:room_bytes]

    def _grow(self) -> None:
        """Borrow room for more than one piece."""
        if self.lend is not None and self.lend(FREE_BYTES):
            self._room_bytes += FREE_BYTES
            self._may_grow = self._room_bytes < MAX_MESSAGE_BYTES
        else:
            self._may_grow = False

    def _end(self, kind: MessageKind) -> Message:
        message = Message(kind=kind, data=bytes(self._data), size_bytes=self._size_bytes)
        self._begin()
        return message

    def _fail(self, reason: str) -> MalformedWebSocket:
        self._error = reason
        return MalformedWebSocket(reason)


class _CompressionMarks(Extension):
    """Lets wsproto accept the bit that marks a compressed message, and remembers it.

    wsproto's own inflater has no limit, and loses a message in fragments around a ping (1.3.2).
    """

    name = "permessage-deflate"

    def __init__(self) -> None:
        self.is_deflated = False

    def offer(self) -> bool | str:
        """Offer nothing: others shake hands."""
        return False

    def frame_inbound_header(
        self,
        proto: FrameDecoder | FrameProtocol,  # noqa: ARG002
        opcode: Opcode,
        rsv: RsvBits,
        payload_length: int,  # noqa: ARG002
    ) -> CloseReason | RsvBits:
        """Note the mark of a message's first frame, where alone it may be.

        A head that comes in several reads is seen several times.
        """
        if opcode in (Opcode.TEXT, Opcode.BINARY):
            self.is_deflated = rsv.rsv1
        elif rsv.rsv1:
            return CloseReason.PROTOCOL_ERROR
        return RsvBits(rsv1=True, rsv2=False, rsv3=False)
