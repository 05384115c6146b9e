"""The player of Messages: an answer's blocks as Anthropic streams them.

See ``docs/contract/apis.md#messages-stream``. Each block begins, grows by deltas and stops.
Thinking comes first, then text, then calls. A refusal is text. The counts come with the reason to
end. An answer that failed ends with an error event, and without the event that ends a message.
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from codec.text.jsontext import decode_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.apis.player import Player, Script
    from codec.asked import Asked
    from codec.dialects import Dialect
    from codec.generator import Delta
    from codec.text.jsontext import JsonObject

__all__ = ("PLAYER",)

_STOPS: Final = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_ERRORS: Final = {"requests": "rate_limit_error"}
_SIGNATURE: Final = "RGVtbyB0aG91Z2h0cywgc2lnbmVkIGJ5IG5vYm9keS4="


class _MessagesPlayer:
    """Speaks Messages."""

    def find_fault(self, body: JsonObject) -> JsonObject | None:
        """The first thing wrong with a request, ``None`` for a good one."""
        if not isinstance(body.get("model"), str):
            return _invalid("model: Field required")
        if type(body.get("max_tokens")) is not int or body["max_tokens"] < 1:
            return _invalid("max_tokens: Field required")
        messages = body.get("messages")
        if not (isinstance(messages, list) and messages and all(map(_is_message, messages))):
            return _invalid("messages: Input should be a valid list of messages")
        tools = body.get("tools") or []
        if not (isinstance(tools, list) and all(map(_is_tool, tools))):
            return _invalid("tools: Input should be a valid list of tools")
        return None

    def write_error(self, error: JsonObject, dialect: Dialect) -> bytes:  # noqa: ARG002
        """Write the body of an error."""
        return _dump(_shape_error(error)).encode()

    def play(self, asked: Asked, script: Script, _: Dialect) -> _Performance:
        """Begin an answer."""
        return _Performance(asked, script)


PLAYER: Final[Player] = _MessagesPlayer()


class _Performance:
    """Plays one answer."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, asked: Asked, script: Script) -> None:
        self._script = script
        self._content: list[JsonObject] = []
        self._message: JsonObject = {
            "id": f"msg_{script.answer_id[:24]}",
            "type": "message",
            "role": "assistant",
            "model": asked.model,
            "content": self._content,
            "stop_reason": None,
            "stop_sequence": None,
        }
        self._counts: JsonObject = {
            "input_tokens": max(script.prompt_tokens - script.cached_tokens, 0),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": script.cached_tokens,
            "service_tier": "standard",
        }

    def whole(self) -> bytes:
        """The body of the plain answer."""
        [answer] = self._script.answers
        for _ in self._blocks():
            pass
        if answer.finish_reason == "error":
            return _dump(_shape_error({"message": _FAILURE})).encode()
        said = {"stop_reason": _stop(answer.finish_reason), "usage": self._count()}
        return _dump(self._message | said).encode()

    def stream(self) -> Iterator[Sequence[bytes]]:
        """The events, those of one delta by themselves."""
        [answer] = self._script.answers
        begun = self._message | {"content": [], "usage": self._counts | {"output_tokens": 1}}
        yield [_event({"type": "message_start", "message": begun}), _event({"type": "ping"})]
        for event in self._blocks():
            yield [_event(event)]
        if answer.finish_reason == "error":
            yield [_event(_shape_error({"message": _FAILURE}))]
            return
        delta = {"stop_reason": _stop(answer.finish_reason), "stop_sequence": None}
        yield [
            _event({"type": "message_delta", "delta": delta, "usage": self._count()}),
            _event({"type": "message_stop"}),
        ]

    def _count(self) -> JsonObject:
        [answer] = self._script.answers
        thought = sum(delta.tokens for delta in answer.deltas if delta.reasoning is not None)
        counts: JsonObject = {"output_tokens": sum(delta.tokens for delta in answer.deltas)}
        if thought:
            counts["output_tokens_details"] = {"thinking_tokens": thought}
        return self._counts | counts

    def _blocks(self) -> Iterator[JsonObject]:
        [answer] = self._script.answers
        for (kind, _), group in groupby(answer.deltas, key=_block_of):
            deltas = [*group]  # a group is read once
            index = len(self._content)
            begun, pieces, whole = _BLOCKS[kind](deltas)
            self._content.append(whole)
            yield {"type": "content_block_start", "index": index, "content_block": begun}
            for piece in pieces:
                yield {"type": "content_block_delta", "index": index, "delta": piece}
            yield {"type": "content_block_stop", "index": index}


_FAILURE: Final = "The demo model was asked to fail, and did."

_Block = tuple["JsonObject", list["JsonObject"], "JsonObject"]
"""A block: its beginning, its deltas, and the whole."""


def _text(deltas: Sequence[Delta]) -> _Block:
    pieces = [delta.content or delta.refusal or "" for delta in deltas]
    block = {"type": "text", "text": ""}
    return (
        block,
        [{"type": "text_delta", "text": one} for one in pieces],
        block | {"text": "".join(pieces)},
    )


def _thinking(deltas: Sequence[Delta]) -> _Block:
    pieces = [delta.reasoning or "" for delta in deltas]
    block = {"type": "thinking", "thinking": "", "signature": ""}
    steps = [{"type": "thinking_delta", "thinking": one} for one in pieces]
    steps.append({"type": "signature_delta", "signature": _SIGNATURE})
    return block, steps, block | {"thinking": "".join(pieces), "signature": _SIGNATURE}


def _call(deltas: Sequence[Delta]) -> _Block:
    fragments = [delta.call for delta in deltas if delta.call is not None]
    pieces = [one.arguments for one in fragments]
    first = fragments[0]
    block: JsonObject = {"type": "tool_use", "id": first.id, "name": first.name, "input": {}}
    steps: list[JsonObject] = [{"type": "input_json_delta", "partial_json": one} for one in pieces]
    try:
        asked = decode_json("".join(pieces) or "{}")
    except ValueError:  # the answer was cut
        asked = {}
    return block, steps, block | {"input": asked}


_BLOCKS: Final = {"reasoning": _thinking, "call": _call, "text": _text}


def _block_of(delta: Delta) -> tuple[str, int]:
    """Find the block that a delta belongs to: its kind, and the number of its call."""
    if delta.call is not None:
        return "call", delta.call.index
    return ("reasoning" if delta.reasoning is not None else "text"), 0


def _stop(reason: str | None) -> str | None:
    return _STOPS.get(reason or "", reason)


def _event(value: JsonObject) -> bytes:
    return f"event: {value['type']}\ndata: {_dump(value)}\n\n".encode()


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _invalid(message: str) -> JsonObject:
    return {"error": {"type": "invalid_request_error", "message": message}}


def _shape_error(error: JsonObject) -> JsonObject:
    kind = error.get("type") or "api_error"
    shaped = {"type": _ERRORS.get(kind, kind), "message": error.get("message")}
    return {"type": "error", "error": shaped}


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("content"), str | list)


def _is_tool(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name") or value.get("type"), str)
