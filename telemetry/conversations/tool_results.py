"""Results of tools: which results in a request belong to the tool calls that wait for them.

A result belongs to the call of its id (``docs/contract/conversations.md#tool-results``). If several
results have one id, such as ``call_0``, the last one in the history counts. A result that stands
before a call of the same id belongs to an older call.

Some clients rename ids or send none, and some answers give several calls the same id. So results
after the last answer that belong to no call yet go to the calls of that answer that are left:

- by the calls that the request itself repeats. If these are as many, with the same names and
  arguments, their order counts, else names and arguments;
- if no id says which call a result belongs to, by the tool that the result names.

If other ids do match, a result with an unknown id belongs to a call that nobody waits for. An
answer that the client rewrote may be in several messages, with results between them: it begins
where the request before ended.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from codec.history_items import list_history_items, make_canonical
from codec.members import object_of
from codec.parts import MAX_READ_PARTS, ToolCall, ToolResult
from codec.text.jsontext import decode_json
from telemetry.conversations.keys import is_strong

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.parts import Message
    from telemetry.conversations.run import WaitingTool

MAX_LOOKED_BACK: Final = 512
"""How many messages are searched, from the last one back (R5): some hundred parallel calls and
their results, with a message for each."""

_ASSISTANTS: Final = frozenset({"assistant", "model"})


class _Result:
    """A result in a request.

    Attributes:
        part: the result.
        call: the call of its id that stands before it; ``None`` if there is none.
        name: the name of the tool; ``None`` if the request does not have it.
        is_behind: the result stands after the last answer, and may belong to it.
        newer: the names of calls of its id that stand after it.
    """

    __slots__ = ("call", "is_behind", "name", "newer", "part")

    def __init__(self, part: ToolResult, name: str | None, *, is_behind: bool) -> None:
        self.part = part
        self.name = part.name or name
        self.is_behind = is_behind
        self.newer: frozenset[str | None] = frozenset()
        self.call: ToolCall | None = None


def match_results(
    messages: Sequence[Message], tools: Sequence[WaitingTool], new_items: int = 0
) -> list[tuple[WaitingTool, ToolResult]]:
    """Find the results of waiting tool calls, in the order of the calls.

    Args:
        messages: the messages of the request.
        tools: the tool calls.
        new_items: how many items of the request follow the request before, if the client rewrote
            the answer to that one; else 0.
    """
    by_id = _list_by_id(tools)
    results, answered = _read_back(messages, {**by_id}, new_items)
    found: dict[str, ToolResult] = {}
    nobodys: list[_Result] = []
    ids_hold = False
    for one in results:
        tool = None if one.part.id is None else by_id.get(one.part.id)
        if tool is None:
            nobodys += [one] if one.is_behind else []
        elif one.newer and not tool.shows_name:
            continue  # a call of its id stands after it, and may be the one that waits
        elif one.call is None or is_strong(tool.call_id or "") or _may_be(tool, one.call):
            found.setdefault(tool.span_id, one.part)
            ids_hold = ids_hold or one.is_behind
    ids = {tool.call_id for tool in tools}
    if ids_hold and None not in ids:  # all ids are known: after a restart some are not
        nobodys = [one for one in nobodys if one.part.id is None or one.part.id in ids]
    if nobodys and tools:
        newest_ns = tools[-1].start_ns  # the last one, not the greatest: clocks step
        left = [one for one in tools if one.start_ns == newest_ns and one.span_id not in found]
        named = {id(one.call) for one in results}
        others = [call for call in answered if id(call) not in named]
        found |= _match_nobodys(left, nobodys[::-1], answered, others)
    return [(tool, found[tool.span_id]) for tool in tools if tool.span_id in found]


def _match_nobodys(
    tools: Sequence[WaitingTool],
    results: Sequence[_Result],
    answered: Sequence[ToolCall],
    others: Sequence[ToolCall],
) -> dict[str, ToolResult]:
    """Match results to tool calls by the calls that the request repeats.

    Args:
        tools: the tool calls that are left.
        results: results that belong to no call by their id.
        answered: the calls of the last answer, as the request repeats them.
        others: the calls among `answered` whose id no result has.
    """
    if len(answered) == len(tools) and all(map(_may_be, tools, answered)):  # as most of the time
        pairs = [*zip(answered, tools, strict=True)]
    else:
        left = [*tools]
        pairs = []
        for call in answered:
            if tool := next((one for one in left if _may_be(one, call)), None):
                pairs.append((call, tool))
                left.remove(tool)
    unnamed = [*others]
    found: dict[str, ToolResult] = {}
    for one in results:
        own = _take(unnamed, one.name) if one.call is None else one.call
        tool = next((tool for call, tool in pairs if call is own), None)
        if not answered:  # the results came alone
            left = [other for other in tools if other.span_id not in found]
            tool = _choose(left, one) if one.part.is_error else next(iter(left), None)
        if tool is not None:
            found[tool.span_id] = one.part
    return found


def _choose(tools: Sequence[WaitingTool], result: _Result) -> WaitingTool | None:
    """Choose the tool that failed: the only one, or the only one that the error names.

    An error may have the arguments, too, in Python's notation.
    """
    if len(tools) > 1:
        tools = [tool for tool in tools if tool.shows_name and tool.name == result.name]
    if len(tools) > 1 and isinstance(text := result.part.value, str):
        tools = [tool for tool in tools if _names_arguments(text, tool)]
    return tools[0] if len(tools) == 1 else None


def _names_arguments(text: str, tool: WaitingTool) -> bool:
    if not tool.shows_arguments or tool.arguments is None:
        return False
    try:
        arguments = decode_json(tool.arguments)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return f"with arguments {arguments}: " in text


def _take(calls: list[ToolCall], name: str | None) -> ToolCall | None:
    """Take the first call of a tool, or else the first call."""
    if not calls:
        return None
    return calls.pop(next((at for at, call in enumerate(calls) if call.name == name), 0))


def _may_be(tool: WaitingTool, call: ToolCall) -> bool:
    """Tell whether a call in a request may be a waiting one, by its name and arguments."""
    if tool.shows_name and call.name is not None and tool.name != call.name:
        return False
    if not tool.shows_arguments or tool.arguments is None:
        return True
    return _are_alike(make_canonical(tool.arguments), make_canonical(call.arguments))


def _are_alike(one: str, other: str) -> bool:
    """Tell whether arguments are the same, apart from members that a client adds as defaults."""
    if one == other:
        return True
    try:
        ours, theirs = object_of(decode_json(one)), object_of(decode_json(other))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    both = ours.keys() & theirs.keys()
    return bool(both) and all(ours[name] == theirs[name] for name in both)


def _list_by_id(tools: Sequence[WaitingTool]) -> dict[str, WaitingTool]:
    """List the calls by their ids: the newest of each, and none if an answer has the id twice."""
    counts = Counter((tool.call_id, tool.start_ns) for tool in tools)
    return {
        tool.call_id: tool
        for tool in tools
        if tool.call_id and counts[tool.call_id, tool.start_ns] == 1
    }


class _Met:
    """The tool calls and results of a request, met from its last message back.

    Attributes:
        answered: the calls of the last answer, the last one first.
        wanted: the waiting calls that were not met yet, by their ids.
    """

    __slots__ = ("_names", "_results", "_without_call", "answered", "wanted")

    def __init__(self, wanted: dict[str, WaitingTool]) -> None:
        self.answered: list[ToolCall] = []
        self.wanted = wanted
        self._results: list[_Result] = []
        self._without_call: dict[str, list[_Result]] = {}  # by their ids
        self._names: dict[str, set[str | None]] = {}  # of calls, by their ids

    def meet_result(self, part: ToolResult, name: str | None, *, is_behind: bool) -> None:
        """Take a result in a message of this name; `is_behind`: it stands after the last answer."""
        self._results.append(one := _Result(part, name, is_behind=is_behind))
        if part.id is not None:
            one.newer = frozenset(self._names.get(part.id, ()))
            self._without_call.setdefault(part.id, []).append(one)

    def meet_call(self, part: ToolCall, *, is_answer: bool) -> None:
        """Take a call, with the last result of its id; `is_answer`: it is the last answer's."""
        if part.id is not None:
            if results := self._without_call.get(part.id):
                results.pop(0).call = part
                if part.id in self.wanted and _may_be(self.wanted[part.id], part):
                    del self.wanted[part.id]
            self._names.setdefault(part.id, set()).add(part.name)
        if is_answer:
            self.answered.append(part)

    def list_results(self) -> list[_Result]:
        """List the results, the last one first, without those of older calls."""
        return [one for one in self._results if not _is_older(one, self._names)]


def _read_back(
    messages: Sequence[Message], wanted: dict[str, WaitingTool], new_items: int
) -> tuple[list[_Result], list[ToolCall]]:
    """Read results, the last one first, and the calls of the last answer in their order.

    Messages before the last answer are read as long as some calls are `wanted`.
    """
    met = _Met(wanted)
    is_behind, left, is_over = True, new_items, False
    for message in islice(reversed(messages), MAX_LOOKED_BACK):
        new_parts = MAX_READ_PARTS
        if new_items:
            is_behind = left > 0
            items = len(list_history_items(message)) if is_behind else 0
            new_parts = left if items > left else new_parts  # of results, each is an item
            left -= items
            is_over = not is_behind
        elif message.role in _ASSISTANTS:
            is_behind = False
        else:
            is_over = is_over or not is_behind
        for at, part in enumerate(reversed(message.parts)):
            if isinstance(part, ToolResult):
                met.meet_result(part, message.name, is_behind=is_behind and at < new_parts)
            elif isinstance(part, ToolCall):
                met.meet_call(part, is_answer=not is_over)
        if is_over and not met.wanted:
            break
    return met.list_results(), met.answered[::-1]


def _is_older(result: _Result, names: Mapping[str, set[str | None]]) -> bool:
    """Tell whether a result belongs to an older call, or was sent again later."""
    if result.call is not None:
        return result.call.name in result.newer
    return result.part.id in names
