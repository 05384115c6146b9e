"""What the supervisor and its children say to each other, and its form on the control channel.

Each message is its length (4 bytes, big-endian) and as many bytes of MessagePack.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec

from telemetry.metrics.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = (
    "Counters",
    "Cut",
    "Drain",
    "Finish",
    "Finished",
    "Linger",
    "Message",
    "MessageReader",
    "Ready",
    "Serve",
    "Start",
    "encode_message",
)

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""Far more than all metrics with all their series; with a longer message the channel is broken."""


class Start(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """To a child, first: what it is to do.

    Attributes:
        settings: all of them, as JSON, of which each process reads what it needs.
        number: which worker it is, from 1.
        frames_path: the Unix socket to telemetry.
        seal_key: seals credentials on their way there (:mod:`telemetry.observing.sealing`).
    """

    settings: bytes
    number: int
    frames_path: str
    seal_key: bytes


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """From a child: it does its work now. Notes are lines for the operator, with their level."""

    notes: tuple[tuple[int, str], ...] = ()


class Counters(msgspec.Struct, frozen=True, kw_only=True, tag="counters"):
    """From a child: its numbers. To telemetry: everybody else's, for the store and OTLP."""

    snapshot: Snapshot


class Serve(msgspec.Struct, frozen=True, tag="serve"):
    """To a worker: take connections."""


class Linger(msgspec.Struct, frozen=True, tag="linger"):
    """To a worker: go on answering, and let no connection be used again."""


class Drain(msgspec.Struct, frozen=True, kw_only=True, tag="drain"):
    """To a worker: take no more connections, and end with what is open; cut it after `seconds`."""

    seconds: float


class Cut(msgspec.Struct, frozen=True, tag="cut"):
    """To a worker: end at once."""


class Finish(msgspec.Struct, frozen=True, kw_only=True, tag="finish"):
    """To telemetry: no more frames will come; commit, wait for the backend, end."""

    flush_seconds: float


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """From a child, last: how many spans (of telemetry) or exchanges (of a worker) are lost."""

    lost: int = 0


Message = Start | Ready | Counters | Serve | Linger | Drain | Cut | Finish | Finished

_LENGTH = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode_message(message: Message) -> bytes:
    """Encode a message for the channel."""
    data = _encoder.encode(message)
    return _LENGTH.pack(len(data)) + data


class MessageReader:
    """Decoder of what is read from the channel."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that `data` completes.

        Raises:
            ValueError: the bytes are no messages.
        """
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._buffer)
            if size > MAX_MESSAGE_BYTES:
                raise ValueError(f"a message claims to have {size} bytes")
            end = _LENGTH.size + size
            if len(self._buffer) < end:
                return
            message = _decoder.decode(bytes(self._buffer[_LENGTH.size : end]))
            del self._buffer[:end]
            yield message
