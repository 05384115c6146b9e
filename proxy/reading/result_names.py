"""Names of tools' results: what was called, in a few words, and whether it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telemetry.spans.call_words import describe_call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.reading.flat_messages import RecordedMessage
    from telemetry.store.rows import SpanSummary


SIGNS: Final = {"OK": "✓", "ERROR": "✗"}
"""What stands behind the name of a tool, by the status of its row."""


def name_results(
    messages: Sequence[RecordedMessage], brought: Mapping[str, SpanSummary]
) -> dict[int, str]:
    """Name the results among the messages of a request: ``Read store.py ✓``, by their indices.

    A result without a known call has no name. Whether a tool failed is known of the results that
    this request brought.

    Args:
        messages: those of the request.
        brought: the rows of the tools whose results it brought, by the ids of their calls.
    """
    called: dict[str, str] = {}
    newest = max((at for at, one in enumerate(messages) if one.tool_calls), default=-1)
    found: dict[int, str] = {}
    for at, message in enumerate(messages):
        for call in message.tool_calls:
            if call.id is not None and (words := describe_call(call.name, call.arguments)):
                called[call.id] = words
        call_id = message.tool_call_id
        if call_id is None:
            continue
        row = brought.get(call_id) if at > newest else None
        words = called.get(call_id) or (None if row is None else row.columns.step)
        if words:
            sign = "" if row is None else SIGNS.get(row.status, "")
            found[message.index] = f"{words} {sign}".rstrip()
    return found
