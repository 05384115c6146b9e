"""Answers of Gemini that nobody recorded (``docs/contract/apis.md#gemini``)."""

from __future__ import annotations

import json
from typing import Any

from tests.corpus.built.wire import Built, write_array, write_chunks

__all__ = (
    "GEMINI",
    "GEMINI_EMBED",
    "GEMINI_STREAM",
)


def _candidate(*parts: dict[str, Any], reason: Any = None, **more: Any) -> dict[str, Any]:
    content = {"content": {"parts": [*parts], "role": "model"}} if parts else {}
    ended = {} if reason is None else {"finishReason": reason}
    return {"candidates": [content | ended | {"index": 0} | more]}


_COUNTED = {
    "usageMetadata": {
        "promptTokenCount": 4,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 6,
        "totalTokenCount": 13,
    },
    "modelVersion": "gemini-3-pro",
    "responseId": "r-1",
}
_COUNTED_TWICE = {
    "usageMetadata": {
        "promptTokenCount": 4,
        "candidatesTokenCount": 9,
        "thoughtsTokenCount": 6,
        "totalTokenCount": 13,
    }
}
_HALF = _candidate({"text": "Ahoy "})
_WHOLE = _candidate({"text": "🌊 there"}, reason="STOP") | _COUNTED
_BLOCKED = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}
_EXHAUSTED = {
    "error": {"code": 429, "message": "Resource exhausted", "status": "RESOURCE_EXHAUSTED"}
}
_THOUGHT = _candidate({"text": "Hm", "thought": True}) | {"modelVersion": "gemini-3-pro"}
_LIMIT = _candidate(reason="MAX_TOKENS")


def _piece(text: str) -> dict[str, Any]:
    """More of a call's arguments (Vertex AI)."""
    told = [{"jsonPath": "$.a.b", "stringValue": text}]
    return _candidate({"functionCall": {"partialArgs": told, "willContinue": True}})


_PIECES = [
    _candidate({"functionCall": {"name": "f", "willContinue": True}}),
    *(_piece("Łó"), _piece("dź"), _candidate({"functionCall": {}})),
    _candidate(reason="STOP") | _COUNTED,
]
_PATH = "/v1beta/models/gemini-3:streamGenerateContent"


def _array(*chunks: dict[str, Any], end: str = "]") -> Built:
    return Built(write_array(*chunks, end=end), target=_PATH)


def _events(*chunks: dict[str, Any]) -> Built:
    return Built(write_chunks(*chunks))


GEMINI_STREAM = {
    "a thought, words and a call in pieces": _events(_THOUGHT, _HALF, *_PIECES),
    "a thought, words and a call in an array": _array(_THOUGHT, _HALF, *_PIECES),
    "an array of one": _array(_WHOLE),
    "an array that stays open": _array(_HALF, _WHOLE, end="\r\n"),
    "an array cut inside a chunk, after a reason": _array(_WHOLE, end='\r\n,{"candid'),
    "events cut inside one, after a reason": Built(write_chunks(_HALF, _WHOLE) + b'data: {"candid'),
    "an error at the end of an array": _array(_HALF, _EXHAUSTED),
    "an error at the end of events": _events(_HALF, _EXHAUSTED),
    "a bare error among events": Built(
        write_chunks(_HALF) + json.dumps(_EXHAUSTED, indent=2).encode() + b"\n"
    ),
    "a blocked prompt": _events(_BLOCKED),
    "a blocked prompt in an array": _array(_BLOCKED),
    "a blocked answer": _events(_HALF, _candidate(reason="PROHIBITED_CONTENT")),
    "an answer that was not safe": _events(_candidate(reason="SAFETY")),
    "an answer that recites": _events(_HALF, _candidate(reason="RECITATION") | _COUNTED),
    "thoughts that took all": _events(_LIMIT | {"usageMetadata": {"thoughtsTokenCount": 9}}),
    "a malformed call": _events(_candidate(reason="MALFORMED_FUNCTION_CALL")),
    "a call that was not expected": _events(_HALF, _candidate(reason="UNEXPECTED_TOOL_CALL")),
    "a reason as a number": _events(_HALF, _candidate(reason=1) | _COUNTED),
    "two candidates, one after the other": _events(
        *(_HALF, _candidate({"text": "Land "}, index=1), _WHOLE),
        _candidate({"text": "ho"}, reason="MAX_TOKENS", index=1),
    ),
    "a gateway that counts thoughts among words": _events(_THOUGHT, _WHOLE | _COUNTED_TWICE),
    "no reason in events": _events(_HALF, _HALF),
    "a stream refused by its status": Built([_EXHAUSTED], target=_PATH, status=429),
}
GEMINI = {
    "a prompt that was blocked": Built(_BLOCKED),
    "an answer": Built(_WHOLE),
    "an answer cut by its limit": Built(_LIMIT | _COUNTED),
    "an answer that was blocked": Built(_candidate(reason="SAFETY") | _COUNTED),
    "a call that was malformed": Built(_candidate(reason="MALFORMED_FUNCTION_CALL")),
    "a call that was not expected": Built(_candidate(reason="UNEXPECTED_TOOL_CALL")),
    "an error in one piece": Built(_EXHAUSTED),
    "an answer without a reason": Built(_HALF),
    "content refused by its status": Built(_EXHAUSTED, status=503),
}
_VECTOR = {"values": [0.25, -0.5]}
_SEVERAL = [{"content": {"parts": [{"text": text}]}} for text in ("Ahoy", "there")]
GEMINI_EMBED = {
    "a content": Built({"embedding": _VECTOR}),
    "several contents": Built(
        {"embeddings": [_VECTOR, _VECTOR], "usageMetadata": {"promptTokenCount": 5}},
        {"requests": _SEVERAL, "content": None},
        "/v1beta/models/text-embedding-004:batchEmbedContents",
    ),
    "embeddings refused by their status": Built(_EXHAUSTED, status=429),
}
