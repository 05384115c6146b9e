"""What coding agents keep of what they did: tools with arguments and results, and answers' ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from codec.text.jsontext import decode_json, decode_json_object
from tests.run_trees import Node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codec.text.jsontext import JsonObject

__all__ = (
    "History",
    "read_claude",
    "read_cline",
    "read_codex",
    "read_copilot",
    "read_gemini",
    "read_kimi",
    "read_opencode",
    "read_pi",
    "read_qwen",
)

_COPILOT = ("tool.execution_start", "tool.execution_complete", "assistant.message")
"""Events of Copilot CLI: a tool begins, a tool ends, an answer."""


class History(NamedTuple):
    """What an agent did, by its own word.

    Attributes:
        tools: in their order.
        answers: the ids of all answers that are of use to it; none where it keeps none.
    """

    tools: list[Node]
    answers: list[str]


def _read_lines(home: Path, pattern: str) -> Iterator[JsonObject]:
    [path] = home.glob(pattern)
    return map(decode_json_object, path.read_text(encoding="utf-8").splitlines())


def read_claude(home: Path, _: str) -> History:
    """A session of Claude Code, with the results as they were sent."""
    calls: dict[str, JsonObject] = {}
    results: dict[str, str] = {}
    answers: list[str] = []
    for line in _read_lines(home, ".claude/projects/*/*.jsonl"):
        message = line.get("message", {})
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        if line["type"] == "assistant":
            answers.append(message["id"])
            calls |= {part["id"]: part for part in parts if part["type"] == "tool_use"}
        elif line["type"] == "api-request-blob":
            told = [part for part in parts if part["type"] == "tool_result"]
            results |= {part["tool_use_id"]: part["content"] for part in told}
    for call in calls.values():
        if call["input"].get("replace_all") is False:  # it fills in what was left out
            del call["input"]["replace_all"]
    tools = [
        Node.of_tool(call["name"], call["input"], results[call_id])
        for call_id, call in calls.items()
    ]
    return History(tools, answers)


def read_codex(home: Path, _: str) -> History:
    """A rollout of Codex."""
    lines = [*_read_lines(home, ".codex/sessions/*/*/*/rollout-*.jsonl")]
    items = [line["payload"] for line in lines if line["type"] == "response_item"]
    calls = [item for item in items if item["type"] in {"function_call", "custom_tool_call"}]
    results = {item["call_id"]: item["output"] for item in items if "output" in item}
    tools = []
    for call in calls:
        result, text = results[call["call_id"]], call.get("input")
        if not isinstance(result, str):
            result = msgspec.json.encode(result).decode()
        arguments = decode_json(call["arguments"]) if text is None else {"input": text}
        tools.append(Node.of_tool(call["name"], arguments, result))
    counted = [line["payload"] for line in lines if line["type"] == "token_usage_record"]
    return History(tools, [record["response_id"] for record in counted])


def read_gemini(home: Path, _: str) -> History:
    """A chat of gemini-cli, which is written anew as it goes on, without the answers' ids."""
    calls: dict[str, JsonObject] = {}
    for line in _read_lines(home, ".gemini/tmp/*/chats/session-*.jsonl"):
        calls |= {call["id"]: call for call in line.get("toolCalls", ())}
    tools = []
    for call in calls.values():
        [result] = call["result"]
        told = msgspec.json.encode(result["functionResponse"]["response"]).decode()
        tools.append(Node.of_tool(call["name"], call["args"], told))
    return History(tools, [])


def read_opencode(_: Path, printed: str) -> History:
    """What opencode prints, without the answers' ids."""
    events = [*map(decode_json_object, printed.splitlines())]
    used = [event["part"] for event in events if event["type"] == "tool_use"]
    tools = [
        Node.of_tool(part["tool"], part["state"]["input"], part["state"]["output"]) for part in used
    ]
    return History(tools, [])


def read_qwen(_: Path, printed: str) -> History:
    """What qwen-code prints, without the answers' ids."""
    events = decode_json(printed)
    parts = [part for event in events for part in event.get("message", {}).get("content", ())]
    results = {
        part["tool_use_id"]: part["content"] for part in parts if part["type"] == "tool_result"
    }
    calls = [part for part in parts if part["type"] == "tool_use"]
    return History(
        [Node.of_tool(call["name"], call["input"], results[call["id"]]) for call in calls], []
    )


def read_copilot(home: Path, _: str) -> History:
    """A session of Copilot CLI."""
    lines = [*_read_lines(home, ".copilot/session-state/*/events.jsonl")]
    told = {kind: [line["data"] for line in lines if line["type"] == kind] for kind in _COPILOT}
    begun, ended, answers = (told[kind] for kind in _COPILOT)
    results = {data["toolCallId"]: data["result"]["content"] for data in ended}
    tools = [
        Node.of_tool(data["toolName"], data["arguments"], results[data["toolCallId"]])
        for data in begun
    ]
    return History(tools, [data["apiCallId"] for data in answers])


def read_kimi(home: Path, _: str) -> History:
    """A session of kimi-code, whose results may have a note behind them."""
    lines = _read_lines(home, ".kimi-code/sessions/*/*/agents/main/wire.jsonl")
    events = [line["event"] for line in lines if line["type"] == "context.append_loop_event"]
    told = {
        event["toolCallId"]: event["result"] for event in events if event["type"] == "tool.result"
    }
    results = {
        call: "\n".join(result[name] for name in ("output", "note") if name in result)
        for call, result in told.items()
    }
    tools = [
        Node.of_tool(event["name"], event["args"], results[event["toolCallId"]])
        for event in events
        if event["type"] == "tool.call"
    ]
    return History(tools, [event["messageId"] for event in events if event["type"] == "step.end"])


def read_pi(home: Path, _: str) -> History:
    """A session of pi."""
    lines = [*_read_lines(home, ".pi/agent/sessions/*/*.jsonl")]
    messages = [line["message"] for line in lines if line["type"] == "message"]
    results = {
        message["toolCallId"]: "".join(part["text"] for part in message["content"])
        for message in messages
        if message["role"] == "toolResult"
    }
    answers = [message for message in messages if message["role"] == "assistant"]
    calls = [
        part for message in answers for part in message["content"] if part["type"] == "toolCall"
    ]
    tools = [Node.of_tool(call["name"], call["arguments"], results[call["id"]]) for call in calls]
    return History(tools, [message["responseId"] for message in answers])


def read_cline(_: Path, printed: str) -> History:
    """What cline prints, without the answers' ids."""
    events = [line.get("event", {}) for line in map(decode_json_object, printed.splitlines())]
    tools = [event for event in events if event.get("contentType") == "tool"]
    results = {event["toolCallId"]: event["output"] for event in tools if "output" in event}
    return History(
        [
            Node.of_tool(
                event["toolName"],
                event["input"],
                msgspec.json.encode(results[event["toolCallId"]]).decode(),
            )
            for event in tools
            if "input" in event
        ],
        [],
    )
