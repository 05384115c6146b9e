"""Pictures that are written as base64: their bytes, and their types by the first bytes.

Somebody else wrote the type beside a picture, and it may be wrong. So only the bytes count, and
only the types that every browser draws and that run nothing: PNG, JPEG, GIF and WebP, no SVG.
"""

from __future__ import annotations

import binascii
from typing import Final

from codec.text.base64_text import use_plain_alphabet

__all__ = ("MAX_PICTURE_BYTES", "decode_base64", "find_base64", "find_picture_type")

MAX_PICTURE_BYTES: Final = 8 * 1024 * 1024
"""The largest picture that is kept: larger than the largest that providers take or make."""

_MARKS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)

_MAX_HEAD_CHARS: Final = 1_024
"""Longest head of a ``data:`` URL; usual ones have 30 characters."""


def find_picture_type(data: bytes) -> str | None:
    r"""The MIME type of a picture by its first bytes; ``None`` if it is not a picture.

    >>> find_picture_type(b"GIF89a\x01\x00")
    'image/gif'
    """
    for mark, kind in _MARKS:
        if data.startswith(mark):
            return kind
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def find_base64(url: str) -> str | None:
    """The base64 in a ``data:`` URL (RFC 2397); ``None`` if there is none.

    >>> find_base64("data:image/gif;base64,R0lGODlh")
    'R0lGODlh'
    """
    if url[:5].lower() != "data:":
        return None
    comma = url.find(",", 0, _MAX_HEAD_CHARS)
    if comma < 0 or not url[:comma].lower().endswith(";base64"):
        return None
    return url[comma + 1 :]


def decode_base64(text: str) -> bytes:
    """Decode base64 in either alphabet, with or without its padding; empty if it is not base64.

    >>> decode_base64("R0lGODlh")
    b'GIF89a'
    """
    try:
        return binascii.a2b_base64(use_plain_alphabet(text) + "==")  # too much padding is ignored
    except (binascii.Error, ValueError):
        return b""
