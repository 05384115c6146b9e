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

MAX_CACHED_LENGTHS = 4_096
"""Lengths, and counts of tokens, whose bytes are kept. A third of a megabyte."""

MAX_CACHED_NUMBER = 1 << 16
"""Ports, states and counts are below."""

MAX_CACHED_ATTRIBUTES = 4_096
"""Short attributes of spans that are kept as they are written, words and numbers apart: kind, model
and provider, roles, reasons and zeros are the same in every span. A megabyte each at most."""

MAX_WORD_CHARS: Final = 24
"""A text of no more is taken for such a word; ids are longer."""

MAX_CACHED_HEADS = 4_096
"""Of what stands before a number or a text, by its attribute and length, where the text has
:data:`SHORT_TEXT_BYTES` at most: the lengths of ids are few. Half a megabyte each."""

SHORT_TEXT_BYTES: Final = 64

_ONE_BYTE: Final = tuple(bytes((number,)) for number in range(0x80))
_SHORT: Final = len(_ONE_BYTE)
"""Numbers below this are one byte (protobuf, "base 128 varints")."""

_FIXED_64: Final = Struct("<Q").pack
_FIXED_32: Final = Struct("<I").pack
_DOUBLE: Final = Struct("<d").pack
_DOUBLE_BYTES: Final = 8

_ATTRIBUTES: Final = b"\x4a"
"""``Span.attributes``."""

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
    _add_span_attributes(parts, span.attributes or {})
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
    return b"%b%b%b" % (tag, _length(len(payload)), payload)


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
    for key, value in (attributes or {}).items():
        parts.append(write_field(tag, _name(key) + write_field(b"\x12", _value(value))))


def _add_span_attributes(parts: list[bytes], attributes: Mapping[str, object]) -> None:
    """The same for those of a span, which are many: most are written already, or nearly."""
    add = parts.append
    for key, value in attributes.items():
        if type(value) is str:
            if len(value) <= MAX_WORD_CHARS:
                add(_word(key, value))
                continue
            text = value.encode()
            size = len(text)
            add(_short_text_head(key, size) if size <= SHORT_TEXT_BYTES else _text_head(key, size))
            add(text)  # it may be a megabyte: it is copied by the join alone
        elif type(value) is int:
            if 0 <= value < _SHORT:
                add(_small_number(key, value))
                continue
            digits = _length(value) if 0 <= value < MAX_CACHED_NUMBER else _int64(value)
            add(_number_head(key, b"\x18", len(digits)))
            add(digits)
        elif type(value) is float:
            add(_number_head(key, b"\x21", _DOUBLE_BYTES))
            add(_DOUBLE(value))
        elif type(value) is tuple and len(value) == 1 and _is_word(value[0]):
            add(_only_word(key, value[0]))
        else:
            _add_attributes(parts, _ATTRIBUTES, {key: value})


@lru_cache(maxsize=MAX_CACHED_ATTRIBUTES)
def _word(key: str, text: str) -> bytes:
    """An attribute of a span with a short text."""
    data = text.encode()
    return _text_head(key, len(data)) + data


@lru_cache(maxsize=MAX_CACHED_ATTRIBUTES)
def _small_number(key: str, number: int) -> bytes:
    """An attribute of a span with a number that takes one byte."""
    return write_field(_ATTRIBUTES, b"%b\x12\x02\x18%b" % (_name(key), _ONE_BYTE[number]))


def _is_word(value: object) -> bool:
    return type(value) is str and len(value) <= MAX_WORD_CHARS


@lru_cache(maxsize=MAX_CACHED_ATTRIBUTES)
def _only_word(key: str, text: str) -> bytes:
    """An attribute of a span with a list of one short text: why an answer ended, as a rule."""
    return write_field(_ATTRIBUTES, _name(key) + write_field(b"\x12", _value((text,))))


@lru_cache(maxsize=MAX_CACHED_HEADS)
def _number_head(key: str, kind: bytes, size: int) -> bytes:
    """All of an attribute of a span with a number of so many bytes, up to the number."""
    head = b"%b\x12%b%b" % (_name(key), _ONE_BYTE[1 + size], kind)
    return b"%b%b%b" % (_ATTRIBUTES, _length(len(head) + size), head)


def _text_head(key: str, size: int) -> bytes:
    """All of an attribute of a span with a text of so many bytes, up to the text."""
    text_size = _length(size)
    value_size = 1 + len(text_size) + size
    head = b"%b\x12%b\x0a%b" % (_name(key), _length(value_size), text_size)
    return b"%b%b%b" % (_ATTRIBUTES, _length(len(head) + size), head)


_short_text_head = lru_cache(maxsize=MAX_CACHED_HEADS)(_text_head)


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
        return b"\x18" + (_length(value) if 0 <= value < MAX_CACHED_NUMBER else _int64(value))
    if isinstance(value, float):
        return b"\x21" + _DOUBLE(value)
    if isinstance(value, bytes):
        return write_field(b"\x3a", value)
    if isinstance(value, (tuple, Sequence)):  # the abstract class takes long to answer
        return write_field(b"\x2a", _array(value))
    if isinstance(value, Mapping):
        pairs: list[bytes] = []
        _add_attributes(pairs, b"\x0a", value)
        return write_field(b"\x32", b"".join(pairs))
    if value is None:
        return b""
    raise TypeError(f"no attribute may be a {type(value).__name__}")


def _array(values: Iterable[object]) -> bytes:
    return b"".join([write_field(b"\x0a", _value(value)) for value in values])


def _int64(number: int) -> bytes:
    if not -(2**63) <= number < 2**63:
        raise OverflowError("more than 64 bits")
    return _varint(number & 2**64 - 1)


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


_length = lru_cache(maxsize=MAX_CACHED_LENGTHS)(_varint)
"""The same of a length or a count: most are met again."""
