"""The checksum of a stored span: SQLite has none, and a damaged span must not be sent.

It is computed from the bytes before they are written, and compared whenever they are read.
"""

from __future__ import annotations

from zlib import crc32

DAMAGED_WORDS = "the stored span is damaged"
"""The last error of a span whose bytes are not those that were recorded."""


def checksum(span: bytes) -> int:
    """Compute the checksum of a span's bytes."""
    return crc32(span)


def is_whole(span: object, recorded: object) -> bool:
    """Tell whether `span` has the checksum `recorded`; spans of an older schema have none."""
    return isinstance(span, bytes) and (recorded is None or crc32(span) == recorded)
