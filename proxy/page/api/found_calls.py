"""Finds the call that a request names, and the call that it continues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.page.errors import PageError
from proxy.reading.call import read_with_pictures

if TYPE_CHECKING:
    from proxy.page.api.parameters import Parameters
    from proxy.reading.call import RecordedCall
    from telemetry.raw_answer import RawAnswer
    from telemetry.reading.calls import Calls
    from telemetry.store.rows import SpanSummary

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


def find_raw_answer(reader: Calls, parameters: Parameters) -> tuple[SpanSummary, RawAnswer]:
    """Find the row of a call, and the true bytes of its answer.

    Raises:
        PageError: they are not kept.
    """
    stored = reader.one(parameters.span_id())
    answer = None if stored is None else reader.raw_answer(stored.summary.seq)
    if stored is None or answer is None:
        words = "the true bytes of this answer are not kept: see the setting SPANTAP_RAW"
        raise PageError("not_found", words)
    return stored.summary, answer
