"""Tools: one on offer as chats describe it, and calls of what was not offered.

OpenAI's chats have this form, and the APIs that copy it. Of anomalies
(``docs/contract/spans.md#anomalies``) only that of an answer beside its request is here; what is
odd about an answer alone is noted where it is put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.call import Tool
from codec.members import object_of, text_of

if TYPE_CHECKING:
    from codec.call import Asked, Said

__all__ = ("calls_tool_not_offered", "read_tool")


def read_tool(value: Any) -> Tool:
    """Read a tool, which is described under the name of its type."""
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
"""Types of the calls that the client is to run."""


def calls_tool_not_offered(request: Asked, response: Said) -> bool:
    """Tell whether a called tool was not offered (``docs/contract/sources.md#s3-6``).

    Where a tool that the provider runs itself is offered (a type without a name of its own, such
    as ``web_search``), any call may be one of its, and nothing is held against it.
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
