"""What is odd about a request, or about an answer beside its request (``span-contract.md`` 1.8).

What is odd about an answer alone, the accumulator notes itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.answer import ChatResponse
    from codec.request import ChatRequest

__all__ = ("calls_tool_not_offered", "find_request_fault")

_WRAPPER = "multi_tool_use.parallel"
"""A pseudo tool in which some servers wrap parallel calls (``dialects.md`` section 7.8)."""


def calls_tool_not_offered(request: ChatRequest, response: ChatResponse) -> bool:
    """Whether an answer calls a tool that the request did not offer (``seeds.md`` S3.6).

    Where a tool that the provider runs itself is offered (a type without a name of its own, such
    as ``web_search``), any call may be one of its, and nothing is held against it.
    """
    called = set(_called(response)) - {_WRAPPER}
    if not called:
        return False
    tools = [tool for tool in request.tools if isinstance(tool, dict)]
    offered = {name for tool in tools if (name := _name(tool)) is not None}
    if len(tools) > sum(_name(tool) is not None for tool in tools):
        return False
    functions = request.body.get("functions")
    offered |= {
        function["name"]
        for function in (functions if isinstance(functions, list) else ())
        if isinstance(function, dict) and isinstance(function.get("name"), str)
    }
    return not called <= offered


def find_request_fault(request: ChatRequest) -> str | None:
    """Name what makes a request no chat completion request (``seeds.md`` S4.10).

    The view of it stays usable: a wrong member reads as an absent one.
    """
    body = request.body
    for name in ("messages", "tools"):
        if not isinstance(body.get(name), list | None):
            return f"{name} is no list"
    if not isinstance(body.get("tool_choice"), str | dict | None):
        return "tool_choice is neither a word nor an object"
    return None


def _called(response: ChatResponse) -> Iterator[str]:
    for choice in response.choices:
        message = choice.message
        if message.tool_calls or message.function_call:
            for call in (*message.tool_calls, message.function_call):
                if call is not None and call.name is not None:
                    yield call.name


def _name(tool: dict[str, Any]) -> str | None:
    for kind in ("function", "custom"):
        described = tool.get(kind)
        if isinstance(described, dict) and isinstance(described.get("name"), str):
            return str(described["name"])
    return None
