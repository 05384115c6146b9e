"""Lone calls, behind which nobody comes back: they have no session, or a batch had a thousand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from telemetry.conversation_position import ConversationForm
from telemetry.spans.rules import SpanRules
from tests.telemetry.conversations.agents import Agents
from tests.telemetry.conversations.talks import answer, calls, result, user

if TYPE_CHECKING:
    from pathlib import Path

CHAT = ("chat.completions", "/v1/chat/completions")
MESSAGES = ("messages", "/v1/messages")
RESPONSES = ("responses", "/v1/responses")
GEMINI = ("gemini.generate", "/v1beta/models/gemini-3:generateContent")
ASKED = {"messages": [user("Which way is the harbour?")]}
GEMINI_ASKED = {"contents": [{"role": "user", "parts": [{"text": "Which way?"}]}]}
TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
OTHER = {"type": "function", "function": {"name": "write", "parameters": {"type": "object"}}}


def chat(message: dict[str, Any]) -> dict[str, Any]:
    """A chat's answer."""
    return {"id": "a", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def message(*blocks: dict[str, Any]) -> dict[str, Any]:
    """An answer of Anthropic's."""
    return {"type": "message", "role": "assistant", "content": blocks, "stop_reason": "end_turn"}


def response(*items: dict[str, Any]) -> dict[str, Any]:
    """An answer of the Responses API."""
    return {"id": "resp_1", "status": "completed", "output": items}


def gemini(*parts: dict[str, Any]) -> dict[str, Any]:
    """An answer of Gemini's."""
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
LEFT = {"type": "text", "text": "Left."}
USE = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
SEARCHED = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}
SAID = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Left"}],
}
ITEM = {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"}

LONE: dict[str, tuple[tuple[str, str], dict[str, Any], dict[str, Any]]] = {
    "chat": (CHAT, ASKED, chat(answer("Left."))),
    "chat, forced": (
        CHAT,
        ASKED
        | {
            "tools": [TOOL, OTHER],
            "tool_choice": {"type": "function", "function": {"name": "read"}},
        },
        chat(calls("call_1")),
    ),
    "chat, required": (
        CHAT,
        ASKED | {"tools": [TOOL], "tool_choice": "required"},
        chat(calls("call_1")),
    ),
    "chat, legacy": (
        CHAT,
        ASKED | {"functions": [TOOL["function"]], "function_call": {"name": "read"}},
        chat(
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "read", "arguments": "{}"},
            }
        ),
    ),
    "messages, search": (MESSAGES, ASKED, message(SEARCH, FOUND, LEFT)),
    "messages, forced": (
        MESSAGES,
        ASKED | {"tool_choice": {"type": "tool", "name": "read"}},
        message(USE),
    ),
    "responses, search": (RESPONSES, {"input": "Which way?"}, response(SEARCHED, SAID)),
    "responses, forced": (
        RESPONSES,
        {"input": "Which way?", "tool_choice": {"type": "function", "name": "read"}},
        response(ITEM),
    ),
    "gemini, code": (
        GEMINI,
        GEMINI_ASKED,
        gemini(
            {"executableCode": {"language": "PYTHON", "code": "1+1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
            {"text": "2"},
        ),
    ),
    "gemini, forced": (
        GEMINI,
        GEMINI_ASKED
        | {
            "toolConfig": {
                "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["read"]}
            }
        },
        gemini({"functionCall": {"name": "read", "args": {}}}),
    ),
}


@pytest.mark.parametrize("case", LONE)
@pytest.mark.parametrize("form", [ConversationForm.RUNS, ConversationForm.LINKS])
def test_a_lone_question_has_no_session(tmp_path: Path, case: str, form: ConversationForm) -> None:
    """Also one that is answered with the provider's own tools, or by a call that was forced."""
    (endpoint, path), asked, said = LONE[case]
    with Agents(tmp_path / "spans.db", SpanRules(conversations=form)) as agents:
        agents.exchange(endpoint, path, {"model": "m-1", **asked}, said)
        [one] = agents.see()
    assert "session.id" not in one.span.attributes
    assert one.columns.session is None
    assert "conversation" not in one.metadata


@pytest.mark.parametrize(
    ("api", "asked", "said"),
    [
        (CHAT, ASKED, chat(calls("call_1"))),
        (CHAT, ASKED | {"tools": [TOOL, OTHER], "tool_choice": "required"}, chat(calls("call_1"))),
        (MESSAGES, ASKED, message(SEARCH, FOUND, USE)),
        (RESPONSES, {"input": "Which way?"}, response(SEARCHED, ITEM)),
        (GEMINI, GEMINI_ASKED, gemini({"functionCall": {"name": "read", "args": {}}})),
    ],
)
def test_a_call_of_the_clients_tools_has_a_session(
    agents: Agents, api: tuple[str, str], asked: dict[str, Any], said: dict[str, Any]
) -> None:
    """An agent comes back with their results; also beside tools of the provider's."""
    first = agents.exchange(*api, {"model": "m-1", **asked}, said)
    [one] = agents.see()
    assert one.span.attributes["session.id"] == f"conv-{first}"


def test_a_forced_call_that_somebody_goes_on_from_gets_its_session_then(agents: Agents) -> None:
    """By a span of a nanosecond in its trace, as any lone question."""
    made = calls("call_1")
    forced = {"type": "function", "function": {"name": "read"}}
    first = agents.call(user("Look"), said=made, tool_choice=forced)
    agents.call(user("Look"), made, result("call_1"), said=answer("There"))
    sessions = [one.span.attributes.get("session.id") for one in agents.see()]
    assert sessions == [None, f"conv-{first}", f"conv-{first}"]
