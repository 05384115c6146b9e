"""Frames as records of a byte stream, sans-IO: how a worker's frames reach another process.

A record begins with two lengths (big-endian, 4 bytes each). The first is that of the MessagePack
that follows, which holds frames; the second that of the payload after it: the body of the last
frame, unchanged, if it is large. A worker sends :class:`Hello` first, then its frames. Telemetry
answers with :class:`Acks`.

The frames are the same, however they are cut into records, and the stream into reads.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from telemetry.errors import TelemetryError
from telemetry.frames.frame import BODIES, Frame, SocketState, decode_frames, encode_frames

if TYPE_CHECKING:
    from collections.abc import Iterator

INLINE_BYTES = 32 * 1024
"""A body up to this size is copied into its frame's MessagePack: cheaper than its own buffer."""

MAX_RECORD_BYTES = 1 << 30
"""The longest record that a reader gathers (R5): far more than any captured body. A longer one
means that the stream is broken."""

Record: TypeAlias = "tuple[bytes | memoryview, bytes]"
"""The MessagePack of a record, and its payload."""

_LENGTHS = struct.Struct(">II")


class MalformedRecordError(TelemetryError):
    """The bytes are not a record: the two sides have different versions, or a stream is broken."""


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello", array_like=True):
    """The greeting of the worker that sends the frames of a connection.

    Attributes:
        worker: its number.
        version: of spantap.
        token: hexadecimal digits that no other process has; its files are named after them.
    """

    worker: int
    pid: int
    version: str
    token: str


_encoder = msgspec.msgpack.Encoder()
_hello_decoder = msgspec.msgpack.Decoder(Hello)


def encode_hello(hello: Hello) -> bytes:
    """Encode the record that begins a connection."""
    data = _encoder.encode(hello)
    return _LENGTHS.pack(len(data), 0) + data


def decode_hello(record: Record) -> Hello:
    """Decode the first record of a connection.

    Raises:
        MalformedRecordError: it is not a hello.
    """
    try:
        return _hello_decoder.decode(record[0])
    except msgspec.MsgspecError as error:
        raise MalformedRecordError("the first record is not a hello") from error


def encode_records(frames: list[Frame], largest_bytes: int) -> list[bytes]:
    """Encode frames as records, in pieces: each large body is a separate piece.

    A large body is not copied to be sent, so that a 20 MB image does not stall the worker's other
    streams. No body of the frames is larger than `largest_bytes`.
    """
    if frames and largest_bytes <= INLINE_BYTES:  # usual
        return [_encode_record(frames, 0)]
    pieces: list[bytes] = []
    together: list[Frame] = []
    for frame in frames:
        if isinstance(frame, BODIES) and (body := frame.data) and len(body) > INLINE_BYTES:
            together.append(msgspec.structs.replace(frame, data=b""))
            pieces += (_encode_record(together, len(body)), body)
            together = []
        else:
            together.append(frame)
    if together:
        pieces.append(_encode_record(together, 0))
    return pieces


def _encode_record(frames: list[Frame], payload_bytes: int) -> bytes:
    data = encode_frames(frames)
    return _LENGTHS.pack(len(data), payload_bytes) + data


def decode_record(record: Record) -> list[Frame]:
    """Decode the frames of a record.

    Raises:
        MalformedRecordError: it holds no frames.
    """
    data, payload = record
    try:
        frames = decode_frames(data)
    except msgspec.MsgspecError as error:
        raise MalformedRecordError("a record holds no frames") from error
    if payload and frames and isinstance(last := frames[-1], BODIES):
        frames[-1] = msgspec.structs.replace(last, data=payload)
    return frames


class RecordReader:
    """Turns reads into records: the MessagePack and the payload of each.

    The MessagePack is usually a view of the read, and only its decoder copies it.
    """

    def __init__(self) -> None:
        self._begun = bytearray()  # a record whose MessagePack is not whole
        self._wanted_bytes = 0  # how much of that record must be there before the next look
        self._head = b""  # the MessagePack of a record whose payload is not whole
        self._parts: list[bytes] = []  # of that payload, joined at its end
        self._missing_bytes = 0

    @property
    def is_between_records(self) -> bool:
        """Whether all records so far are whole."""
        return not (self._begun or self._missing_bytes)

    def feed(self, data: bytes) -> Iterator[Record]:
        """Yield the records that `data` completes.

        Raises:
            MalformedRecordError: a record claims to be longer than :data:`MAX_RECORD_BYTES`.
        """
        if self._missing_bytes:
            part = data[: self._missing_bytes]
            self._parts.append(part)
            self._missing_bytes -= len(part)
            if self._missing_bytes:
                return
            data = data[len(part) :]
            payload = b"".join(self._parts)
            self._parts.clear()
            yield self._head, payload
        if self._begun:
            self._begun += data
            if len(self._begun) < self._wanted_bytes:
                return
            data = bytes(self._begun)
            self._begun = bytearray()
        yield from self._feed(data)

    def _feed(self, data: bytes) -> Iterator[Record]:
        """Yield the whole records of bytes that begin with one; keep the rest."""
        view = memoryview(data)
        size = len(data)
        at = 0
        self._wanted_bytes = _LENGTHS.size
        try:
            while size - at >= _LENGTHS.size:
                first, second = _LENGTHS.unpack_from(data, at)
                if first + second > MAX_RECORD_BYTES:
                    raise MalformedRecordError(f"a record claims to have {first + second} bytes")
                begin = at + _LENGTHS.size
                middle = begin + first
                if size < middle:
                    self._wanted_bytes = middle - at
                    return
                at = middle + second
                payload = data[middle:at]
                if at > size:
                    self._head = bytes(view[begin:middle])
                    self._parts.append(payload)
                    self._missing_bytes = at - size
                    return
                yield view[begin:middle], payload
        finally:
            if at < size:
                self._begun += data[at:]


class Acks(msgspec.Struct, frozen=True, array_like=True):
    """Acknowledgements: what the sender need not keep any more.

    Attributes:
        settled: the numbers of exchanges that are settled.
        states: of WebSockets, each instead of the frames before it.
    """

    settled: list[int] = []
    states: list[SocketState] = []

    def __bool__(self) -> bool:
        return bool(self.settled or self.states)


_acks_decoder = msgspec.msgpack.Decoder(Acks)


def encode_acks(acks: Acks) -> bytes:
    """Encode acknowledgements as a record."""
    data = _encoder.encode(acks)
    return _LENGTHS.pack(len(data), 0) + data


class AckReader:
    """Turns reads into acknowledgements."""

    def __init__(self) -> None:
        self._records = RecordReader()

    def feed(self, data: bytes) -> Iterator[Acks]:
        """Yield the acknowledgements that `data` completes.

        Raises:
            MalformedRecordError: it holds none.
        """
        for record, _ in self._records.feed(data):
            try:
                yield _acks_decoder.decode(record)
            except msgspec.MsgspecError as error:
                raise MalformedRecordError("a record holds no acknowledgements") from error
