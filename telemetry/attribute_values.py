"""Values of span attributes: the one place where foreign values become safe ones.

Builders yield whatever came over the wire. :func:`clean_attributes` turns it into a mapping that
any OTLP encoder accepts. Strings, booleans, integers, floats and tuples of strings or of floats
stay; everything else is left out. ``None`` means absent, and so does an empty tuple. Nothing here
raises, whatever came in.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING

import msgspec

from codec.text.json_size import decoded_bytes
from codec.text.jsontext import encode_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

AttributeValue = str | bool | int | float | tuple[str, ...] | tuple[float, ...]

if TYPE_CHECKING:
    AttributePairs = Iterator[tuple[str, object]]
    """Pairs that builders yield: attribute names, with values that are not safe yet."""

_encode_json = msgspec.json.Encoder().encode
_format_json = msgspec.json.format

_encode_packed = msgspec.msgpack.Encoder().encode

_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""The beginning of an infinite number or NaN in MessagePack: ``float 64`` with an exponent of ones
only. No text has these bytes, because they are not UTF-8."""

_NOT_ACCEPTED = (
    msgspec.MsgspecError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
)
"""The errors that writers raise for values that they cannot write."""

NUMBER_CHARS = 2
"""How many characters a number counts as, and each member of a list in addition to its own: eight
bytes, at four bytes for a character."""

MAX_READ_BYTES = 64 * 1024 * 1024
"""The most that the values in a string may take, while a span is made: as much as the longest
string."""

_UNWEIGHED_CHARS = 512 * 1024
"""Texts that take some 20 MiB at most."""

_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1


def clean_attributes(
    pairs: Iterable[tuple[str, object]],
) -> tuple[dict[str, AttributeValue], int]:
    """Keep what an attribute can hold, in order, as safe values.

    Returns:
        The attributes, and what :func:`count_chars` returns for them, or a little more.
    """
    cleaned: dict[str, AttributeValue] = {}
    chars = 0
    for key, value in pairs:
        if value is None:
            continue
        # Most values are of these two kinds and need no work.
        if type(value) is str and value.isascii():
            cleaned[key] = value
            chars += len(value)
        elif type(value) is int and _INT64_MIN <= value <= _INT64_MAX:
            cleaned[key] = value
        elif (safe := clean_value(value)) is not None:
            cleaned[key] = safe
            chars += _count(safe)
    return cleaned, chars + NUMBER_CHARS * len(cleaned)


def count_chars(values: Iterable[AttributeValue]) -> int:
    """Count the characters of all texts together, so that no single text has more.

    Other values count as enough characters for four bytes each to cover them.
    """
    chars = 0
    for value in values:
        chars += len(value) if type(value) is str else _count(value)
    return chars


def _count(value: AttributeValue) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, tuple):
        return sum([NUMBER_CHARS + _count(member) for member in value])
    return NUMBER_CHARS


def clean_value(value: object) -> AttributeValue | None:
    """Return what an attribute can hold of a value; ``None`` for nothing.

    OTLP's integers have 64 bits with sign. A larger one is left out, not cut.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int):  # a bool is an int and fits
        return value if _INT64_MIN <= value <= _INT64_MAX else None
    if isinstance(value, tuple):
        if all(isinstance(number, float) for number in value):
            return value or None
        return tuple(clean_text(text) for text in value if isinstance(text, str)) or None
    return value if isinstance(value, float) else None


def clean_text(text: str) -> str:
    """Return a text as valid Unicode, because protobuf refuses the whole attribute otherwise.

    Two halves of a surrogate pair that stand side by side become their character: a stream may cut
    an escaped pair in two. Single halves become U+FFFD. Everything else stays, NUL included.
    """
    if text.isascii():
        return str(text)  # a plain str where an enum member came in
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return str(text)


def is_readable(text: str) -> bool:
    """Tell whether the values of a JSON text that was in a string are small enough to be read.

    Their memory has not been counted yet, because the string was one value of its body.
    """
    if len(text) <= _UNWEIGHED_CHARS:
        return True
    return decoded_bytes(text.encode("utf-8", "replace")) <= MAX_READ_BYTES


def json_text(value: object) -> str | None:
    """Return a value as JSON text; ``None`` if it cannot be written.

    A value that was parsed can still be too deep to write, because the writer starts further down
    the stack, or have an integer of more digits than Python writes.
    """
    text = _fast_json_text(value)
    # The fast writer has `null` for a number that is not finite, as the strict text below wants it.
    if text is not None and ("null" not in text or _is_finite(value)):
        return text
    try:
        return encode_json(value)
    except (RecursionError, TypeError, ValueError):
        return None


def strict_json_text(value: object) -> str | None:
    """Return a value as JSON that any reader accepts (RFC 8259, section 6), such as a browser's.

    Python writes and reads ``NaN`` and ``Infinity``; here they are ``null``.
    """
    if (text := _fast_json_text(value)) is not None:
        return text
    text = json_text(value)
    if text is None or not ("NaN" in text or "Infinity" in text):
        return text
    try:
        return json_text(_finite(value))
    except RecursionError:
        return None


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _fast_json_text(value: object) -> str | None:
    """Return the text that the standard library would write, in a quarter of its time.

    A number with an exponent may have another form (``1e22``, not ``1e+22``).

    Returns:
        ``None`` for what this writer does not accept: halves of surrogate pairs, integers of more
        than 64 bits, and whatever the standard library does not accept either.
    """
    try:
        return _format_json(_encode_json(value), indent=0).decode()
    except _NOT_ACCEPTED:
        return None


def _is_finite(value: object) -> bool:
    """Tell whether a value has no number that is infinite or NaN; false if in doubt.

    MessagePack keeps such numbers as they are. The digits of another number may look like one, and
    integers of more than 64 bits are not written. Then the slow writer does the work.
    """
    try:
        return _NOT_FINITE.search(_encode_packed(value)) is None
    except _NOT_ACCEPTED:
        return False
