"""Every recorded request of Ollama's own; the answers are in :mod:`tests.corpus.test_apis`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.ollama.asked import ChatAsked, GenerateAsked
from codec.parts import Reasoning, ToolCall, ToolResult
from tests.corpus.oracle import parse_json
from tests.corpus.recordings import (
    NEEDS_RECORDINGS,
    load_all,
    load_ollama_chats,
    load_ollama_texts,
)

if TYPE_CHECKING:
    from codec.parts import Message
    from tests.corpus.recordings import Recording

pytestmark = NEEDS_RECORDINGS


def tell(message: Message) -> dict[str, Any]:
    """A message of the record, as it was on the wire."""
    told: dict[str, Any] = {"role": message.role, "content": "", "tool_name": message.name}
    calls = []
    for part in message.parts:
        match part:
            case str():
                told["content"] = part
            case Reasoning():
                told["thinking"] = part.text
            case ToolResult():
                told["content"] = part.value
            case ToolCall():
                calls.append((part.name, parse_json(part.arguments)))
    return told | {"calls": calls}


def expect(message: dict[str, Any]) -> dict[str, Any]:
    """The same of what was sent."""
    named = {"role": message["role"], "content": message["content"]}
    if "thinking" in message:
        named["thinking"] = message["thinking"]
    functions = [call["function"] for call in message.get("tool_calls", [])]
    calls = [(one["name"], one["arguments"]) for one in functions]
    return named | {"tool_name": message.get("tool_name"), "calls": calls}


@pytest.mark.parametrize("recording", load_all(load_ollama_chats), ids=lambda one: one.id)
def test_a_recorded_chat_is_read_message_by_message(recording: Recording) -> None:
    """Roles, words, thinking, calls and results; tools, and what shapes the answer."""
    asked = parse_json(recording.request)
    request = ChatAsked(asked)
    assert request.fault is None
    assert request.stream is asked.get("stream", True)
    assert [*map(tell, request.read_messages())] == [*map(expect, asked["messages"])]
    tools = asked.get("tools") or []
    assert [tool.title for tool in request.read_tools()] == [
        tool["function"]["name"] for tool in tools
    ]
    options = asked.get("options") or {}
    assert options.items() <= request.options.items()
    limit = options.get("num_predict")
    assert request.options.get("max_tokens") == (limit if limit and limit > 0 else None)


@pytest.mark.parametrize("recording", load_all(load_ollama_texts), ids=lambda one: one.id)
def test_a_recorded_prompt_is_read(recording: Recording) -> None:
    """And is no parameter."""
    asked = parse_json(recording.request)
    request = GenerateAsked(asked)
    assert request.fault is None
    assert request.read_texts() == (asked["prompt"],)
    assert "prompt" not in request.parameters
