"""Attributes as OTLP bytes: for any message one by one, for a span all at once.

A span has some sixty attributes, and most of them are the same in every span of a service: kind,
model, provider, roles, reasons, counts. The bytes of an attribute are kept once written, and a
span's attributes are looked up without a step of Python for each.

A span gets exactly the values that :func:`telemetry.attribute_values.clean_attributes` keeps, in
the form of :func:`add_attributes`. No hidden content is kept: only attributes that may be shown are
written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from telemetry.attribute_values import clean_attributes, clean_text, clean_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from telemetry.attribute_values import AttributeValue

MAX_KEPT_ATTRIBUTES: Final = 4_096
"""The most attributes that are kept; when one more comes, all are forgotten. A megabyte at most."""

MAX_WORD_CHARS: Final = 24
"""Longest text that is kept: ids are longer."""

MAX_CACHED_NAMES = 8_192
"""Names of attributes whose bytes are kept: the hundred that every span has, and those of the
messages of a long conversation. Half a megabyte."""

MAX_CACHED_LENGTHS = 4_096
"""Lengths, and counts of tokens, whose bytes are kept; also the beginnings of texts, by the length
of the text. A third of a megabyte each."""

MAX_CACHED_NUMBER: Final = 1 << 16
"""Integers below this are kept: ports, states and counts."""

_ONE_BYTE: Final = tuple(bytes((number,)) for number in range(0x80))
_SHORT: Final = len(_ONE_BYTE)
"""Numbers below this are one byte (protobuf, "base 128 varints")."""

_DOUBLE: Final = Struct("<d").pack

_ATTRIBUTES: Final = b"\x4a"
"""``Span.attributes``."""

_NOTHING: Final = b""


_Entry = tuple[str, Any, type]


class _Written(dict[_Entry, bytes]):
    """The cache: bytes of a span's attribute by its name, its value and the value's type."""

    def __missing__(self, entry: _Entry) -> bytes:
        key, value, kind = entry
        if kind is str and len(value) > MAX_WORD_CHARS:  # perhaps a megabyte: it is copied twice
            try:
                text: bytes = value.encode()
            except UnicodeEncodeError:
                text = clean_text(value).encode()
            size = len(text)
            name, head = _name(key), _text_head(size)
            length = write_length(len(name) + len(head) + size)
            return b"".join((_ATTRIBUTES, length, name, head, text))
        if kind is float:
            name, number = _name(key), b"\x12\x09\x21" + _DOUBLE(value)
            return _ATTRIBUTES + write_length(len(name) + len(number)) + name + number
        safe = clean_value(value)
        field = _NOTHING if safe is None else _write_attribute(key, safe)
        if _is_kept(value, kind):
            if len(self) >= MAX_KEPT_ATTRIBUTES:
                self.clear()
            self[entry] = field
        return field


_look_up: Final = _Written().__getitem__


def _is_kept(value: Any, kind: type) -> bool:
    """Tell whether a value is short, and not equal to another value of its type.

    To Python ``1``, ``1.0`` and ``True`` are equal, and so are ``0.0`` and ``-0.0``. So the type is
    a part of the key, and no float is kept.
    """
    if kind is tuple:  # reasons and tags: usually none or one
        return not value or (len(value) == 1 and _is_word(value[0]))
    if kind is int:
        return bool(0 <= value < MAX_CACHED_NUMBER)
    return kind is str or kind is bool or value is None


def _is_word(value: object) -> bool:
    return type(value) is str and len(value) <= MAX_WORD_CHARS


def _look_up_all(values: dict[str, Any]) -> list[bytes]:
    held = values.values()
    return [*map(_look_up, zip(values, held, map(type, held), strict=True))]


class WrittenAttributes(Mapping[str, "AttributeValue"]):
    """A span's attributes, as they are and as they are written.

    Args:
        values: values from the wire, of any kind, by the names of the attributes.

    Attributes:
        fields: the bytes of each value's field of a ``Span``, empty if it is left out.
        whole: all of them together.
    """

    __slots__ = ("_values", "fields", "whole")

    def __init__(self, values: dict[str, Any]) -> None:
        try:
            self.fields = _look_up_all(values)
        except TypeError:  # a list or an object of JSON, which cannot be looked up
            values, _ = clean_attributes(values.items())
            self.fields = _look_up_all(values)
        self._values = values
        self.whole = b"".join(self.fields)

    def __getitem__(self, key: str) -> AttributeValue:
        """The clean value."""
        value = clean_value(self._values[key])
        if value is None:
            raise KeyError(key)
        return value

    @property
    def given(self) -> Mapping[str, Any]:
        """The values as they were given, not cleaned: some can be read without a step for each."""
        return self._values

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the attributes that are not left out, in order."""
        return compress(self._values, self.fields)

    def __len__(self) -> int:
        """Return how many attributes are not left out."""
        return len(self.fields) - self.fields.count(_NOTHING)

    def over(self, size: int) -> Iterator[object]:
        """The values whose fields have more bytes than `size`, not yet cleaned."""
        return compress(self._values.values(), map(size.__lt__, map(len, self.fields)))


def add_attributes(parts: list[bytes], tag: bytes, attributes: Mapping[str, object] | None) -> None:
    """Append each attribute as a ``KeyValue`` under the tag of the field that holds them.

    Nothing is altered to fit.

    Raises:
        UnicodeEncodeError: a text is not valid Unicode.
        OverflowError: an integer does not fit 64 bits with sign.
        TypeError: an attribute is of a kind that OTLP does not know.
    """
    for key, value in (attributes or {}).items():
        parts.append(write_field(tag, _name(key) + write_field(b"\x12", _value(value))))


def _write_attribute(key: str, value: object) -> bytes:
    return write_field(_ATTRIBUTES, _name(key) + write_field(b"\x12", _value(value)))


@lru_cache(maxsize=MAX_CACHED_LENGTHS)
def _text_head(size: int) -> bytes:
    """Write the bytes between the name of an attribute and its text of `size` bytes."""
    text_size = write_length(size)
    return b"\x12%b\x0a%b" % (write_length(1 + len(text_size) + size), text_size)


@lru_cache(maxsize=MAX_CACHED_NAMES)
def _name(key: str) -> bytes:
    """Write the field ``KeyValue.key``."""
    return write_field(b"\x0a", key.encode()) if key else b""


def _value(value: object) -> bytes:
    """Write the alternative of an ``AnyValue``, even if it is a default; nothing for ``None``."""
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, str):
        return write_field(b"\x0a", value.encode())
    if isinstance(value, int):
        return b"\x18" + (write_length(value) if 0 <= value < MAX_CACHED_NUMBER else _int64(value))
    if isinstance(value, float):
        return b"\x21" + _DOUBLE(value)
    if isinstance(value, bytes):
        return write_field(b"\x3a", value)
    if isinstance(value, (tuple, Sequence)):  # the abstract class takes long to answer
        return write_field(b"\x2a", _array(value))
    if isinstance(value, Mapping):
        pairs: list[bytes] = []
        add_attributes(pairs, b"\x0a", value)
        return write_field(b"\x32", b"".join(pairs))
    if value is None:
        return b""
    raise TypeError(f"no attribute may be a {type(value).__name__}")


def _array(values: Iterable[object]) -> bytes:
    return b"".join([write_field(b"\x0a", _value(value)) for value in values])


def write_field(tag: bytes, payload: bytes) -> bytes:
    """A field of bytes, text or a message: its tag, its length, itself."""
    return b"%b%b%b" % (tag, write_length(len(payload)), payload)


def _int64(number: int) -> bytes:
    if not -(2**63) <= number < 2**63:
        raise OverflowError("more than 64 bits")
    return write_number(number & 2**64 - 1)


def write_number(number: int) -> bytes:
    """A whole number from 0 as a varint: seven bits to the byte, the lowest first."""
    if number < _SHORT:
        return _ONE_BYTE[number]
    digits = bytearray()
    while number >= _SHORT:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


write_length = lru_cache(maxsize=MAX_CACHED_LENGTHS)(write_number)
"""Writes a length or a count; it is cached, because most come again."""
