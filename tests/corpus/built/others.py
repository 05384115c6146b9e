"""Rankings, moderations, counts and Responses that nobody recorded.

See ``docs/contract/apis.md#responses``, ``docs/contract/apis.md#rankings`` and
``docs/contract/apis.md#moderations``.
"""

from __future__ import annotations

from typing import Any

from tests.corpus.built.wire import Built, write_events

__all__ = (
    "MODERATIONS",
    "RERANK",
    "RESPONSES",
)

_JINA = {
    "model": "jina-reranker-v3",
    "usage": {"total_tokens": 30, "prompt_tokens": 28},
    "results": [
        {"index": 1, "relevance_score": 0.75, "document": {"text": "land"}},
        {"index": 0, "relevance_score": 0.25, "document": {"text": "sea"}},
    ],
}
_TEI = [{"index": 1, "score": 0.99, "text": "land"}, {"index": 0, "score": -4.5, "text": "sea"}]
RERANK = {
    "Jina's": Built(_JINA, {"top_n": 2}),
    "vLLM's": Built(
        _JINA | {"id": "rerank-1", "usage": {"total_tokens": 30}},
        {"truncate_prompt_tokens": 5},
        "/rerank",
    ),
    "vLLM's, as Cohere's second": Built(_JINA | {"id": "rerank-2"}, {}, "/v2/rerank"),
    "TEI's": Built(_TEI, {"texts": ["sea", "land"], "documents": None}, "/rerank"),
    "Jina's error": Built({"detail": "Invalid API key"}, status=401),
    "FastAPI's error": Built({"detail": [{"loc": ["body"], "msg": "required"}]}, status=422),
    "Cohere's error": Built({"id": "e-1", "message": "invalid api token"}, status=401),
    "TEI's error": Built({"error": "Batch size error", "error_type": "Validation"}, status=422),
}
COUNT_TOKENS = {
    "a count": Built({"input_tokens": 12}),
    "a count refused by its status": Built(
        {"type": "error", "error": {"type": "not_found_error", "message": "model: m"}}, status=404
    ),
}
_PII = {"categories": {"pii": True, "law": False}, "category_scores": {"pii": 0.9, "law": 0.1}}
_LAW = {"categories": {"pii": True, "law": True}, "category_scores": {"pii": 0.9, "law": 0.8}}
MODERATIONS = {
    "Mistral's": Built({"id": "mod-1", "model": "mistral-m", "results": [_PII, _LAW]}),
    "OpenAI's, of several": Built(
        {
            "id": "mod-2",
            "model": "o-m",
            "results": [_PII | {"flagged": False}, {"flagged": True} | _LAW],
        }
    ),
    "a moderation refused by its status": Built({"error": {"message": "Slow down"}}, status=429),
}


def _response(status: str, **more: Any) -> dict[str, Any]:
    head = {"id": "resp-1", "object": "response", "model": "gpt-m-1", "status": status}
    return head | {"output": [], "error": None, "incomplete_details": None} | more


def _stream(*events: dict[str, Any], end: dict[str, Any] | None = None) -> Built:
    begun = {"type": "response.created", "response": _response("in_progress")}
    last = [] if end is None else [{"type": f"response.{end['status']}", "response": end}]
    return Built(write_events(begun, *events, *last), {"stream": True})


def _delta(text: str, kind: str = "refusal") -> dict[str, Any]:
    place = {"item_id": "m-1", "output_index": 0, "content_index": 0}
    return {"type": f"response.{kind}.delta", **place, "delta": text}


def _message(*content: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "id": "m-1", "role": "assistant", "content": [*content]}


_REFUSAL = _message({"type": "refusal", "refusal": "I must not"})
_HALF = _message({"type": "output_text", "text": "It is — so", "annotations": []})
_PLACE: dict[str, Any] = {"output_index": 0, "item": _REFUSAL}
_BEGUN = {"type": "response.output_item.added", "output_index": 0, "item": _message()}
_OPEN = [_BEGUN, _delta("I must"), _delta(" not")]
_SAYING = [_BEGUN, *(_delta(words, "output_text") for words in ("It is —", " so"))]
_CLOSED = {"type": "response.output_item.done", **_PLACE}
_FAILURE = {"code": "server_error", "message": "The model failed"}
_SLOW = {"code": "rate_limit_exceeded", "message": "Slow down", "param": None}
_ERROR = {"type": "error", **_SLOW}
_USED = {"usage": {"input_tokens": 8, "output_tokens": 3, "total_tokens": 11}}
_REFUSED = _response("completed", output=[_REFUSAL], **_USED)
_FAILED = _response("failed", error=_FAILURE)


def _incomplete(reason: str, item: dict[str, Any]) -> dict[str, Any]:
    told = {"incomplete_details": {"reason": reason}, "output": [item]}
    return _response("incomplete", **told, **_USED)


_FILTERED = _incomplete("content_filter", _REFUSAL)
_LIMITED = _incomplete("max_output_tokens", _HALF)
RESPONSES = {
    "a refusal": _stream(*_OPEN, _CLOSED, end=_REFUSED),
    "a refusal in one piece": Built(_REFUSED),
    "a failure after content": _stream(*_OPEN, end=_FAILED | _USED),
    "a failure before content": _stream(end=_FAILED),
    "a failure in one piece": Built(_FAILED),
    "a failure without words": Built(_response("failed")),
    "an error event": _stream(*_OPEN, _ERROR),
    "an error event and the failure behind it": _stream(*_OPEN, _ERROR, end=_FAILED),
    "an error event as it was": _stream(*_OPEN, {"type": "error", "error": _SLOW}),
    "no end": _stream(*_OPEN),
    "cancelled by another call": Built(_response("cancelled")),
    "queued in the background": Built(_response("queued"), {"background": True}),
    "begun in the background": Built(_response("in_progress"), {"background": True}),
    "an answer that a filter cut": _stream(*_OPEN, end=_FILTERED),
    "an answer cut by its limit": _stream(*_SAYING, end=_LIMITED),
    "an answer cut by its limit, in one piece": Built(_LIMITED),
    "a response refused by its status": Built({"error": _SLOW}, status=429),
}
