"""The vectors of embeddings, in both their forms (``docs/contract/spans.md#embeddings``)."""

from __future__ import annotations

import array
import base64
import binascii
import sys
from typing import Any

__all__ = ("decode_vector",)

_FLOAT_BYTES = 4


def decode_vector(embedding: Any) -> tuple[float, ...] | None:
    """Return the numbers of one embedding; ``None`` if it has none.

    Args:
        embedding: a list of numbers, or base64 of 32-bit floats, little-endian
            (``encoding_format``).
    """
    if isinstance(embedding, str):
        return _decode_base64(embedding)
    if not isinstance(embedding, list):
        return None
    try:
        return tuple(map(float, embedding))
    except (TypeError, ValueError, OverflowError):
        return None


def _decode_base64(text: str) -> tuple[float, ...] | None:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(data) % _FLOAT_BYTES:
        return None
    numbers = array.array("f", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)
