"""Messages between the supervisor and its children, and their form on the control channel.

Each message is its length (4 bytes, big-endian) and as many bytes of MessagePack.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec

from proxy.processes.open_calls import AskOpen, OpenCalls
from proxy.processes.store_orders import CompactStore, DeleteSpans, Undone
from telemetry.metrics.snapshot import Snapshot
from telemetry.store.rows import CompactStep, DeleteStep

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""Far more than all metrics with all their series; with a longer message the channel is broken."""


class Start(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """The first message to a child: what it is to do.

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
    """A child says that it is at work. Notes are lines for the operator, with their level."""

    notes: tuple[tuple[int, str], ...] = ()


class Counters(msgspec.Struct, frozen=True, kw_only=True, tag="counters"):
    """A child tells its numbers; telemetry is told everybody else's, for the store and OTLP."""

    snapshot: Snapshot


class Serve(msgspec.Struct, frozen=True, tag="serve"):
    """A worker is told to accept connections."""


class Linger(msgspec.Struct, frozen=True, tag="linger"):
    """A worker is told to go on answering, and to let no connection be used again."""


class Drain(msgspec.Struct, frozen=True, kw_only=True, tag="drain"):
    """A worker is told to accept no more, and to end with what is open, cut after `seconds`."""

    seconds: float


class Cut(msgspec.Struct, frozen=True, tag="cut"):
    """A worker is told to end at once."""


class Finish(msgspec.Struct, frozen=True, kw_only=True, tag="finish"):
    """Telemetry is told that no more frames will come: commit, wait for the backend, end."""

    flush_seconds: float


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """The last message of a child: how many spans or (of a worker) exchanges are lost."""

    lost: int = 0


Message = (
    Start
    | Ready
    | Counters
    | Serve
    | Linger
    | Drain
    | Cut
    | Finish
    | Finished
    | AskOpen
    | OpenCalls
    | DeleteSpans
    | CompactStore
    | DeleteStep
    | CompactStep
    | Undone
)
"""Telemetry is also given orders for the store, and answers them (:mod:`.store_orders`)."""

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
            ValueError: the bytes are not messages.
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
