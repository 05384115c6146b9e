"""A second fold of Messages, written from ``docs/contract/apis.md#messages``: slow and obvious.

It shares nothing with the codec or the telemetry, so that neither can be wrong alone.
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

from tests.corpus.oracle import is_stream, parse_json

if TYPE_CHECKING:
    from tests.corpus.recordings import Recording

__all__ = ("expect_count_span", "expect_span", "fold_message")

_LONGEST_OPAQUE = 4_096
_COUNTS = {
    "llm.token_count.prompt_details.cache_read": "cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_write": "cache_creation_input_tokens",
}
_PROMPT = ("input_tokens", *_COUNTS.values())


def fold_message(body: bytes) -> dict[str, Any]:
    """What a stream says: its message, how it ended, the first error's message, its chunks."""
    message: dict[str, Any] = {}
    usage: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    arguments: dict[int, str] = {}
    error, chunks, has_end, has_counts = None, 0, False, False
    for event in read_events(body):
        kind = event.get("type")
        chunks += kind != "error"
        if kind == "error":
            error = error or event["error"]["message"]
        elif kind == "message_start":
            message = copy.deepcopy(event["message"])
            usage = message.pop("usage", None) or {}
            blocks, arguments, has_end, has_counts = {}, {}, False, False
        elif kind == "content_block_start":
            block = blocks[event["index"]] = copy.deepcopy(event["content_block"])
            if block["type"] == "fallback":
                message["model"] = block["to"]["model"]
        elif kind == "content_block_delta":
            block, delta = blocks[event["index"]], event["delta"]
            match delta["type"]:
                case "input_json_delta":
                    before = arguments.get(event["index"], "")
                    arguments[event["index"]] = before + delta["partial_json"]
                case "citations_delta":
                    block["citations"] = [*(block.get("citations") or []), delta["citation"]]
                case "text_delta" | "thinking_delta" | "signature_delta" as name:
                    member = name.removesuffix("_delta")
                    block[member] = (block.get(member) or "") + delta[member]
                case other:
                    raise AssertionError(other)
        elif kind == "message_delta":
            told = dict(event["delta"])
            if "context_management" in event:
                told["context_management"] = event["context_management"]
            for name, value in told.items():
                if value is not None or name not in message:
                    message[name] = value
            counts = event.get("usage") or {}
            has_counts = has_counts or counts.get("output_tokens") is not None
            for name, value in counts.items():
                says_nothing = name in _PROMPT and value == 0 == counts.get("input_tokens")
                if (says_nothing and usage.get(name)) or (value is None and name in usage):
                    continue
                usage[name] = value
        elif kind == "message_stop":
            has_end = True
    for index, text in arguments.items():
        if text:
            value = parse_json(text)
            blocks[index]["input"] = text if value is None else value
    if blocks:
        message["content"] = [blocks[index] for index in sorted(blocks)]
    if usage:
        message["usage"] = usage
    return {
        "body": message,
        "error": error,
        "chunks": chunks,
        "has_end": has_end,
        "has_counts": has_counts,
    }


def read_events(body: bytes) -> list[dict[str, Any]]:
    """The data of the events of a stream that is JSON."""
    events = []
    for block in re.split(r"(?:\r\n|\n|\r){2,}", body.decode("utf-8", "replace")):
        data = [line[5:].strip() for line in re.split(r"\r\n|\n|\r", block) if line[:5] == "data:"]
        if event := parse_json("\n".join(data)):
            events.append(event)
    return events


def _read_plain(recording: Recording) -> dict[str, Any]:
    """The same of an answer that is no stream."""
    body = parse_json(recording.text)
    if isinstance(body, list) and len(body) == 1:  # Google's errors, where a stream was asked for
        [body] = body
    if not isinstance(body, dict):
        words = recording.text.decode().strip() if recording.status >= 400 else ""
        return {"body": {}, "has_end": False, "has_counts": False, "error": words or None}
    error = body.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    if message is None and recording.status >= 400:
        message = recording.text.decode().strip()
    return {"body": body, "has_end": True, "has_counts": True, "error": message}


def _with_compactions(usage: dict[str, Any]) -> dict[str, Any]:
    """The usage with what compactions took, which its counts leave out."""
    whole = dict(usage)
    for step in usage.get("iterations") or []:
        if step["type"] == "compaction":
            for name in (*_PROMPT, "output_tokens"):
                whole[name] = (whole.get(name) or 0) + step[name]
    return whole


def expect_span(recording: Recording) -> dict[str, Any]:
    """What the span of an exchange must say of the answer, and how the exchange ended."""
    text = recording.text
    streamed = recording.status < 400 and is_stream(text)
    fold = fold_message(text) if streamed else _read_plain(recording)
    body = fold["body"] if recording.status < 400 else {}
    asked = parse_json(recording.request) or {}
    output: Any = ""
    if recording.status >= 400:
        outcome = "upstream_error"
    elif fold["error"]:
        outcome, output = "stream_error", body or ""
    else:
        is_whole = fold["has_end"] or bool(body.get("stop_reason"))
        outcome = "completed" if is_whole else "truncated"
        output = body or ("" if streamed else text.decode(errors="replace"))
    usage = _with_compactions(body.get("usage") or {})
    of_path = re.search(r"/models/(.*):", recording.target.decode())
    said = {
        "outcome": outcome,
        "status": "OK" if outcome == "completed" else "ERROR",
        "error": fold["error"],
        "lost": bool(text) and not (streamed or body) and recording.status < 400,
        "llm.model_name": body.get("model")
        or asked.get("model")
        or (of_path.group(1) if of_path else None),
        "gen_ai.response.id": body.get("id"),
        "llm.finish_reason": body.get("stop_reason"),
        **{name: usage.get(member) for name, member in _COUNTS.items()},
        "llm.token_count.completion_details.reasoning": (
            usage.get("output_tokens_details") or {}
        ).get("thinking_tokens"),
        "output.value": output,
    }
    if usage.get("input_tokens") is not None:
        prompt = sum(usage.get(name) or 0 for name in _PROMPT)
        said["llm.token_count.prompt"] = prompt
        if fold["has_counts"]:
            said["llm.token_count.total"] = prompt + usage["output_tokens"]
    if fold["has_counts"]:
        said["llm.token_count.completion"] = usage.get("output_tokens")
    if body.get("role"):
        said["llm.output_messages.0.message.role"] = body["role"]
    parts = "llm.output_messages.0.message.contents"
    calls = "llm.output_messages.0.message.tool_calls"
    place = call_place = 0
    for block in body.get("content") or []:
        part = _part(block)
        if part is None:
            continue
        said |= {f"{parts}.{place}.{key}": value for key, value in part.items()}
        place += 1
        if "tool_call.id" in part:
            called = {key: value for key, value in part.items() if key.startswith("tool_call.")}
            said |= {f"{calls}.{call_place}.{key}": value for key, value in called.items()}
            call_place += 1
    return {key: value for key, value in said.items() if value is not None}


def expect_count_span(recording: Recording) -> dict[str, Any]:
    """What the span of a token count must say: how it ended, and what came.

    See ``docs/contract/apis.md#token-counts``.
    """
    body = parse_json(recording.text)
    error = (body or {}).get("error")
    failed = recording.status >= 400
    broken = recording.breaks_off and body is None
    words = recording.text.decode(errors="replace").strip() if failed else ""
    said = {
        "outcome": "upstream_error" if failed else "truncated" if broken else "completed",
        "status": "ERROR" if failed or broken else "OK",
        "error": error["message"] if error else words or None,
        "lost": broken and not failed and bool(recording.text),
        "output.value": "" if failed else body or recording.text.decode(errors="replace"),
    }
    return {key: value for key, value in said.items() if value is not None}


def _part(block: dict[str, Any]) -> dict[str, Any] | None:
    """What a part says, by the table of ``docs/apis.md#messages``."""
    match block["type"]:
        case "text":
            return {"message_content.type": "text", "message_content.text": block["text"] or None}
        case "compaction":
            return {"message_content.type": "text", "message_content.text": block["content"]}
        case "thinking":
            signature = block.get("signature") or ""
            return {
                "message_content.type": "reasoning",
                "message_content.text": block["thinking"] or None,
                "message_content.signature": signature
                if 0 < len(signature) <= _LONGEST_OPAQUE
                else None,
            }
        case "redacted_thinking":
            data = block["data"]
            return {
                "message_content.type": "reasoning",
                "message_content.data": data if len(data) <= _LONGEST_OPAQUE else None,
            }
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            asked = block["input"]
            written = json.dumps(asked, ensure_ascii=False, separators=(",", ":"))
            return {
                "message_content.type": "tool_use",
                "tool_call.id": block["id"],
                "tool_call.function.name": block["name"],
                "tool_call.function.arguments": asked if isinstance(asked, str) else written,
            }
    return None
