"""The checksum of a stored span: SQLite has none, and a bit that a disk turned must not be sent.

It is made of the bytes before they are written, and compared whenever they were read.
"""

from __future__ import annotations

from zlib import crc32

__all__ = ("DAMAGED_WORDS", "checksum", "is_whole")

DAMAGED_WORDS = "the stored span is damaged"
"""What a span says that is not what was recorded."""


def checksum(span: bytes) -> int:
    """Four bytes for the bytes of a span; no turned bit leaves them as they are."""
    return crc32(span)


def is_whole(span: object, recorded: object) -> bool:
    """Whether `span`, as it was read, is what has the checksum `recorded`.

    ``None`` fits all bytes: spans of an older schema have no checksum.
    """
    return isinstance(span, bytes) and (recorded is None or crc32(span) == recorded)
