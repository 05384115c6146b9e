"""The player of Responses: an answer's items as OpenAI streams them.

See ``docs/contract/apis.md#responses-stream``. Each item is added, grows by deltas and is done; the
last event repeats the whole response. Items come in this order: reasoning, a message or its
refusal, calls. An image is made if the request offers the tool for it. An answer that was cut is
``incomplete``; one that failed is ``failed``, with an error.
"""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from codec.apis.faults import build_error
from codec.dialects import play_error
from codec.text.jsontext import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.apis.player import Player, Script
    from codec.asked import Asked
    from codec.dialects import Dialect
    from codec.generator import Delta

__all__ = ("PLAYER",)

_PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
"""An image of one dot."""

_FAILURE = {"code": "server_error", "message": "The demo model was asked to fail, and did."}
_KINDS = ("reasoning", "refusal", "content", "call")
_Event = tuple[str, JsonObject]


class _ResponsesPlayer:
    """Speaks Responses."""

    def find_fault(self, body: JsonObject) -> JsonObject | None:
        """The error body for the first thing wrong with a request, ``None`` for a good one."""
        if not isinstance(body.get("model"), str):
            return build_error("you must provide a model parameter")
        given = body.get("input")
        is_list = isinstance(given, list) and all(isinstance(item, dict) for item in given)
        if not (isinstance(given, str) or is_list):
            message = "Invalid 'input': expected a string or an array of objects."
            return build_error(message, param="input", code="invalid_type")
        tools = body.get("tools") or []
        if not (isinstance(tools, list) and all(map(_is_tool, tools))):
            message = "Invalid 'tools': expected an array of tools, each with a type."
            return build_error(message, param="tools", code="invalid_type")
        most = body.get("max_output_tokens")
        if most is not None and (type(most) is not int or most < 1):
            message = "Invalid 'max_output_tokens': expected a positive integer."
            return build_error(message, param="max_output_tokens", code="invalid_value")
        return None

    def write_error(self, error: JsonObject, dialect: Dialect) -> bytes:
        """Write the body of an error, in a dialect."""
        return play_error(dialect, error)

    def play(self, asked: Asked, script: Script, _: Dialect) -> _Performance:
        """Begin an answer."""
        return _Performance(asked, script)


PLAYER: Final[Player] = _ResponsesPlayer()


class _Performance:
    """Plays one answer."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, asked: Asked, script: Script) -> None:
        self._script = script
        self._tools = {tool.name: tool for tool in asked.read_tools() if tool.name}
        self._makes_image = any(tool.type == "image_generation" for tool in asked.read_tools())
        self._compacts = asked.path.endswith("/compact")
        self._is_compaction_asked = _ends_with_trigger(asked.body.get("input"))
        self._output: list[JsonObject] = []
        body = asked.body
        self._response: JsonObject = {
            "id": f"resp_{script.answer_id}",
            "object": "response",
            "created_at": script.created,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "model": asked.model,
            "output": self._output,
            "parallel_tool_calls": body.get("parallel_tool_calls", True),
            "previous_response_id": body.get("previous_response_id"),
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "store": body.get("store", True),
            "temperature": body.get("temperature", 1.0),
            "text": body.get("text") or {"format": {"type": "text"}},
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": body.get("tools") or [],
            "top_p": body.get("top_p", 1.0),
            "truncation": "disabled",
            "usage": None,
            "user": None,
            "metadata": body.get("metadata") or {},
        }

    def whole(self) -> bytes:
        """The body of the plain answer."""
        for _ in self._events():
            pass
        answer = self._compact() if self._compacts else self._response
        return json.dumps(answer, ensure_ascii=False).encode()

    def _compact(self) -> JsonObject:
        """Compact the conversation to one item that nobody can read."""
        members = {name: self._response[name] for name in ("id", "created_at", "usage")}
        item = {"id": f"cmp_{self._script.answer_id[:24]}", "type": "compaction"}
        output = [item | {"encrypted_content": _encrypt(self._output)}]
        return members | {"object": "response.compaction", "output": output}

    def stream(self) -> Iterator[Sequence[bytes]]:
        """The events, those of one delta by themselves."""
        for number, (kind, members) in enumerate(self._events()):
            event = {"type": kind, "sequence_number": number, **members}
            data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
            yield [f"event: {kind}\ndata: {data}\n\n".encode()]

    def _events(self) -> Iterator[_Event]:
        yield "response.created", {"response": self._snapshot()}
        yield "response.in_progress", {"response": self._snapshot()}
        if self._makes_image:
            yield from self._image()
        [answer] = self._script.answers
        if self._is_compaction_asked:
            yield from self._compaction([delta.content for delta in answer.deltas])
            yield self._end("stop")
            return
        for (kind, _), deltas in groupby(answer.deltas, key=_item_of):
            texts = [*deltas]  # a group is read once
            if kind == "call":
                yield from self._call(texts)
            elif kind == "reasoning":
                yield from self._reasoning([delta.reasoning or "" for delta in texts])
            else:
                yield from self._message(kind, [getattr(delta, kind) for delta in texts])
        yield self._end(answer.finish_reason)

    def _snapshot(self) -> JsonObject:
        return self._response | {"output": [dict(item) for item in self._output]}

    def _end(self, finish_reason: str | None) -> _Event:
        script, [answer] = self._script, self._script.answers
        thought = sum(delta.tokens for delta in answer.deltas if delta.reasoning is not None)
        said = sum(delta.tokens for delta in answer.deltas)
        status = {"length": "incomplete", "error": "failed"}.get(finish_reason or "", "completed")
        self._response["status"] = status
        self._response["usage"] = {
            "input_tokens": script.prompt_tokens,
            "input_tokens_details": {"cached_tokens": script.cached_tokens},
            "output_tokens": said,
            "output_tokens_details": {"reasoning_tokens": thought},
            "total_tokens": script.prompt_tokens + said,
        }
        if status == "incomplete":
            self._response["incomplete_details"] = {"reason": "max_output_tokens"}
        if status == "failed":
            self._response["error"] = _FAILURE
        return f"response.{status}", {"response": self._snapshot()}

    def _item(
        self, prefix: str, kind: str, **members: Any
    ) -> tuple[JsonObject, JsonObject, JsonObject]:
        """Begin an item. Return it, its index, and its index with its id: events name either."""
        item_id = f"{prefix}_{self._script.answer_id[:24]}{len(self._output)}"
        item: JsonObject = {"id": item_id, "type": kind, **members}
        self._output.append(item)
        index = {"output_index": len(self._output) - 1}
        return item, index, {"item_id": item_id} | index

    def _compaction(self, summary: Any) -> Iterator[_Event]:
        item, index, _ = self._item("cmp", "compaction", encrypted_content=_encrypt(summary))
        yield "response.output_item.added", index | {"item": dict(item)}
        yield "response.output_item.done", index | {"item": dict(item)}

    def _message(self, kind: str, texts: Sequence[str]) -> Iterator[_Event]:
        type_, member, name = {
            "content": ("output_text", "text", "output_text"),
            "refusal": ("refusal", "refusal", "refusal"),
        }[kind]
        extra: JsonObject = {"annotations": [], "logprobs": []} if kind == "content" else {}
        part: JsonObject = {"type": type_, member: "", **extra}
        item, index, own = self._item(
            "msg", "message", status="in_progress", role="assistant", content=[]
        )
        place = own | {"content_index": 0}
        yield "response.output_item.added", index | {"item": dict(item)}
        yield "response.content_part.added", place | {"part": dict(part)}
        logprobs: JsonObject = {"logprobs": []} if kind == "content" else {}
        for text in texts:
            yield f"response.{name}.delta", place | {"delta": text} | logprobs
        part[member] = "".join(texts)
        item |= {"status": "completed", "content": [part]}
        yield f"response.{name}.done", place | {member: part[member]} | logprobs
        yield "response.content_part.done", place | {"part": part}
        yield "response.output_item.done", index | {"item": dict(item)}

    def _reasoning(self, texts: Sequence[str]) -> Iterator[_Event]:
        item, index, own = self._item("rs", "reasoning", summary=[])
        place = own | {"summary_index": 0}
        part: JsonObject = {"type": "summary_text", "text": ""}
        yield "response.output_item.added", index | {"item": dict(item)}
        yield "response.reasoning_summary_part.added", place | {"part": dict(part)}
        for text in texts:
            yield "response.reasoning_summary_text.delta", place | {"delta": text}
        part["text"] = "".join(texts)
        item["summary"] = [part]
        yield "response.reasoning_summary_text.done", place | {"text": part["text"]}
        yield "response.reasoning_summary_part.done", place | {"part": part}
        yield "response.output_item.done", index | {"item": dict(item)}

    def _call(self, deltas: Sequence[Delta]) -> Iterator[_Event]:
        fragments = [delta.call for delta in deltas if delta.call is not None]
        name = fragments[0].name or ""
        tool = self._tools.get(name)
        is_custom = tool is not None and tool.type == "custom"
        prefix, type_, member, event = (
            ("ctc", "custom_tool_call", "input", "custom_tool_call_input")
            if is_custom
            else ("fc", "function_call", "arguments", "function_call_arguments")
        )
        said = {member: "", "call_id": fragments[0].id, "name": name}
        if tool is not None and tool.namespace is not None:
            said["namespace"] = tool.namespace
        item, index, own = self._item(prefix, type_, status="in_progress", **said)
        yield "response.output_item.added", index | {"item": dict(item)}
        for fragment in fragments[1:]:
            yield f"response.{event}.delta", own | {"delta": fragment.arguments}
        item |= {"status": "completed", member: "".join(f.arguments for f in fragments)}
        yield f"response.{event}.done", own | {member: item[member]}
        yield "response.output_item.done", index | {"item": dict(item)}

    def _image(self) -> Iterator[_Event]:
        item, index, own = self._item(
            "ig", "image_generation_call", status="in_progress", result=None
        )
        yield "response.output_item.added", index | {"item": dict(item)}
        for step in ("in_progress", "generating"):
            yield f"response.image_generation_call.{step}", own
        partial = {"partial_image_b64": _PNG, "partial_image_index": 0, "output_format": "png"}
        yield "response.image_generation_call.partial_image", own | partial
        item |= {"status": "completed", "result": _PNG, "output_format": "png"}
        yield "response.image_generation_call.completed", own
        yield "response.output_item.done", index | {"item": dict(item)}


def _item_of(delta: Delta) -> tuple[str, int]:
    """Find the item that a delta belongs to: its kind, and the number of its call."""
    kind = next((kind for kind in _KINDS if getattr(delta, kind) is not None), "content")
    return kind, delta.call.index if delta.call is not None else 0


def _ends_with_trigger(items: Any) -> bool:
    """Tell whether an input ends with the item that asks for a compaction, as Codex's does."""
    last = items[-1] if isinstance(items, list) and items else None
    return isinstance(last, dict) and last.get("type") == "compaction_trigger"


def _encrypt(value: Any) -> str:
    """Encode a value as content that clients cannot read, but send back."""
    return b64encode(json.dumps(value).encode()).decode()


def _is_tool(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("type"), str)
