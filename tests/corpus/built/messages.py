"""Answers of Messages that nobody recorded (``docs/contract/apis.md#messages``)."""

from __future__ import annotations

from typing import Any

from tests.corpus.built.wire import Built, write_events

__all__ = ("MESSAGES",)

_USAGE = {
    "input_tokens": 5,
    "cache_read_input_tokens": 40,
    "cache_creation_input_tokens": 2,
    "output_tokens": 1,
}
_MESSAGE: dict[str, Any] = {
    "id": "msg-1",
    "type": "message",
    "role": "assistant",
    "model": "claude-m-1",
    "content": [],
    "stop_reason": None,
    "usage": _USAGE,
}
_START = {"type": "message_start", "message": _MESSAGE}
_STOP = {"type": "message_stop"}


def _block(index: int, block: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _delta(reason: str | None, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def _text(*pieces: str, index: int = 0) -> list[dict[str, Any]]:
    deltas = ({"type": "text_delta", "text": piece} for piece in pieces)
    return _block(index, {"type": "text", "text": ""}, *deltas)


_PING = {"type": "ping"}
_OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
_THINKING = _block(
    0,
    {"type": "thinking", "thinking": ""},
    {"type": "thinking_delta", "thinking": "Hm — "},
    {"type": "thinking_delta", "thinking": "well 🌊"},
    {"type": "signature_delta", "signature": "c2ln"},
    {"type": "signature_delta", "signature": "bmVk"},
)
_TOOLS = [
    *_block(
        2,
        {"type": "tool_use", "id": "t-1", "name": "f", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"city": "Łó'},
        {"type": "input_json_delta", "partial_json": 'dź", "n": 1.50}'},
    ),
    *_block(3, {"type": "tool_use", "id": "t-2", "name": "g", "input": {}}),
]
_WHOLE = [
    *(_PING, *_THINKING, *_text("It is", " so.", index=1), *_TOOLS),
    *(_delta("tool_use", output_tokens=30), _STOP),
]


def _stream(*events: dict[str, Any]) -> Built:
    return Built(write_events(_START, *events), {"stream": True})


_MODEL = "/v1/projects/p/locations/us-east5/publishers/anthropic/models/claude-m@20260101"
_ASKED = {"model": None, "anthropic_version": "vertex-2023-10-16"}
_TURNED_AWAY = {"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}}


def _on_vertex(body: Any, method: str = "streamRawPredict", status: int = 200) -> Built:
    """A call of Vertex AI's: the path names the model and asks for a stream, the body does not."""
    return Built(body, _ASKED, f"{_MODEL}:{method}", status)


MESSAGES = {
    "thinking, text and two calls": _stream(*_WHOLE),
    "an error after content": _stream(_PING, *_text("It", " is")[:-1], _OVERLOADED),
    "an error before content": _stream(_OVERLOADED),
    "nothing but an error": Built(write_events(_OVERLOADED), {"stream": True}),
    "a pause": _stream(*_text("I look"), _delta("pause_turn", output_tokens=3), _STOP),
    "a refusal in the middle": _stream(*_text("I"), _delta("refusal", output_tokens=1), _STOP),
    "cut by its limit": _stream(*_text("On"), _delta("max_tokens", output_tokens=9), _STOP),
    "cut by its window": _stream(*_text("On"), _delta("model_context_window_exceeded"), _STOP),
    "stopped by a sequence": _stream(*_text("On"), _delta("stop_sequence", output_tokens=1), _STOP),
    "nothing behind the reason": _stream(*_text("So"), _delta("end_turn", output_tokens=2)),
    "no reason": _stream(*_text("So")),
    "a gateway's zeros and nulls": _stream(
        *_text("So"),
        _delta(None, input_tokens=0, cache_read_input_tokens=0, output_tokens=1),
        _delta("end_turn", input_tokens=None, output_tokens=4),
        _STOP,
    ),
    "counts that change": _stream(
        *(*_text("So"), _delta(None, input_tokens=70, output_tokens=2)),
        _delta("end_turn", input_tokens=90, cache_read_input_tokens=0, output_tokens=4),
        _STOP,
    ),
    "a plain refusal": Built(
        _MESSAGE | {"stop_reason": "refusal", "usage": _USAGE | {"output_tokens": 0}}
    ),
    "a plain pause": Built(_MESSAGE | {"stop_reason": "pause_turn"}),
    "a plain message cut by its limit": Built(_MESSAGE | {"stop_reason": "max_tokens"}),
    "an error in one piece": Built(_OVERLOADED),
    "refused by its status": Built(_OVERLOADED | {"request_id": "req-1"}, status=529),
    "a stream of Vertex AI's": _on_vertex(write_events(_START, *_WHOLE)),
    "a stream of Vertex AI's without a reason": _on_vertex(write_events(_START, *_text("So"))),
    "an error within Vertex AI's": _on_vertex(write_events(_START, *_text("So"), _OVERLOADED)),
    "nothing of Vertex AI's": _on_vertex(b""),
    "a message of Vertex AI's": _on_vertex(
        _MESSAGE | {"content": [{"type": "text", "text": "So"}], "stop_reason": "end_turn"},
        "rawPredict",
    ),
    "refused by Vertex AI": _on_vertex(_TURNED_AWAY, "rawPredict", 429),
    "a stream refused by Vertex AI": _on_vertex([_TURNED_AWAY], status=429),
    "refused by the model of Vertex AI": _on_vertex(_OVERLOADED, status=529),
}
