"""Messages between the supervisor and its children, and their form on the control channel.

Each message is its length (4 bytes, big-endian) and as many bytes of MessagePack.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec

from proxy.processes.intercept_orders import (
    CloseIntercept,
    InterceptNews,
    OpenIntercept,
    TunnelIntercept,
)
from proxy.processes.open_calls import AskOpen, OpenCalls
from proxy.processes.store_orders import CompactStore, DeleteSpans, Undone
from telemetry.metrics.snapshot import Snapshot
from telemetry.store.rows import CompactStep, DeleteStep

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""The longest message: far more than all metrics with all their series. A longer one means that the
channel is broken."""


class Start(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """The first message to a child: what it has to do.

    Attributes:
        settings: all settings, as JSON; each process reads what it needs.
        number: the worker's number, from 1.
        frames_path: the path of the Unix socket to telemetry.
        cipher_key: encrypts credentials on their way to telemetry
            (:mod:`telemetry.observing.encryption`).
        proxy_url: the URL of the traffic port for clients on this machine.
    """

    settings: bytes
    number: int
    frames_path: str
    cipher_key: bytes
    proxy_url: str = ""


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """From a child: it does its work now. Notes are lines for the operator, with their level."""

    notes: tuple[tuple[int, str], ...] = ()


class Counters(msgspec.Struct, frozen=True, kw_only=True, tag="counters"):
    """From a child: its numbers. To telemetry: those of all other processes, for store and OTLP."""

    snapshot: Snapshot


class Serve(msgspec.Struct, frozen=True, tag="serve"):
    """To a worker: accept connections."""


class Linger(msgspec.Struct, frozen=True, tag="linger"):
    """To a worker: continue to answer, but let no connection be used again."""


class Drain(msgspec.Struct, frozen=True, kw_only=True, tag="drain"):
    """To a worker: accept no more, end once open calls have ended, and cut them after `seconds`."""

    seconds: float


class Cut(msgspec.Struct, frozen=True, tag="cut"):
    """To a worker: end at once."""


class Finish(msgspec.Struct, frozen=True, kw_only=True, tag="finish"):
    """To telemetry: no more frames will come. Commit, wait for the backend, and end."""

    flush_seconds: float


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """The last message of a child: how many spans are lost; from a worker, how many exchanges."""

    lost: int = 0


Message = (
    Start
    | Ready
    | Counters
    | Serve
    | Linger
    | Drain
    | Cut
    | OpenIntercept
    | TunnelIntercept
    | CloseIntercept
    | InterceptNews
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
"""All messages; telemetry also gets orders for the store, and answers (:mod:`.store_orders`)."""

_LENGTH = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode_message(message: Message) -> bytes:
    """Encode a message for the channel."""
    data = _encoder.encode(message)
    return _LENGTH.pack(len(data)) + data


class MessageReader:
    """Decodes what is read from the channel."""

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
