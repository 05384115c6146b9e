"""Anomalies of an answer beside its request (``docs/contract/spans.md#anomalies``).

What is odd about an answer alone is noted where it is put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codec.call import Asked, Said

__all__ = ("calls_tool_not_offered",)

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
