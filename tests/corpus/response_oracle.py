"""A second fold of Responses, written from ``docs/contract/apis.md#responses``: slow and obvious.

It shares nothing with the codec or the telemetry, so that neither can be wrong alone.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.corpus.oracle import is_stream, parse_json

if TYPE_CHECKING:
    from tests.corpus.recordings import Recording

__all__ = ("expect_span", "fold_response")

_ASKED = {
    "custom_tool_call": "input",
    "file_search_call": "queries",
    "code_interpreter_call": "code",
}
_NAMED = {"function_call", "custom_tool_call", "mcp_call", "mcp_approval_request"}
_LONGEST_IMAGE = 32_000
_LONGEST_OPAQUE = 4_096
_STATUSES = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
_TEXTS = {
    "response.output_text": ("content", "output_text", "text"),
    "response.refusal": ("content", "refusal", "refusal"),
    "response.reasoning_text": ("content", "reasoning_text", "text"),
    "response.reasoning_summary_text": ("summary", "summary_text", "text"),
    "response.function_call_arguments": (None, None, "arguments"),
    "response.mcp_call_arguments": (None, None, "arguments"),
    "response.custom_tool_call_input": (None, None, "input"),
    "response.code_interpreter_call_code": (None, None, "code"),
}


def fold_response(body: bytes) -> dict[str, Any]:
    """What a stream says: its object, whether it is cut, and the first error's message."""
    begun: dict[str, Any] = {}
    ended: dict[str, Any] | None = None
    items: dict[int, dict[str, Any]] = {}
    error = None
    chunks = 0
    for event in _events(body):
        kind = event["type"]
        chunks += kind != "error"
        stem, _, last = kind.rpartition(".")
        if kind == "error":
            error = error or (event.get("error") or event)["message"]
        elif kind == "response.created" and ended is not None:
            begun, items, ended = event["response"], {}, None
        elif kind in {"response.created", "response.in_progress", "response.queued"}:
            told = {name: it for name, it in event["response"].items() if it is not None}
            begun = {**event["response"], **begun, **told}
        elif kind in _STATUSES:
            ended = begun | event["response"]
            ended["output"] = _output(ended.get("output") or [], items)
            if ended.get("error"):
                error = error or ended["error"]["message"]
            items = {}
        elif kind == "response.output_item.added":
            items[_index(event, items)] = {"item": event["item"], "done": False, "texts": {}}
        elif kind == "response.output_item.done":
            items[_index(event, items)] = {"item": event["item"], "done": True, "texts": {}}
        elif stem == "response.shell_call_command":
            commands = items[event["output_index"]].setdefault("commands", {})
            if last == "delta":
                number = event["command_index"]
                commands[number] = commands.get(number, "") + event["delta"]
        elif kind == "response.output_text.annotation.added":
            notes = items[event["output_index"]].setdefault("notes", {})
            notes.setdefault(event["content_index"], []).append(event["annotation"])
        elif stem in _TEXTS and last == "delta":
            texts = items[event["output_index"]]["texts"]
            place = event.get("content_index") or event.get("summary_index") or 0
            key = (_TEXTS[stem], place)
            texts[key] = texts.get(key, "") + event["delta"]
        elif stem in _TEXTS and last == "done":
            texts = items[event["output_index"]]["texts"]
            place = event.get("content_index") or event.get("summary_index") or 0
            texts.setdefault((_TEXTS[stem], place), event[_TEXTS[stem][2]])
    whole = ended
    if ended is None:
        whole = begun | ({"output": _output([], items, every=True)} if items else {})
    return {"body": whole, "cut": ended is None, "error": error, "chunks": chunks}


def _events(body: bytes) -> list[dict[str, Any]]:
    events = []
    for block in re.split(r"(?:\r\n|\n|\r){2,}", body.decode("utf-8", "replace")):
        data = [line[5:].strip() for line in re.split(r"\r\n|\n|\r", block) if line[:5] == "data:"]
        if event := parse_json("\n".join(data)):
            events.append(event)
    return events


def _index(event: dict[str, Any], items: dict[int, Any]) -> int:
    return int(event.get("output_index", max(items, default=-1) + 1))


def _output(told: list[Any], items: dict[int, Any], *, every: bool = False) -> list[Any]:
    """What the last event told; where it told less than came before, that."""
    if len(told) >= len(items) and not every:
        return told
    assert not told  # of the recordings, none is shorter and not empty
    return [
        _item(items[index])
        for index in sorted(items)
        if every or items[index]["done"] or items[index]["texts"]
    ]


def _item(known: dict[str, Any]) -> dict[str, Any]:
    item = dict(known["item"])
    for member in ("content", "summary"):
        if any(place[0] == member for place, _ in known["texts"]):
            item[member] = []
    if known.get("commands"):
        commands = [text for _, text in sorted(known["commands"].items())]
        item["action"] = item["action"] | {"commands": commands}
    for (place, at), text in sorted(known["texts"].items(), key=lambda entry: entry[0][1]):
        member, kind, name = place
        if member is None:
            item[name] = text
        else:
            notes = known.get("notes", {}).get(at)
            item[member].append(
                {"type": kind, name: text} | ({"annotations": notes} if notes else {})
            )
    return item


def _read_plain(recording: Recording) -> dict[str, Any]:
    """The same of an answer that is no stream."""
    body = parse_json(recording.text)
    if not isinstance(body, dict):
        words = recording.text.decode().strip() if recording.status >= 400 else ""
        return {"body": {}, "cut": recording.breaks_off, "error": words or None}
    error = body.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    if message is None and recording.status >= 400:
        message = body.get("detail") or recording.text.decode().strip()  # FastAPI's
    return {"body": body, "cut": False, "error": message}


def _without_images(body: dict[str, Any]) -> dict[str, Any]:
    """The same without pictures that are too long."""
    for item in body.get("output") or []:
        result = item.get("result")
        if isinstance(result, str) and len(result) > _LONGEST_IMAGE:
            item["result"] = f"<{len(result)} base64 characters, image/png>"
    return body


def expect_span(recording: Recording) -> dict[str, Any]:
    """What the span of an exchange must say of the answer, and how the exchange ended."""
    text, streamed = recording.text, is_stream(recording.text)
    fold = fold_response(text) if streamed else _read_plain(recording)
    body = _without_images(fold["body"]) if recording.status < 400 else {}
    asked = parse_json(recording.request) or {}
    output: Any = ""
    if recording.status >= 400:
        outcome = "upstream_error"
    elif fold["error"] or body.get("status") == "failed":
        outcome, output = "stream_error", body
    else:
        cancelled = body.get("status") == "cancelled"
        outcome = "truncated" if fold["cut"] else "cancelled" if cancelled else "completed"
        output = body or ("" if streamed else text.decode(errors="replace"))
    usage = body.get("usage") or {}
    inputs = usage.get("input_tokens_details") or {}
    word = (body.get("incomplete_details") or {}).get("reason") or body.get("status")
    said = {
        "outcome": outcome,
        "status": {"completed": "OK", "cancelled": "UNSET"}.get(outcome, "ERROR"),
        "error": fold["error"],
        "lost": bool(text) and not (streamed or body) and recording.status < 400,
        "llm.model_name": body.get("model") or asked.get("model"),
        "gen_ai.response.id": body.get("id"),
        "llm.finish_reason": None if fold["cut"] else word,
        "llm.token_count.prompt": usage.get("input_tokens"),
        "llm.token_count.completion": usage.get("output_tokens"),
        "llm.token_count.total": usage.get("total_tokens"),
        "llm.token_count.prompt_details.cache_read": inputs.get("cached_tokens"),
        "llm.token_count.prompt_details.cache_write": inputs.get("cache_write_tokens"),
        "llm.token_count.completion_details.reasoning": (
            usage.get("output_tokens_details") or {}
        ).get("reasoning_tokens"),
        "output.value": output,
    }
    for index, item in enumerate(body.get("output") or []):
        prefix = f"llm.output_messages.{index}.message"
        said |= {f"{prefix}.{key}": value for key, value in _message(item).items()}
    return {key: value for key, value in said.items() if value is not None}


def _message(item: dict[str, Any]) -> dict[str, Any]:
    """What the message of an item says, by the table of ``docs/apis.md#responses``."""
    kind, part = item["type"], "contents.0.message_content"
    if kind == "message":
        said = {"role": item["role"]}
        for place, one in enumerate(item["content"]):
            said[f"contents.{place}.message_content.type"] = "text"
            text = one.get("text") or one.get("refusal") or None
            said[f"contents.{place}.message_content.text"] = text
        return said
    said = {"role": "assistant"}
    if kind == "reasoning":
        parts = item.get("summary") or item.get("content") or []
        said[f"{part}.type"] = "reasoning"
        said[f"{part}.text"] = "\n".join(one["text"] for one in parts if one.get("text")) or None
        for name in ("id", "encrypted_content"):
            value = item.get(name) or None
            said[f"{part}.{name}"] = value if len(value or "") <= _LONGEST_OPAQUE else None
    elif kind == "image_generation_call":
        said[f"{part}.type"] = "image"
        data = item.get("result")
        if data and not data.startswith("<"):
            form = item.get("output_format") or "png"
            said[f"{part}.image.image.url"] = f"data:image/{form};base64,{data}"
    elif kind.endswith("_call") or kind == "mcp_approval_request":
        call = "tool_calls.0.tool_call"
        said[f"{call}.id"] = item.get("call_id") or item["id"]
        said[f"{call}.function.name"] = item["name"] if kind in _NAMED else kind
        said[f"{call}.function.arguments"] = _arguments(item) or None
    return said


def _arguments(item: dict[str, Any]) -> str:
    """What the model asked of a tool: as it wrote it, or as JSON."""
    asked = [item.get(name) for name in ("arguments", "action", "operation")]
    value = next((value for value in asked if value is not None), "")
    if not value and (member := _ASKED.get(item["type"])) and item.get(member) is not None:
        value = {member: item[member]}
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
