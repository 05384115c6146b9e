"""Measures the memory that texts take, so that what is held can be bounded (R5)."""

from __future__ import annotations

from typing import Final

_TEXT_BYTES: Final = 64

_WIDE_BYTES: Final = 8
"""Memory of a character outside ASCII: four bytes at most, and four more for its UTF-8."""


def measure_text(text: str) -> int:
    """Measure a text, or a little more.

    >>> measure_text("call_0")
    70
    """
    return _TEXT_BYTES + len(text) * (1 if text.isascii() else _WIDE_BYTES)
