"""Tools on offer, as OpenAI's chats and their copies describe them, and calls of other tools.

Of all anomalies (``docs/contract/spans.md#anomalies``) only ``tool_not_offered`` is found here,
because it needs the answer and its request; what is odd about an answer alone is noted where the
answer is put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.asked import Tool
from codec.members import object_of, text_of

if TYPE_CHECKING:
    from codec.asked import Asked
    from codec.said import Said

__all__ = ("calls_tool_not_offered", "read_tool")


def read_tool(value: Any) -> Tool:
    """Read a tool; its description stands under the name of its type."""
    if not isinstance(value, dict):
        return Tool(type="", value=value)
    kind = text_of(value.get("type")) or "function"
    members = object_of(value.get(kind))
    return Tool(
        type=kind,
        name=text_of(members.get("name")),
        description=text_of(members.get("description")),
        parameters=members.get("parameters"),
        value=value,
    )


_WRAPPER = "multi_tool_use.parallel"
"""A pseudo tool in which some servers wrap parallel calls
(``docs/contract/wire.md#pseudo-tool``)."""

_CLIENT_TOOLS = frozenset({"function", "custom", "function_call"})
"""Types of the calls that the client runs."""


def calls_tool_not_offered(request: Asked, response: Said) -> bool:
    """Tell whether a called tool was not offered (``docs/contract/sources.md#s3-6``).

    If a tool that the provider runs is on offer (a type without a name, such as ``web_search``),
    any call may be one of that tool's, and is accepted.
    """
    calls = response.tool_calls
    if not calls:
        return False
    called = {call.name for call in calls if call.name is not None and call.type in _CLIENT_TOOLS}
    called.discard(_WRAPPER)
    if not called:
        return False
    offered = request.offered_names
    return offered is not None and not called <= offered
