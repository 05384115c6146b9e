"""Names of tools' results: what was called, in a few words, and whether it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.reading.tool_results import name_calls

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
    newest = max((at for at, one in enumerate(messages) if one.tool_calls), default=-1)
    found: dict[int, str] = {}
    for at, (message, called) in enumerate(zip(messages, name_calls(messages), strict=True)):
        call_id = message.tool_call_id
        row = brought.get(call_id) if call_id is not None and at > newest else None
        words = called or (None if row is None else row.columns.step)
        if words:
            sign = "" if row is None else SIGNS.get(row.status, "")
            found[message.index] = f"{words} {sign}".rstrip()
    return found
