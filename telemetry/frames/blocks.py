"""Compresses bytes to blocks, in which they wait in the spool (:mod:`telemetry.frames.spool`).

Providers repeat the same text around each streamed word, so a stream is compressed to a thirtieth.
Compressing and decompressing together take less time than the disk would take for the whole text.

A block is two lengths and one frame of zstd (RFC 8878) with its checksum. It can be read without
other blocks.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Final

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BLOCK_BYTES: Final = 256 * 1024
"""The most bytes that a block may hold when decompressed, whatever it claims, so that a reader
knows how much memory it needs (R5). Larger blocks compress hardly better, and one block is read in
one turn."""

_LEVEL: Final = 1
_LENGTHS: Final = struct.Struct(">II")
HEADER_BYTES: Final = _LENGTHS.size
_MOST_STORED_BYTES: Final = BLOCK_BYTES + 1024
"""The largest stored block: data that cannot be compressed grows a little (RFC 8878, section
3.1.1.2)."""


class MalformedBlockError(Exception):
    """Bytes that are not a block."""


def pack(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join pieces, and compress them to blocks."""
    data = memoryview(b"".join(pieces))
    for start in range(0, len(data), BLOCK_BYTES):
        plain = data[start : start + BLOCK_BYTES]
        stored = _compress(plain)
        yield _LENGTHS.pack(len(stored), len(plain)) + stored


def read_header(header: bytes) -> tuple[int, int]:
    """Read how many bytes follow a block's header, and how many they give when decompressed.

    Raises:
        MalformedBlockError: a length is beyond reason.
    """
    stored_bytes, plain_bytes = _LENGTHS.unpack(header)
    if stored_bytes > _MOST_STORED_BYTES or plain_bytes > BLOCK_BYTES:
        raise MalformedBlockError(f"a block claims to have {stored_bytes} bytes")
    return stored_bytes, plain_bytes


def unpack(stored: bytes, plain_bytes: int) -> bytes:
    """Undo the compression of a block.

    Raises:
        MalformedBlockError: it is damaged, or gives another number of bytes.
    """
    plain = _decompress(stored, plain_bytes)
    if len(plain) != plain_bytes:
        raise MalformedBlockError("a block has another length than it says")
    return plain


if sys.version_info >= (3, 14):
    _OPTIONS = {
        zstd.CompressionParameter.compression_level: _LEVEL,
        zstd.CompressionParameter.checksum_flag: 1,
    }

    def _compress(plain: memoryview) -> bytes:
        return zstd.compress(plain, options=_OPTIONS)

    def _decompress(stored: bytes, plain_bytes: int) -> bytes:
        decompressor = zstd.ZstdDecompressor()
        try:
            plain = decompressor.decompress(stored, max_length=plain_bytes + 1)
        except zstd.ZstdError as error:
            raise MalformedBlockError(f"a block is damaged: {error}") from error
        if not decompressor.eof:  # it waits for more, even if there was nothing at all
            raise MalformedBlockError("a block is cut off, or has another length than it says")
        return plain

else:

    def _compress(plain: memoryview) -> bytes:
        return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(plain)

    def _decompress(stored: bytes, plain_bytes: int) -> bytes:
        try:
            if zstandard.frame_content_size(stored) != plain_bytes:  # it would take what it claims
                raise MalformedBlockError("a block has another length than it says")
            return zstandard.ZstdDecompressor().decompress(stored)
        except zstandard.ZstdError as error:
            raise MalformedBlockError(f"a block is damaged: {error}") from error
