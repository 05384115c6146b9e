"""Results of tools: which of a request's belong to the calls that wait for them.

Rules (``page-and-conversations.md`` 1.4):

1. A result belongs to the call of its id. Of several with one id, as ``call_0``, the last one in
   the history counts.
2. Some clients rename ids: results behind the last answer that belong to nobody are those of the
   calls that are left, in their order.
3. :data:`MAX_LOOKED_BACK` messages are looked at, from the last one back (R5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codec.parts import ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.call import Message
    from telemetry.conversations.run import WaitingTool

__all__ = ("MAX_LOOKED_BACK", "match_results")

MAX_LOOKED_BACK: Final = 512
"""Messages: as many as some hundred parallel calls and their results, an item each."""

_ASSISTANTS: Final = frozenset({"assistant", "model"})


def match_results(
    messages: Sequence[Message], tools: Sequence[WaitingTool]
) -> list[tuple[WaitingTool, ToolResult]]:
    """Find the results of calls that wait for them, in the order of the calls."""
    by_id = {tool.call_id: tool for tool in tools if tool.call_id}
    found: dict[str, ToolResult] = {}
    nobodys: list[ToolResult] = []
    for result, is_behind in _list_results_back(messages):
        tool = None if result.id is None else by_id.get(result.id)
        if tool is not None:
            found.setdefault(tool.span_id, result)
        elif is_behind:
            nobodys.append(result)
        if len(found) == len(tools):
            break
    left = [tool for tool in tools if tool.span_id not in found]
    found |= {tool.span_id: result for tool, result in zip(left, nobodys[::-1], strict=False)}
    return [(tool, found[tool.span_id]) for tool in tools if tool.span_id in found]


def _list_results_back(messages: Sequence[Message]) -> Iterator[tuple[ToolResult, bool]]:
    """Yield results, the last one first, and whether each stands behind the last answer."""
    last, is_behind = len(messages) - 1, True
    for position in range(last, max(last - MAX_LOOKED_BACK, -1), -1):
        message = messages[position]
        if message.role in _ASSISTANTS:
            is_behind = False
        for part in reversed(message.parts):
            if isinstance(part, ToolResult):
                yield part, is_behind
