"""The true bytes of an answer, with the time of each read, as the store keeps them.

They are what the upstream sent, after HTTP's own framing was removed: the events or lines of a
stream, with the content coding in which they came.
"""

from __future__ import annotations

import zlib
from typing import Final

import msgspec

MAX_RAW_BYTES: Final = 1024 * 1024
"""The most bytes that are kept of an answer: some five thousand events of a stream."""

MAX_RAW_READS: Final = 64 * 1024
"""The most reads of an answer whose times are kept. Behind the last of them it is cut."""

_MAX_PACKED_BYTES: Final = MAX_RAW_BYTES + 16 * MAX_RAW_READS + 64 * 1024
"""The most that a stored answer may become when it is unpacked: bytes, reads, names of types."""

_LEVEL: Final = 1
"""The level of zlib. The lowest shrinks a stream of events to a tenth; none shrinks a body that is
compressed already."""


class RawAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """The first bytes of an answer as they came.

    Attributes:
        content_type: as the upstream said; empty if it did not.
        content_encoding: the same.
        first_ns: when the first read came, in nanoseconds since the epoch.
        waits_ns: for each read the time since the one before it, which is 0 for the first.
        sizes_bytes: for each read how many bytes it had.
        left_bytes: how many more bytes came that are not kept.
        body: the bytes of all reads.
    """

    content_type: str
    content_encoding: str
    first_ns: int
    waits_ns: tuple[int, ...]
    sizes_bytes: tuple[int, ...]
    left_bytes: int
    body: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(RawAnswer)


def pack_raw_answer(answer: RawAnswer) -> bytes:
    """Encode and compress an answer for the store."""
    return zlib.compress(_encoder.encode(answer), _LEVEL)


def unpack_raw_answer(packed: bytes) -> RawAnswer | None:
    """Decode what :func:`pack_raw_answer` made; ``None`` if it is damaged."""
    unpacking = zlib.decompressobj()
    try:
        written = unpacking.decompress(packed, _MAX_PACKED_BYTES)
        if not unpacking.eof:
            return None
        answer = _decoder.decode(written)
    except (zlib.error, msgspec.MsgspecError):
        return None
    is_whole = len(answer.waits_ns) == len(answer.sizes_bytes) and (
        sum(answer.sizes_bytes) == len(answer.body) and min(answer.sizes_bytes, default=0) >= 0
    )
    return answer if is_whole else None
