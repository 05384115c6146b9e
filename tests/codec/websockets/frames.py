"""Frames of WebSockets written by hand, and how the ``websockets`` library reads them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame
from websockets.protocol import OPEN, Protocol, Side

from codec.websockets.deflate import Deflate
from codec.websockets.parser import MessageKind, MessageParser

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codec.websockets.parser import Message

__all__ = (
    "Direction",
    "Part",
    "deflate",
    "directions",
    "list_messages",
    "parse",
    "part_lists",
    "read_by_websockets",
    "split",
    "write_frame",
)

_CODES = {
    MessageKind.TEXT: 1,
    MessageKind.BINARY: 2,
    MessageKind.CLOSE: 8,
    MessageKind.PING: 9,
    MessageKind.PONG: 10,
}
_KINDS = {code: kind for kind, code in _CODES.items()}


def write_frame(
    code: int,
    payload: bytes = b"",
    *,
    is_last: bool = True,
    is_deflated: bool = False,
    key: bytes | None = None,
) -> bytes:
    """Write one frame (RFC 6455, 5.2), masked if there is a key."""
    first = code | (0x80 if is_last else 0) | (0x40 if is_deflated else 0)
    mark = 0 if key is None else 0x80
    size = len(payload)
    if size < 126:
        head = bytes([first, mark | size])
    elif size < 1 << 16:
        head = bytes([first, mark | 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([first, mark | 127]) + size.to_bytes(8, "big")
    if key is None:
        return head + payload
    mask = (key * (size // 4 + 1))[:size]
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(mask, "big")
    return head + key + masked.to_bytes(size, "big")


@dataclass(frozen=True)
class Part:
    """A message to be written.

    Attributes:
        cuts: where it is cut into fragments, one more than there are cuts.
        between: control frames behind its first fragment, if there are several.
        is_deflated: whether it is compressed, if the handshake allows that.
    """

    kind: MessageKind
    data: bytes
    cuts: tuple[int, ...] = ()
    between: tuple[Part, ...] = ()
    is_deflated: bool = True


@dataclass
class Direction:
    """Writes one direction of a connection.

    Attributes:
        is_flushed: fragments are compressed one by one, instead of the message as a whole.
    """

    from_client: bool = False
    deflate: Deflate | None = None
    level: int = 6
    bits: int = 15
    is_flushed: bool = False
    _compressor: zlib._Compress | None = field(default=None, init=False)

    @property
    def _keeps_context(self) -> bool:
        both = self.deflate or Deflate()
        return both.client_keeps_context if self.from_client else both.server_keeps_context

    def write(self, part: Part) -> bytes:
        """Write a message, and the control frames within it."""
        key = bytes([len(part.data) % 251, 7, 0, 255]) if self.from_client else None
        code = _CODES[part.kind]
        if code >= 8:
            return write_frame(code, part.data, key=key)
        is_deflated = part.is_deflated and self.deflate is not None
        fragments = self._compress(part) if is_deflated else split(part.data, part.cuts)
        first, *others = fragments
        frames = [
            write_frame(code, first, is_last=not others, is_deflated=is_deflated, key=key),
            *(self.write(control) for control in part.between if others),
            *(
                write_frame(0, fragment, is_last=at == len(others), key=key)
                for at, fragment in enumerate(others, start=1)
            ),
        ]
        return b"".join(frames)

    def _compress(self, part: Part) -> list[bytes]:
        if self._compressor is None or not self._keeps_context:
            self._compressor = zlib.compressobj(self.level, zlib.DEFLATED, -self.bits)
        pieces = split(part.data, part.cuts) if self.is_flushed else [part.data]
        flush = zlib.Z_SYNC_FLUSH
        packed = [self._compressor.compress(it) + self._compressor.flush(flush) for it in pieces]
        packed[-1] = packed[-1][:-4]
        return packed if self.is_flushed else split(packed[0], part.cuts)


def list_messages(parts: Iterable[Part]) -> list[tuple[MessageKind, bytes]]:
    """List the messages in the order in which they end."""
    found: list[tuple[MessageKind, bytes]] = []
    for part in parts:
        found += list_messages(part.between if part.cuts else ())
        found.append((part.kind, part.data))
    return found


def parse(parser: MessageParser, reads: Iterable[bytes]) -> list[Message]:
    """Parse reads, one after the other."""
    return [message for read in reads for message in parser.feed(read)]


def read_by_websockets(direction: Direction, data: bytes) -> list[tuple[MessageKind, bytes]]:
    """Read one direction as an end of the connection does that uses ``websockets``."""
    side = Side.SERVER if direction.from_client else Side.CLIENT
    protocol = Protocol(side, state=OPEN, max_size=None)
    if direction.deflate is not None:
        keeps = direction._keeps_context
        protocol.extensions = [PerMessageDeflate(not keeps, True, 15, 15)]
    protocol.receive_data(data)
    assert protocol.parser_exc is None
    found: list[tuple[MessageKind, bytes]] = []
    kind, pieces = MessageKind.TEXT, b""
    for event in protocol.events_received():
        assert isinstance(event, Frame)
        if event.opcode >= 8:
            found.append((_KINDS[event.opcode], bytes(event.data)))
            continue
        kind = _KINDS.get(event.opcode, kind)
        pieces += event.data
        if event.fin:
            found.append((kind, pieces))
            pieces = b""
    return found


def split(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Cut data at these places."""
    places = sorted(at % (len(data) + 1) for at in cuts)
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


deflate = st.builds(Deflate, client_keeps_context=st.booleans(), server_keeps_context=st.booleans())
directions = st.builds(
    Direction,
    from_client=st.booleans(),
    deflate=st.none() | deflate,
    level=st.integers(0, 9),
    bits=st.integers(9, 15),
    is_flushed=st.booleans(),
)
_texts = st.builds(
    lambda unit, count, end: unit * count + end,
    st.binary(min_size=1, max_size=40),
    st.sampled_from([0, 1, 2, 3, 50, 2_000]),
    st.binary(max_size=10),
)
_controls = st.builds(
    Part, st.sampled_from([MessageKind.PING, MessageKind.PONG]), st.binary(max_size=125)
)
_parts = st.builds(
    Part,
    st.sampled_from([MessageKind.TEXT, MessageKind.BINARY]),
    _texts,
    st.lists(st.integers(0, 100_000), max_size=4).map(tuple),
    st.lists(_controls, max_size=2).map(tuple),
    st.sampled_from([True, True, False]),
)
part_lists = st.lists(_parts | _controls, max_size=8)
