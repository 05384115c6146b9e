"""Results of tools: which of a request's belong to the calls that wait for them.

Rules (``page-and-conversations.md`` 1.4):

1. A result belongs to the call of its id. Of several with one id, as ``call_0``, the last one in
   the history counts, and none that stands before a call of that id: it is an older call's.
2. Some clients rename ids, and some answers give several calls one: results behind the last answer
   that belong to nobody are those of its calls that are left, in their order. Where ids hold, they
   are of calls that nobody waits for. An answer that the client wrote anew may be in several
   messages, results between them: it begins where the request before ended.
3. :data:`MAX_LOOKED_BACK` messages are looked at, from the last one back (R5).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from codec.parts import ToolCall, ToolResult
from codec.units import list_units

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.call import Message
    from telemetry.conversations.run import WaitingTool

__all__ = ("MAX_LOOKED_BACK", "match_results")

MAX_LOOKED_BACK: Final = 512
"""Messages: as many as some hundred parallel calls and their results, an item each."""

_ASSISTANTS: Final = frozenset({"assistant", "model"})


def match_results(
    messages: Sequence[Message], tools: Sequence[WaitingTool], rewritten_units: int = 0
) -> list[tuple[WaitingTool, ToolResult]]:
    """Find the results of calls that wait for them, in the order of the calls.

    Args:
        messages: of the request.
        tools: the calls.
        rewritten_units: how many units of the request are behind the request before, where the
            client wrote the answer to that one anew; else 0.
    """
    by_id = _list_by_id(tools)
    found: dict[str, ToolResult] = {}
    nobodys: list[ToolResult] = []
    older: set[str | None] = set()
    ids_hold = False
    for part, is_behind in _list_parts_back(messages, rewritten_units):
        if isinstance(part, ToolCall):
            older.add(part.id)
            continue
        tool = None if part.id is None or part.id in older else by_id.get(part.id)
        if tool is not None:
            found.setdefault(tool.span_id, part)
            ids_hold = ids_hold or is_behind
        elif is_behind:
            nobodys.append(part)
        if len(found) == len(tools):
            break
    newest_ns = max(tool.start_ns for tool in tools) if tools else 0
    named = {tool.span_id for tool in by_id.values()} if ids_hold else {*found}
    left = [one for one in tools if one.start_ns == newest_ns and one.span_id not in named]
    found |= {tool.span_id: result for tool, result in zip(left, nobodys[::-1], strict=False)}
    return [(tool, found[tool.span_id]) for tool in tools if tool.span_id in found]


def _list_by_id(tools: Sequence[WaitingTool]) -> dict[str, WaitingTool]:
    """List the calls by their ids; of one id the newest, and none where an answer gave it twice."""
    counts = Counter((tool.call_id, tool.start_ns) for tool in tools)
    return {
        tool.call_id: tool
        for tool in tools
        if tool.call_id and counts[tool.call_id, tool.start_ns] == 1
    }


def _list_parts_back(
    messages: Sequence[Message], rewritten_units: int
) -> Iterator[tuple[ToolCall | ToolResult, bool]]:
    """Yield calls and results, the last one first, and whether each is behind the last answer."""
    last, is_behind, left = len(messages) - 1, True, rewritten_units
    for position in range(last, max(last - MAX_LOOKED_BACK, -1), -1):
        message = messages[position]
        if rewritten_units:
            is_behind = left > 0
            left -= len(list_units(message)) if is_behind else 0
        elif message.role in _ASSISTANTS:
            is_behind = False
        for part in reversed(message.parts):
            if isinstance(part, (ToolCall, ToolResult)):
                yield part, is_behind
