"""Finds the call that a request names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.page.errors import PageError
from proxy.reading.growth import read_call_of

if TYPE_CHECKING:
    from proxy.page.api.parameters import Parameters
    from proxy.reading.call import RecordedCall
    from telemetry.raw_answer import RawAnswer
    from telemetry.reading.calls import Calls
    from telemetry.store.rows import SpanSummary


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
