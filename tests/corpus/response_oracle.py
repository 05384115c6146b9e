"""A second fold of Responses, written from ``apis.md`` 2.2 and 2.3: slow and obvious.

It shares nothing with the codec, so that neither can be wrong alone.
"""

from __future__ import annotations

import re
from typing import Any

from tests.corpus.oracle import parse_json

__all__ = ("fold_response", "list_messages")

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
            begun, items = event["response"], {}
        elif kind in {"response.created", "response.in_progress", "response.queued"}:
            begun = event["response"]
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
    for (place, _), text in sorted(known["texts"].items(), key=lambda entry: entry[0][1]):
        member, kind, name = place
        if member is None:
            item[name] = text
        else:
            item[member].append({"type": kind, name: text})
    return item


def list_messages(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Role, texts, reasoning and calls of each item, by the table of ``apis.md`` 2.3."""
    return [_message(item) for item in items]


def _message(item: dict[str, Any]) -> dict[str, Any]:
    kind = item["type"]
    if kind == "message":
        texts = [part.get("text") or part.get("refusal") or "" for part in item["content"]]
        return {"role": item["role"], "texts": texts}
    if kind == "reasoning":
        parts = item.get("summary") or item.get("content") or []
        text = "\n".join(part["text"] for part in parts if part.get("text"))
        encrypted = item.get("encrypted_content")
        return {"role": "assistant", "reasoning": [text or None, encrypted or None]}
    if kind == "image_generation_call":
        return {"role": "assistant", "images": 1}
    if kind in {"mcp_call", "mcp_approval_request"}:
        return {"role": "assistant", "call": [item["id"], item["name"]]}
    if kind.endswith("_call"):
        name = item["name"] if kind in {"function_call", "custom_tool_call"} else kind
        call_id = item.get("call_id") or item["id"]
        if kind == "function_call":
            return {"role": "assistant", "call": [call_id, name, item["arguments"]]}
        return {"role": "assistant", "call": [call_id, name]}
    return {"role": "assistant"}
