"""Runs of every API that has conversations: two tools at once, their results, the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from telemetry.conversations.run import derive_span_id
from tests.telemetry.conversations.agents import Agents

if TYPE_CHECKING:
    from pathlib import Path

ARGUMENTS = {"city": "Lisbon"}
TEXT = '{"city":"Lisbon"}'


class Told(NamedTuple):
    """An API's run.

    Attributes:
        exchanges: request and answer of each call.
        ids: of the calls of tools, as the answer has them.
    """

    endpoint: str
    path: str
    exchanges: tuple[tuple[dict[str, Any], dict[str, Any]], ...]
    ids: tuple[str | None, ...]


def use(call_id: str) -> dict[str, Any]:
    """A call of a tool, as Anthropic has it."""
    return {"type": "tool_use", "id": call_id, "name": "look", "input": ARGUMENTS}


USES = [use("toolu_a"), use("toolu_b")]
FAILED = {"type": "tool_result", "tool_use_id": "toolu_b", "content": "no", "is_error": True}
MESSAGES = Told(
    "messages",
    "/v1/messages",
    (
        (
            {"messages": [{"role": "user", "content": "Look"}]},
            {"type": "message", "role": "assistant", "content": USES, "stop_reason": "tool_use"},
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": "Look"},
                    {"role": "assistant", "content": USES},
                    {
                        "role": "user",
                        "content": [
                            {"type": "tool_result", "tool_use_id": "toolu_a", "content": "sun"},
                            FAILED,
                        ],
                    },
                ]
            },
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "text", "text": "Sun"}],
                "stop_reason": "end_turn",
            },
        ),
    ),
    ("toolu_a", "toolu_b"),
)


def call_item(call_id: str) -> dict[str, Any]:
    """A call of a tool, as the Responses API has it."""
    return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": TEXT}


def output_item(call_id: str, text: str) -> dict[str, Any]:
    """Its result."""
    return {"type": "function_call_output", "call_id": call_id, "output": text}


SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sun"}]}
RESPONSES = Told(
    "responses",
    "/v1/responses",
    (
        (
            {"input": "Look"},
            {"id": "resp_1", "status": "completed", "output": [call_item("a"), call_item("b")]},
        ),
        (
            {
                "previous_response_id": "resp_1",
                "input": [output_item("a", "sun"), output_item("b", "no")],
            },
            {"id": "resp_2", "status": "completed", "output": [SAID]},
        ),
    ),
    ("a", "b"),
)
INTERLEAVED = Told(  # as Codex sends a history
    "responses",
    "/v1/responses",
    (
        RESPONSES.exchanges[0],
        (
            {
                "input": [
                    {"role": "user", "content": "Look"},
                    call_item("a"),
                    output_item("a", "sun"),
                    call_item("b"),
                    output_item("b", "no"),
                ]
            },
            {"id": "resp_2", "status": "completed", "output": [SAID]},
        ),
    ),
    ("a", "b"),
)


def called(name: str = "look") -> dict[str, Any]:
    """A call of a tool, as Gemini has it: without an id."""
    return {"functionCall": {"name": name, "args": ARGUMENTS}}


def answered(text: str) -> dict[str, Any]:
    """Its result, in the place of the call."""
    return {"functionResponse": {"name": "look", "response": {"output": text}}}


ASKED = {"role": "user", "parts": [{"text": "Look"}]}
GEMINI = Told(
    "gemini.generate",
    "/v1beta/models/gemini-3:generateContent",
    (
        (
            {"contents": [ASKED]},
            {
                "candidates": [
                    {
                        "content": {"role": "model", "parts": [called(), called()]},
                        "finishReason": "STOP",
                    }
                ]
            },
        ),
        (
            {
                "contents": [
                    ASKED,
                    {"role": "model", "parts": [called(), called()]},
                    {"role": "user", "parts": [answered("sun"), answered("no")]},
                ]
            },
            {
                "candidates": [
                    {
                        "content": {"role": "model", "parts": [{"text": "Sun"}]},
                        "finishReason": "STOP",
                    }
                ]
            },
        ),
    ),
    (None, None),
)
CALLS = [{"function": {"name": "look", "arguments": ARGUMENTS}}] * 2
OLLAMA = Told(
    "ollama.chat",
    "/api/chat",
    (
        (
            {"stream": False, "messages": [{"role": "user", "content": "Look"}]},
            {
                "message": {"role": "assistant", "content": "", "tool_calls": CALLS},
                "done": True,
                "done_reason": "stop",
            },
        ),
        (
            {
                "stream": False,
                "messages": [
                    {"role": "user", "content": "Look"},
                    {"role": "assistant", "content": "", "tool_calls": CALLS},
                    {"role": "tool", "tool_name": "look", "content": "sun"},
                    {"role": "tool", "tool_name": "look", "content": "no"},
                ],
            },
            {
                "message": {"role": "assistant", "content": "Sun"},
                "done": True,
                "done_reason": "stop",
            },
        ),
    ),
    (None, None),
)


@pytest.mark.parametrize(
    "told",
    [MESSAGES, RESPONSES, INTERLEAVED, GEMINI, OLLAMA],
    ids=["messages", "responses", "interleaved", "gemini", "ollama"],
)
def test_a_run_of_an_api(tmp_path: Path, told: Told) -> None:
    """One trace: an agent, two calls, two tools with arguments and results."""
    with Agents(tmp_path / "spans.db") as agents:
        first, second = [
            agents.exchange(told.endpoint, told.path, {"model": "m-1", **asked}, said)
            for asked, said in told.exchanges
        ]
        seen = agents.see()
        [agent], tools = agents.see_kind("AGENT"), agents.see_kind("TOOL")
    assert agent.span.span_id == derive_span_id(first, "run")
    assert len({one.span.trace_id for one in seen}) == 1
    parents = {one.span.span_id: one.span.parent_span_id for one in seen}
    assert parents[first] == parents[second] == agent.span.span_id
    assert (agent.metadata["ended_by"], agent.metadata["tools"]) == ("answer", 2)
    assert agent.span.attributes["input.value"] == "Look"
    assert agent.span.attributes["output.value"] == "Sun"
    assert [one.span.name for one in tools] == ["look", "look"]
    assert [one.span.attributes.get("tool_call.id") for one in tools] == [*told.ids]
    for one, text in zip(tools, ("sun", "no"), strict=True):
        assert text in one.span.attributes["output.value"]
        assert one.span.attributes["input.value"].replace(" ", "") == TEXT
    statuses = [one.span.status for one in tools]
    assert statuses == ["OK", "ERROR" if told is MESSAGES else "OK"]
