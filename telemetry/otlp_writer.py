"""A finished span as OTLP bytes, without the messages in between.

The SDK's exporter makes a protobuf object of every attribute, which takes longer than all else that
is done for a span. The bytes of these few messages are simple enough to be written as they are.

Rules:

1. The bytes are those of ``opentelemetry-exporter-otlp`` (``encode_spans``, serialised), for every
   span and every kind of attribute that it takes.
2. Fields stand in the order of their numbers, and one that has its default is left out (protobuf,
   "encoding"). Numbers of fields are those of ``opentelemetry/proto/trace/v1/trace.proto``.
3. Text that is no Unicode and integers of more than 64 bits are refused, never altered:
   :mod:`telemetry.attribute_values` lets neither through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import SpanKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import Link, SpanContext, Status

__all__ = ("write_field", "write_span")

MAX_CACHED_NAMES = 8_192
"""Names of attributes whose bytes are kept: the hundred that every span has, and those of the
messages of a long conversation. Half a megabyte."""

_ONE_BYTE: Final = tuple(bytes((number,)) for number in range(0x80))
_SHORT: Final = len(_ONE_BYTE)
"""Numbers below this are one byte (protobuf, "base 128 varints")."""

_FRAME_BYTES: Final = 4
"""Around a short text of an attribute: tag and length of the value, tag and length of the text in
it; of a small number all that it takes."""

_SHORT_TEXT_FRAMES: Final = tuple(bytes((0x12, size + 2, 0x0A, size)) for size in range(_SHORT - 2))
"""``KeyValue.value`` and ``AnyValue.string_value`` before a text of so many bytes."""

_SMALL_NUMBERS: Final = tuple(bytes((0x12, 2, 0x18, number)) for number in range(_SHORT))
"""``KeyValue.value`` and ``AnyValue.int_value`` with that number."""

_FIXED_64: Final = Struct("<Q").pack
_FIXED_32: Final = Struct("<I").pack
_DOUBLE: Final = Struct("<d").pack

_KINDS: Final = {
    SpanKind.INTERNAL: b"\x01",
    SpanKind.SERVER: b"\x02",
    SpanKind.CLIENT: b"\x03",
    SpanKind.PRODUCER: b"\x04",
    SpanKind.CONSUMER: b"\x05",
}
_KNOWS_IF_REMOTE: Final = 0x100
_IS_REMOTE: Final = 0x200
"""``SpanFlags``."""


def write_span(span: ReadableSpan) -> bytes:
    """The span as a serialised ``Span``.

    Raises:
        UnicodeEncodeError: a text is not valid Unicode.
        OverflowError: an integer does not fit 64 bits with sign.
        TypeError: an attribute is of a kind that OTLP does not know.
    """
    own = span.context
    parts = [
        b"\x0a\x10" + own.trace_id.to_bytes(16, "big"),
        b"\x12\x08" + own.span_id.to_bytes(8, "big"),
    ]
    if own.trace_state:
        state = ",".join(f"{key}={value}" for key, value in own.trace_state.items())
        parts.append(write_field(b"\x1a", state.encode()))
    if span.parent is not None:
        parts.append(b"\x22\x08" + span.parent.span_id.to_bytes(8, "big"))
    if span.name:
        parts.append(write_field(b"\x2a", span.name.encode()))
    parts.append(b"\x30" + _KINDS[span.kind])
    if span.start_time:
        parts.append(b"\x39" + _FIXED_64(span.start_time))
    if span.end_time:
        parts.append(b"\x41" + _FIXED_64(span.end_time))
    _add_attributes(parts, b"\x4a", span.attributes)
    _add_count(parts, b"\x50", span.dropped_attributes)
    parts += (write_field(b"\x5a", _event(event)) for event in span.events)
    _add_count(parts, b"\x60", span.dropped_events)
    parts += (write_field(b"\x6a", _link(link)) for link in span.links)
    _add_count(parts, b"\x70", span.dropped_links)
    parts.append(write_field(b"\x7a", _status(span.status)))
    parts.append(b"\x85\x01" + _flags(span.parent))
    return b"".join(parts)


def write_field(tag: bytes, payload: bytes) -> bytes:
    """A field of bytes, text or a message: its tag, its length, itself."""
    return b"%b%b%b" % (tag, _varint(len(payload)), payload)


def _event(event: Event) -> bytes:
    parts = [b"\x09" + _FIXED_64(event.timestamp)] if event.timestamp else []
    if event.name:
        parts.append(write_field(b"\x12", event.name.encode()))
    _add_attributes(parts, b"\x1a", event.attributes)
    _add_count(parts, b"\x20", event.dropped_attributes)
    return b"".join(parts)


def _link(link: Link) -> bytes:
    parts = [
        b"\x0a\x10" + link.context.trace_id.to_bytes(16, "big"),
        b"\x12\x08" + link.context.span_id.to_bytes(8, "big"),
    ]
    _add_attributes(parts, b"\x22", link.attributes)
    _add_count(parts, b"\x28", link.dropped_attributes)
    parts.append(b"\x35" + _flags(link.context))
    return b"".join(parts)


def _status(status: Status) -> bytes:
    words = write_field(b"\x12", status.description.encode()) if status.description else b""
    code = status.status_code.value
    return words + (b"\x18" + _varint(code) if code else b"")


def _flags(other: SpanContext | None) -> bytes:
    """What is said of the span on the other side, a parent or a linked one."""
    is_remote = other is not None and other.is_remote
    return _FIXED_32(_KNOWS_IF_REMOTE | _IS_REMOTE * is_remote)


def _add_count(parts: list[bytes], tag: bytes, count: int) -> None:
    if count:
        parts.append(tag + _varint(count))


def _add_attributes(
    parts: list[bytes], tag: bytes, attributes: Mapping[str, object] | None
) -> None:
    """Each attribute as a ``KeyValue`` under the tag of the field that holds them."""
    if not attributes:
        return
    for key, value in attributes.items():
        name = _name(key)
        if type(value) is str:
            text = value.encode()
            size = len(text)
            total = len(name) + _FRAME_BYTES + size
            if total < _SHORT:
                # Most attributes: pieces that are all there, to be joined once.
                parts += (tag, _ONE_BYTE[total], name, _SHORT_TEXT_FRAMES[size], text)
                continue
            frame = b"\x0a" + _varint(size)
            head = name + b"\x12" + _varint(len(frame) + size) + frame
            # The text itself may be a megabyte: it is copied by the join alone.
            parts += (tag, _varint(len(head) + size), head, text)
        elif type(value) is int and 0 <= value < _SHORT and len(name) < _SHORT - _FRAME_BYTES:
            parts += (tag, _ONE_BYTE[len(name) + _FRAME_BYTES], name, _SMALL_NUMBERS[value])
        else:
            parts.append(write_field(tag, name + write_field(b"\x12", _value(value))))


@lru_cache(maxsize=MAX_CACHED_NAMES)
def _name(key: str) -> bytes:
    """``KeyValue.key``."""
    return write_field(b"\x0a", key.encode()) if key else b""


def _value(value: object) -> bytes:
    """``AnyValue``: its one alternative, a default too; nothing for ``None``."""
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, str):
        return write_field(b"\x0a", value.encode())
    if isinstance(value, int):
        return b"\x18" + (_ONE_BYTE[value] if 0 <= value < _SHORT else _int64(value))
    if isinstance(value, float):
        return b"\x21" + _DOUBLE(value)
    if isinstance(value, bytes):
        return write_field(b"\x3a", value)
    if isinstance(value, Sequence):
        return write_field(b"\x2a", _array(value))
    if isinstance(value, Mapping):
        pairs: list[bytes] = []
        _add_attributes(pairs, b"\x0a", value)
        return write_field(b"\x32", b"".join(pairs))
    if value is None:
        return b""
    raise TypeError(f"no attribute may be a {type(value).__name__}")


def _array(values: Iterable[object]) -> bytes:
    return b"".join(write_field(b"\x0a", _value(value)) for value in values)


def _int64(number: int) -> bytes:
    return _varint(int.from_bytes(number.to_bytes(8, "little", signed=True), "little"))


def _varint(number: int) -> bytes:
    """A whole number from 0, seven bits to the byte, the lowest first."""
    if number < _SHORT:
        return _ONE_BYTE[number]
    digits = bytearray()
    while number >= _SHORT:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)
