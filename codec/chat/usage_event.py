"""The usage event, which an upstream sends only because a request asked for usage.

This is the one definition, both for the filter of a client's stream
(:mod:`codec.chat.usage_filter`) and for the observer (:mod:`codec.chat.stream`).

It is one event whose data is an object that :func:`codec.chat.chunk.is_usage_only`, in any form
that :func:`codec.text.sse.read_event` reads. Besides its data it may have a name, an id, a time for
reconnecting, comments and unknown fields, in any order, and its data may take several lines. All of
that belongs to the event.

An event with an error is not a usage event. Nor is one of more than :data:`MAX_USAGE_EVENT_BYTES`,
one with a line that does not begin as a field does, or one in which the beginning of a choice is
seen anywhere. These three can be seen in the first bytes of an event, and the first bytes must not
lead to another decision than the whole event.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from codec.chat.chunk import is_usage_only
from codec.error_objects import find_error
from codec.text.jsontext import decode_json
from codec.text.sse import read_event

if TYPE_CHECKING:
    from codec.text.sse import ServerSentEvent

__all__ = (
    "MAX_USAGE_EVENT_BYTES",
    "find_choice",
    "find_usage",
    "is_usage_event",
    "may_be_usage_event",
    "reads_as_usage_event",
)

MAX_USAGE_EVENT_BYTES = 16_384 - len(b"\r\n\r\n")
"""Largest usage event, without the line ends behind it. Real ones have about 1,000 bytes."""

# The first quote is left out because the search is faster without it: so many names begin with one.
# A usage of null does not count.
find_usage = re.compile(rb'usage"(?! ?: ?null)').search
"""Finds the place in the bytes of events where a usage begins; all usage events have one."""

# A line end is not a choice: the next line may have the end of the list.
find_choice = re.compile(rb'"choices"[ \t]*:[ \t]*\[[ \t]*[^ \t\]\r\n]').search
"""Finds the place in the bytes of events where a choice begins."""

# Comments have an empty name. The LF of a CRLF begins an empty line here, which does no harm.
_FIELD = rb"[A-Za-z_-]*+(?::[^\r\n]*+)?+"
_has_only_fields = re.compile(_FIELD + rb"(?:[\r\n]" + _FIELD + rb")*+").fullmatch


def is_usage_event(event: ServerSentEvent, value: Any) -> bool:
    """Tell whether an event is a usage event, by its bytes and the value of its data."""
    return (
        is_usage_only(value)
        and find_error(value, event.event) is None
        and may_be_usage_event(event.raw.strip(b"\r\n"))
    )


def reads_as_usage_event(block: bytes) -> bool:
    """Tell whether the lines of one event, without its blank line, are a usage event."""
    if not (find_usage(block) and may_be_usage_event(block)):
        return False
    event = read_event(block)
    if event is None or event.data is None:
        return False
    try:
        value = decode_json(event.data)
    except ValueError:
        return False
    return is_usage_event(event, value)


def may_be_usage_event(block: bytes) -> bool:
    """Tell whether the lines of one event, or the first bytes of them, may be a usage event."""
    return (
        len(block) <= MAX_USAGE_EVENT_BYTES
        and find_choice(block) is None
        and _has_only_fields(block) is not None
    )
