"""Rows of calls that are counted one by one: each of them must have its span."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.faults.row import Row, report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from telemetry.store.rows import SpanSummary
    from tests.faults.raw import Call

__all__ = ("report_calls",)


def report_calls(
    name: str,
    calls: Sequence[Call],
    spans: Mapping[str, SpanSummary],
    *,
    client_saw: str,
    added_latency: str = "none",
    figures: dict[str, str | int | float] | None = None,
) -> None:
    """Report what one fault came to, and assert that it lost no span.

    Args:
        name: the fault, in words.
        calls: all that were made.
        spans: those of the calls that have one, by trace id.
        client_saw: in words.
        added_latency: in words.
        figures: whatever else was measured, by name.
    """
    lost = sum(call.trace_id not in spans for call in calls)
    report(
        Row(
            name=name,
            sent=len(calls),
            lost=lost,
            client_saw=client_saw,
            added_latency=added_latency,
            figures=figures or {},
        )
    )
    assert lost == 0, f"{lost} of {len(calls)} calls have no span"
