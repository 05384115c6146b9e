"""Finds the call that a request names, and the call that it continues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.page.errors import PageError
from proxy.reading.call import read_with_pictures

if TYPE_CHECKING:
    from proxy.page.api.parameters import Parameters
    from proxy.reading.call import RecordedCall
    from telemetry.reading.calls import Calls

_FROM_ANOTHER: Final = frozenset({"sent_context", ""})
"""Relations of links that do not lead to an earlier call, but to the context that the upstream got
or to a caller's context."""


def find_call(reader: Calls, parameters: Parameters, name: str = "id") -> RecordedCall:
    """Find the call that a parameter, or a part of the path, names.

    Raises:
        PageError: there is no such call.
    """
    span_id = parameters.span_id(name)
    found = read_call_of(reader, span_id)
    if found is None:
        raise PageError("not_found", f"there is no call {span_id} in the store; it may be too old")
    return found


def read_call_of(reader: Calls, span_id: str) -> RecordedCall | None:
    """Read the call with a span id; ``None`` if there is no such call."""
    stored = reader.one(span_id)
    return None if stored is None else read_with_pictures(reader, stored)


def find_before(
    reader: Calls, call: RecordedCall, last: RecordedCall | None = None
) -> RecordedCall | None:
    """Find the call that `call` continues; ``None`` if it continues no call, or that one is gone.

    `last` is a call that was read before, and may be the one.
    """
    span = call.span
    for (_, span_id), relation in zip(span.links, span.relations, strict=False):
        if relation in _FROM_ANOTHER:
            continue
        if last is not None and last.summary.span_id == span_id:
            return last
        if (found := read_call_of(reader, span_id)) is not None:
            return found
    return None
