"""What coding agents keep of what they did: tools with arguments and results, and answers' ids."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from codec.text.jsontext import decode_json, decode_json_object
from tests.run_trees import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from codec.text.jsontext import JsonObject

__all__ = (
    "History",
    "Session",
    "read_claude",
    "read_claude_session",
    "read_cline",
    "read_codex",
    "read_codex_session",
    "read_copilot",
    "read_gemini",
    "read_kimi",
    "read_opencode",
    "read_pi",
    "read_qwen",
)

_CLAUDE = ".claude/projects/*/*.jsonl"
_CODEX = ".codex/sessions/*/*/*/rollout-*.jsonl"
"""Where they keep a session, below the home."""

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


class Session(NamedTuple):
    """What an agent did for several questions, by its own word.

    Attributes:
        id: of the session.
        turns: what it did for each question, in their order.
        failed: the results of tools that failed.
        compactions: how often it compacted its history.
    """

    id: str
    turns: list[History]
    failed: list[str]
    compactions: int


def _read_lines(home: Path, pattern: str) -> Iterator[JsonObject]:
    [path] = home.glob(pattern)
    return map(decode_json_object, path.read_text(encoding="utf-8").splitlines())


def _split(
    lines: Iterable[JsonObject], begins: Callable[[JsonObject], bool]
) -> list[list[JsonObject]]:
    """Put the lines of each question together, without what comes before the first one."""
    turns: list[list[JsonObject]] = []
    for line in lines:
        if begins(line):
            turns.append([])
        if turns:
            turns[-1].append(line)
    return turns


def read_claude(home: Path, _: str) -> History:
    """A session of Claude Code, with the results as they were sent."""
    return _tell_claude(_read_lines(home, _CLAUDE))


def read_claude_session(home: Path) -> Session:
    """A session of Claude Code, in which each process enqueues a question or a command."""
    lines = [*_read_lines(home, _CLAUDE)]
    [session] = {line["sessionId"] for line in lines if "sessionId" in line}
    turns = _split(lines, lambda line: line.get("operation") == "enqueue")
    results = [part for line in lines for part in _find_sent_results(line)]
    return Session(
        session,
        [told for told in map(_tell_claude, turns) if told.answers],
        [part["content"] for part in results if part.get("is_error")],
        sum(line.get("subtype") == "compact_boundary" for line in lines),
    )


def _find_sent_results(line: JsonObject) -> list[JsonObject]:
    content = line["message"]["content"] if line["type"] == "api-request-blob" else None
    parts = content if isinstance(content, list) else []
    return [part for part in parts if part["type"] == "tool_result"]


def _tell_claude(lines: Iterable[JsonObject]) -> History:
    calls: dict[str, JsonObject] = {}
    results: dict[str, str] = {}
    answers: list[str] = []
    for line in lines:
        if line["type"] == "assistant":
            message = line["message"]
            answers.append(message["id"])
            calls |= {part["id"]: part for part in message["content"] if part["type"] == "tool_use"}
        results |= {part["tool_use_id"]: part["content"] for part in _find_sent_results(line)}
    for call in calls.values():
        if call["input"].get("replace_all") is False:  # it fills in what was left out
            del call["input"]["replace_all"]
    tools = [
        Node.of_tool(call["name"], call["input"], results[call_id])
        for call_id, call in calls.items()
    ]
    return History(tools, [*dict.fromkeys(answers)])  # each part has a line


def read_codex(home: Path, _: str) -> History:
    """A rollout of Codex."""
    return _tell_codex([*_read_lines(home, _CODEX)])


def read_codex_session(home: Path) -> Session:
    """A rollout of Codex, in which each question begins a task."""
    lines = [*_read_lines(home, _CODEX)]
    [session] = {line["payload"]["session_id"] for line in lines if line["type"] == "session_meta"}
    # Before what it has compacted stands the count of that call, which answers no question.
    asked = [one for one, after in pairwise(lines) if after["type"] != "compacted"]
    turns = _split([*asked, lines[-1]], lambda line: line["payload"].get("type") == "task_started")
    return Session(
        session,
        [*map(_tell_codex, turns)],
        [output for turn in turns for output in _find_failed(turn)],
        sum(line["type"] == "compacted" for line in lines),
    )


def _find_failed(turn: list[JsonObject]) -> list[str]:
    """Find the results of Codex's tools that failed; each question may count calls anew."""
    told = [line["payload"] for line in turn]
    items = [one["item"] for one in told if one.get("type") == "item_completed"]
    failed = {item["id"] for item in items if item.get("status") == "failed"}
    return [one["output"] for one in told if "output" in one and one.get("call_id") in failed]


def _tell_codex(lines: list[JsonObject]) -> History:
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
