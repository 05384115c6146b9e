"""What agents of others' libraries are asked, their tools, and how they tell what they did.

A run, a call and a tool are each ``(kind, told, below)``, as ``tests/run_trees.py`` has them.
Programs of another environment import this: it needs nothing but Python.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = (
    "BERTH",
    "FIRST",
    "LEAVING",
    "PILOTS",
    "SECOND",
    "THANKS",
    "Node",
    "answer",
    "call_of",
    "call_that_said",
    "get_weather",
    "look_up_depth",
    "look_up_tides",
    "run_of",
    "tool_of",
)

LEAVING = "I sail to Lisbon on Saturday. What should I know?"
BERTH = "And what about Sunday?"
THANKS = "Thanks, that is all."
FIRST = "Find out how deep the water is over the bar of Lisbon."
SECOND = "Find out how deep the entrance is, and when the tide is high there."
"""What the pilot may be asked; the demo upstream chooses this one for a second call."""

PILOTS = "You are a pilot of the port."

Node = tuple[str, list[Any], list[Any]]


def run_of(asked: str, answered: str | None, *below: Node) -> Node:
    """A run, or its call where there is but one."""
    return below[0] if len(below) == 1 else ("AGENT", [asked, answered], [*below])


def call_of(answer_id: str) -> Node:
    """A call, by the id of its answer."""
    return ("LLM", [answer_id], [])


def call_that_said(text: str | None, *tools: str) -> Node:
    """A call, by its answer: the text, and the tools that it calls."""
    return ("LLM", [text or "", [*tools]], [])


def tool_of(name: str, arguments: Any, result: Any, *below: Node) -> Node:
    """A tool that was used."""
    return ("TOOL", [name, arguments, result], [*below])


def get_weather(place: str) -> str:
    """The weather at a place."""
    return f"{place}: north wind, 15 knots"


def look_up_depth(place: str) -> str:
    """The depth at a place."""
    return f"{place}: 11.5 metres"


def look_up_tides(place: str) -> str:
    """The tides at a place."""
    return f"{place}: high at 04:12"


def answer(ask: Callable[[bool], Awaitable[list[Node]]]) -> None:
    """Print what an agent did, streamed or not as the argument says."""
    is_streamed = sys.argv[1] == "streamed"

    async def go() -> list[Node]:
        return await ask(is_streamed)

    print(json.dumps(asyncio.run(go())))
