"""Runs for tests: calls of an agent with the usage that a provider told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from codec.apis.table import get_api
from codec.history_states import Digests
from telemetry.conversations.run_usage import RunUsage
from tests.telemetry.conversations.talks import answer

if TYPE_CHECKING:
    from codec.asked import Asked
    from codec.said import Said

__all__ = ("DIGESTS", "SYSTEM", "TOOLS", "AgentRun", "ask", "say", "say_message", "tool")

DIGESTS = Digests(b"k" * 32)
SYSTEM = {"role": "system", "content": "You are an agent. " * 40}


def tool(name: str) -> dict[str, Any]:
    """A tool on offer."""
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


TOOLS = [tool("read"), tool("write")]


def ask(*messages: dict[str, Any], api: str = "chat.completions", **body: Any) -> Asked:
    """A request, by default of a chat."""
    told = {"model": "m-1", "messages": messages, **body}
    return get_api(api).decode_asked(json.dumps(told).encode())


def say(said: dict[str, Any] | None = None, **usage: Any) -> Said:
    """An answer of a chat, and its usage: ``prompt``, ``completion``, ``cached``, ``written``."""
    names = {"prompt": "prompt_tokens", "completion": "completion_tokens"}
    told: dict[str, Any] = {ours: usage[name] for name, ours in names.items() if name in usage}
    details = {"cached": "cached_tokens", "written": "cache_write_tokens"}
    of_prompt = {ours: usage[name] for name, ours in details.items() if name in usage}
    if of_prompt:
        told["prompt_tokens_details"] = of_prompt
    choice = {"index": 0, "message": said or answer("Done."), "finish_reason": "stop"}
    body = {"id": "a-1", "choices": [choice], "usage": told or None}
    return get_api("chat.completions").read_said(json.dumps(body).encode())


def say_message(*blocks: dict[str, Any], fresh: int, read: int, written: int) -> Said:
    """An answer of Anthropic's, with the counts as it tells them."""
    usage = {
        "input_tokens": fresh,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": 10,
    }
    content = blocks or ({"type": "text", "text": "Done."},)
    body = {"type": "message", "role": "assistant", "content": content, "usage": usage}
    return get_api("messages").read_said(json.dumps(body).encode())


class AgentRun:
    """A run, and the history that it has so far.

    Attributes:
        usage: what is tested.
        history: messages after the system's.
    """

    def __init__(self, *history: dict[str, Any]) -> None:
        self.usage = RunUsage(DIGESTS)
        self.history = [*history]

    def call(self, *new: dict[str, Any], body: dict[str, Any] | None = None, **usage: Any) -> Any:
        """Make the next call: its history is that so far and what is new."""
        self.history += new
        told = {"tools": TOOLS, **(body or {})}
        system = told.pop("system", SYSTEM)
        return self.usage.add(ask(system, *self.history, **told), say(**usage))

    def summarise(self) -> dict[str, Any]:
        """What is told of the run."""
        return dict(self.usage.summarise())
