"""Messages as smolagents 1.26 sends them: its memory as texts of users and assistants."""

from __future__ import annotations

from typing import Any

__all__ = (
    "AGAIN",
    "GO_ON",
    "call",
    "calling",
    "error",
    "failed",
    "managed",
    "message",
    "observation",
    "task",
)

AGAIN = (
    "Now let's retry: take care not to repeat previous errors! If you have retried several times,"
    " try a completely different approach.\n"
)

GO_ON = "Now proceed and carry out this plan."


def message(role: str, *blocks: str) -> dict[str, Any]:
    """A message; smolagents joins those of one role that follow each other."""
    return {"role": role, "content": [{"type": "text", "text": "\n".join(blocks)}]}


def task(words: str) -> str:
    """What the user says."""
    return f"New task:\n{words}"


def call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    """A call, as its memory has it."""
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def calling(*made: dict[str, Any]) -> str:
    """The calls that a step made."""
    return f"Calling tools:\n{[*made]}"


def observation(result: str) -> str:
    """The results of a step."""
    return f"Observation:\n{result}"


def error(words: str, call_id: str = "") -> str:
    """The error of a step; with the id of its call if the step has kept that."""
    lead = f"Call id: {call_id}\n" if call_id else ""
    return f"{lead}Error:\n{words}\n{AGAIN}"


def failed(name: str, arguments: dict[str, Any], words: str = "ValueError: no") -> str:
    """The error of a tool."""
    return error(
        f"Error executing tool '{name}' with arguments {arguments}: {words}\n"
        "Please try again or use another tool"
    )


def managed(name: str, words: str) -> str:
    """The task that an agent gives to one that it manages."""
    return task(
        f"You're a helpful agent named '{name}'.\n"
        f"You have been submitted this task by your manager.\n---\nTask:\n{words}\n---\n"
        "You're helping your manager solve a wider task: so make sure to not provide a one-line"
        " answer."
    )
