"""The most memory that decoding a JSON text takes, told before any value is made (R5).

``{"a":1},`` is eight bytes on the wire and two hundred once decoded, so the length of a text says
little. Rules:

1. The marks between values are counted: no text becomes more values than it has of these, and one.
   What is inside strings counts for nothing, but in texts so small that a look would not pay.
2. A string takes as many bytes for each character as its widest needs; the widest of the whole text
   is taken for all of it.
3. The estimate is for CPython's objects as they are made, not for what is done with them after.
4. The work is linear in the bytes, and little of them is copied at a time.
"""

from __future__ import annotations

import re

__all__ = ("decoded_bytes",)

_COMMA_BYTES = 72
"""A place in a list and a short string."""

_COLON_BYTES = 112
"""A name, and a short string under it."""

_LIST_BYTES = 152
"""A list with its first places, and a short string in it."""

_OBJECT_BYTES = 136
"""An object with its first places."""

_UNLOOKED_BYTES = 64 * 1024
"""Up to here marks inside strings count as well: to leave them out takes longer than decoding."""

_SLICE_BYTES = 256 * 1024

_NO_MARKS = bytes(set(range(256)) - set(b'",:[{'))
_WIDEST_BYTES = tuple(bytes((first,)) for first in range(0xF0, 0xF5))
"""Beginnings of a character outside the first plane, which takes four bytes of memory."""

_WIDEST_ESCAPE = re.compile(rb"\\u[dD][89abAB]").search


def decoded_bytes(data: bytes) -> int:
    """Return what the values of a JSON text take, at most; of other text, any number.

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
