"""zstd to send: the standard library's, before Python 3.14 that of ``zstandard``."""

from __future__ import annotations

import sys

__all__ = ("compress_zstd", "flush_zstd")

if sys.version_info >= (3, 14):
    from compression import zstd

    def compress_zstd(data: bytes) -> bytes:
        """One frame."""
        return zstd.compress(data)

    def flush_zstd(*parts: bytes) -> list[bytes]:
        """The beginning of a frame, part by part, each with all that is in it."""
        encoder = zstd.ZstdCompressor()
        return [encoder.compress(part, encoder.FLUSH_BLOCK) for part in parts]

else:
    import zstandard

    def compress_zstd(data: bytes) -> bytes:
        """One frame."""
        return zstandard.ZstdCompressor().compress(data)

    def flush_zstd(*parts: bytes) -> list[bytes]:
        """The beginning of a frame, part by part, each with all that is in it."""
        encoder = zstandard.ZstdCompressor().compressobj()
        flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK
        return [encoder.compress(part) + encoder.flush(flush) for part in parts]
