"""Frames as records of a byte stream, sans-IO: how a worker's frames reach another process.

A record is two lengths (big-endian, 4 bytes each), so many bytes of MessagePack, and so many bytes
of payload: a body that is large, as it is. A worker says :class:`Hello`, then come its frames; in
the other direction go the numbers of exchanges that are settled, 8 bytes each.

Rules:

1. However the stream is cut into reads, the records are the same.
2. A large body is not copied to be sent: its own bytes are the payload. What a worker does for a
   20 MB image must not stall its other streams.
3. What is no record raises :class:`MalformedRecordError`, and nothing longer than
   :data:`MAX_RECORD_BYTES` is gathered (R5).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec

from telemetry.errors import TelemetryError
from telemetry.frames import Frame, RequestBody, ResponseData, decode_frame, encode_frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = (
    "AckReader",
    "Hello",
    "MalformedRecordError",
    "Record",
    "RecordReader",
    "decode_hello",
    "decode_record",
    "encode_acks",
    "encode_hello",
    "encode_record",
    "split_record",
)

INLINE_BYTES = 32 * 1024
"""A body up to here is copied into its frame's MessagePack: cheaper than a buffer of its own."""

MAX_RECORD_BYTES = 1 << 30
"""Far more than any body that is captured; past it the stream is taken for broken."""

_LENGTHS = struct.Struct(">II")
_NUMBER = struct.Struct(">Q")


Record = tuple[bytes, ...]
"""A record in pieces: one, or two where its payload is apart."""


class MalformedRecordError(TelemetryError):
    """The bytes are no record: the two sides differ in version, or a stream was mixed up."""


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello", array_like=True):
    """Who sends the frames of a connection.

    Attributes:
        worker: its number.
        pid: its process id.
        version: of spantap.
    """

    worker: int
    pid: int
    version: str


_hello_encoder = msgspec.msgpack.Encoder()
_hello_decoder = msgspec.msgpack.Decoder(Hello)


def encode_hello(hello: Hello) -> bytes:
    """The record that begins a connection."""
    data = _hello_encoder.encode(hello)
    return _LENGTHS.pack(len(data), 0) + data


def decode_hello(record: tuple[bytes, bytes]) -> Hello:
    """The first record of a connection.

    Raises:
        MalformedRecordError: it is another one.
    """
    try:
        return _hello_decoder.decode(record[0])
    except msgspec.MsgspecError as error:
        raise MalformedRecordError("the first record is no hello") from error


def encode_record(frame: Frame) -> Record:
    """A frame's record, in one piece or two (rule 2)."""
    if isinstance(frame, ResponseData | RequestBody):
        payload = frame.data
        if payload is not None and len(payload) > INLINE_BYTES:
            data = encode_frame(msgspec.structs.replace(frame, data=b""))
            return _LENGTHS.pack(len(data), len(payload)) + data, payload
    data = encode_frame(frame)
    return (_LENGTHS.pack(len(data), 0) + data,)


def split_record(record: Record) -> tuple[bytes, bytes]:
    """A record as a reader gives it: its MessagePack, and its payload."""
    return record[0][_LENGTHS.size :], record[1] if len(record) > 1 else b""


def decode_record(record: tuple[bytes, bytes]) -> Frame:
    """The frame of a record.

    Raises:
        MalformedRecordError: it holds none.
    """
    data, payload = record
    try:
        frame = decode_frame(data)
    except msgspec.MsgspecError as error:
        raise MalformedRecordError("a record holds no frame") from error
    if payload and isinstance(frame, ResponseData | RequestBody):
        return msgspec.structs.replace(frame, data=payload)
    return frame


class RecordReader:
    """Takes reads, gives records: the MessagePack and the payload of each."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The records that are whole with `data`.

        Raises:
            MalformedRecordError: a length is beyond reason (rule 3).
        """
        buffer = self._buffer
        buffer += data
        at = 0
        try:
            while len(buffer) - at >= _LENGTHS.size:
                first, second = _LENGTHS.unpack_from(buffer, at)
                if first + second > MAX_RECORD_BYTES:
                    raise MalformedRecordError(f"a record claims to have {first + second} bytes")
                middle = at + _LENGTHS.size + first
                if len(buffer) < middle + second:
                    return
                record = (
                    bytes(buffer[at + _LENGTHS.size : middle]),
                    bytes(buffer[middle : middle + second]),
                )
                at = middle + second
                yield record
        finally:
            del buffer[:at]


def encode_acks(numbers: Sequence[int]) -> bytes:
    """The numbers of exchanges that are settled."""
    return b"".join(map(_NUMBER.pack, numbers))


class AckReader:
    """Takes reads, gives numbers."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[int]:
        """The numbers that are whole with `data`."""
        data = self._rest + data
        whole = len(data) - len(data) % _NUMBER.size
        self._rest = data[whole:]
        return [number for (number,) in _NUMBER.iter_unpack(data[:whole])]
