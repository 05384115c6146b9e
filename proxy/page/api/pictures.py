"""Pictures that are in a span: which they are, and their bytes.

Rules:

1. A picture is base64 in a ``data:`` URL, and one of :data:`_MARKS` by its first bytes: what its
   URL says of its type is a stranger's word.
2. Nothing else is given out, and nothing is fetched.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

_MARKS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)

_MARK_CHARACTERS: Final = 16
"""Characters of base64 that are read for the type: twelve bytes, in which any of it is told."""


def describe_picture(url: str) -> JsonObject | None:
    """Tell type and size of a picture in a ``data:`` URL; ``None`` where it is none."""
    found = _find_base64(url)
    if found is None:
        return None
    kind = _find_type(_decode(found[:_MARK_CHARACTERS]))
    if kind is None:
        return None
    return {"type": kind, "bytes": len(found.rstrip("=")) * 3 // 4}


def read_picture(url: str) -> tuple[str, bytes] | None:
    """Read type and bytes of a picture; ``None`` where it is none."""
    found = _find_base64(url)
    data = None if found is None else _decode(found)
    kind = None if data is None else _find_type(data)
    return None if data is None or kind is None else (kind, data)


def _find_base64(url: str) -> str | None:
    if not url.startswith("data:"):
        return None
    head, comma, text = url.partition(",")
    return text.strip() if comma and head.endswith(";base64") else None


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""


def _find_type(data: bytes) -> str | None:
    for mark, kind in _MARKS:
        if data.startswith(mark):
            return kind
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None
