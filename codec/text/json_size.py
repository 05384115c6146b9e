"""Estimates the most memory that decoding a JSON text takes, before any value is made (R5).

``{"a":1},`` is eight bytes on the wire and two hundred once decoded, so the length of a text says
little. The marks between values are counted: a text has at most one value more than it has marks.
The memory of characters depends on the widest character of the whole text, because a string takes
as many bytes for each character as its widest one needs.

The estimate is for CPython's objects as they are made, not for what is done with them later. The
work is linear in the bytes, and only a slice of them is copied at a time.
"""

from __future__ import annotations

import re

__all__ = ("decoded_bytes",)

_COMMA_BYTES = 72
"""The memory behind a comma: a place in a list and a short string."""

_COLON_BYTES = 112
"""The memory of a member: its name, and a short string as its value."""

_LIST_BYTES = 152
"""A list with its first places, and a short string in it."""

_OBJECT_BYTES = 136
"""An object with its first places."""

_UNLOOKED_BYTES = 64 * 1024
"""Up to this estimate marks inside strings count as well, because to leave them out takes longer
than decoding the text."""

_SLICE_BYTES = 256 * 1024

_NO_MARKS = bytes(set(range(256)) - set(b'",:[{'))
_WIDEST_BYTES = tuple(bytes((first,)) for first in range(0xF0, 0xF5))
"""The first bytes of characters outside the first plane, which take four bytes of memory."""

_WIDEST_ESCAPE = re.compile(rb"\\u[dD][89abAB]").search


def decoded_bytes(data: bytes) -> int:
    """Return the most memory that the values of a JSON text take; for other text, any number.

    >>> decoded_bytes(b"[]")
    154
    """
    size = len(data)
    estimate = size + _weigh(data)
    if estimate > _UNLOOKED_BYTES:
        estimate = size + _weigh_outside_strings(data)
    if data.isascii() and b"\\u" not in data:
        return estimate
    is_widest = any(first in data for first in _WIDEST_BYTES) or _WIDEST_ESCAPE(data) is not None
    return estimate + size * (3 if is_widest else 1)


def _weigh(text: bytes) -> int:
    return (
        _COMMA_BYTES * text.count(b",")
        + _COLON_BYTES * text.count(b":")
        + _LIST_BYTES * text.count(b"[")
        + _OBJECT_BYTES * text.count(b"{")
    )


def _weigh_outside_strings(data: bytes) -> int:
    weight = 0
    in_string = False
    escape = b""  # a backslash whose character is in the next slice
    for start in range(0, len(data), _SLICE_BYTES):
        piece = escape + data[start : start + _SLICE_BYTES]
        whole = piece.rstrip(b"\\")
        escape = b"\\" * ((len(piece) - len(whole)) % 2)
        # Without escaped quotes every quote begins or ends a string.
        quotes = whole.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NO_MARKS)
        parts = quotes.split(b'"')
        weight += _weigh(b"".join(parts[in_string::2]))
        in_string ^= len(parts) % 2 == 0
    return weight
