"""A finished span as OTLP bytes, without protobuf objects.

The SDK's exporter makes a protobuf object of every attribute, which takes longer than everything
else that is done for a span. The bytes of these few messages are simple enough to be written
directly. They equal those of ``opentelemetry-exporter-otlp`` (``encode_spans``, serialised), for
every span and every kind of attribute that it takes.

Fields are written in the order of their numbers, and a field with its default value is left out
(protobuf, "encoding"). Numbers of fields are those of ``opentelemetry/proto/trace/v1/trace.proto``.
Attributes that are written already (:mod:`telemetry.spans.otlp.attributes`) are not written again.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from telemetry.spans.otlp.attributes import (
    WrittenAttributes,
    add_attributes,
    write_field,
    write_number,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import Event
    from opentelemetry.trace import Link, SpanContext, Status
    from opentelemetry.util.types import Attributes

    from codec.parts import Message
    from telemetry.pricing.span_cost import FoundCost
    from telemetry.privacy.mask import Mask

MAX_CACHED_SPAN_NAMES: Final = 256
"""The number of span names that are kept: operations, some with models, so a handful. The recorder
makes names of some 150 characters at most."""

_FIXED_64: Final = Struct("<Q").pack

_KINDS: Final = {
    SpanKind.INTERNAL: b"\x01",
    SpanKind.SERVER: b"\x02",
    SpanKind.CLIENT: b"\x03",
    SpanKind.PRODUCER: b"\x04",
    SpanKind.CONSUMER: b"\x05",
}
_CODES: Final = {
    StatusCode.UNSET: b"",
    StatusCode.OK: b"\x18\x01",
    StatusCode.ERROR: b"\x18\x02",
}
_ONLY_CODES: Final = {code: write_field(b"\x7a", field) for code, field in _CODES.items()}
"""Statuses without words."""

_NOT_REMOTE: Final = Struct("<I").pack(0x100)
_REMOTE: Final = Struct("<I").pack(0x100 | 0x200)
"""``SpanFlags`` for a span on the other side that is known to be remote."""


class FinishedSpan(ReadableSpan):
    """A span whose attributes can be read as they were given, written ones included.

    Attributes:
        mask: the mask that was applied to its texts; ``None`` if nothing was hidden.
        messages: the messages of the request.
        price: what is known of its cost; ``None`` if nobody looked.
    """

    mask: Mask | None = None
    messages: Sequence[Message] = ()
    price: FoundCost | None = None

    @property
    def attributes(self) -> Attributes:
        """The span's attributes; not to be changed."""
        return self._attributes


def write_span(span: ReadableSpan) -> bytes:
    """The span as a serialised ``Span``.

    Raises:
        UnicodeEncodeError: a text is not valid Unicode.
        OverflowError: an integer does not fit 64 bits with sign.
        TypeError: an attribute is of a kind that OTLP does not know.
    """
    own = span.context
    trace_id, span_id = own.trace_id.to_bytes(16, "big"), own.span_id.to_bytes(8, "big")
    parts = [b"\x0a\x10%b\x12\x08%b" % (trace_id, span_id)]
    if own.trace_state:
        state = ",".join(f"{key}={value}" for key, value in own.trace_state.items())
        parts.append(write_field(b"\x1a", state.encode()))
    if span.parent is not None:
        parts.append(b"\x22\x08" + span.parent.span_id.to_bytes(8, "big"))
    if name := span.name:
        parts.append(_span_name(name))
    parts.append(b"\x30" + _KINDS[span.kind])
    if span.start_time:
        parts.append(b"\x39" + _FIXED_64(span.start_time))
    if span.end_time:
        parts.append(b"\x41" + _FIXED_64(span.end_time))
    attributes = span.attributes
    if type(attributes) is WrittenAttributes:
        parts.append(attributes.whole)
    else:
        add_attributes(parts, b"\x4a", attributes)
    if count := span.dropped_attributes:
        parts.append(b"\x50" + write_number(count))
    if events := span.events:
        parts += [write_field(b"\x5a", _event(event)) for event in events]
    if count := span.dropped_events:
        parts.append(b"\x60" + write_number(count))
    if links := span.links:
        parts += [write_field(b"\x6a", _link(link)) for link in links]
    if count := span.dropped_links:
        parts.append(b"\x70" + write_number(count))
    parts += (_status(span.status), b"\x85\x01", _flags(span.parent))
    return b"".join(parts)


@lru_cache(maxsize=MAX_CACHED_SPAN_NAMES)
def _span_name(name: str) -> bytes:
    """Write the field ``Span.name``."""
    return write_field(b"\x2a", name.encode())


def _event(event: Event) -> bytes:
    parts = [b"\x09" + _FIXED_64(event.timestamp)] if event.timestamp else []
    if event.name:
        parts.append(write_field(b"\x12", event.name.encode()))
    add_attributes(parts, b"\x1a", event.attributes)
    _add_count(parts, b"\x20", event.dropped_attributes)
    return b"".join(parts)


def _link(link: Link) -> bytes:
    parts = [
        b"\x0a\x10" + link.context.trace_id.to_bytes(16, "big"),
        b"\x12\x08" + link.context.span_id.to_bytes(8, "big"),
    ]
    add_attributes(parts, b"\x22", link.attributes)
    _add_count(parts, b"\x28", link.dropped_attributes)
    parts.append(b"\x35" + _flags(link.context))
    return b"".join(parts)


def _status(status: Status) -> bytes:
    """Write the field ``Span.status``."""
    if not status.description:
        return _ONLY_CODES[status.status_code]
    words = write_field(b"\x12", status.description.encode())
    return write_field(b"\x7a", words + _CODES[status.status_code])


def _flags(other: SpanContext | None) -> bytes:
    """Return the flags about the span on the other side, a parent or a linked one."""
    return _REMOTE if other is not None and other.is_remote else _NOT_REMOTE


def _add_count(parts: list[bytes], tag: bytes, count: int) -> None:
    if count:
        parts.append(tag + write_number(count))
