"""OpenAI's shapes for what :mod:`proxy.demo.script` says (``chat.completion`` and its chunks).

Source: OpenAI's API reference for chat completions, and recorded traffic for the order and the
empty members of a stream's first and last chunks.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from proxy.demo.script import (
    ENDLESS_MODEL,
    ERROR_MODEL,
    MODEL,
    count_cached_tokens,
    count_prompt_tokens,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.jsontext import JsonObject
    from proxy.demo.script import Answer

__all__ = ("build_completion", "build_error", "build_models", "build_usage", "iter_chunks")

_MODELS_CREATED = 1_700_000_000


def build_completion(
    request: JsonObject, answers: Sequence[Answer], *, completion_id: str, created: int
) -> JsonObject:
    """The whole answer as one ``chat.completion`` object.

    Args:
        request: the request as sent.
        answers: one per choice.
        completion_id: e.g. ``chatcmpl-...``.
        created: seconds since the epoch.
    """
    choices = [
        {
            "index": index,
            "message": _fold(answer),
            "logprobs": None,
            "finish_reason": answer.finish_reason,
        }
        for index, answer in enumerate(answers)
    ]
    head = _head(request, "chat.completion", completion_id, created)
    return head | {"choices": choices, "usage": build_usage(request, answers)}


def iter_chunks(
    request: JsonObject, answers: Sequence[Answer], *, completion_id: str, created: int
) -> Iterator[JsonObject]:
    """The answer as ``chat.completion.chunk`` objects, the choices' deltas interleaved.

    Where ``stream_options.include_usage`` is true every chunk has ``usage: null`` and one more,
    with the usage and without choices, comes last. Otherwise no chunk mentions usage.
    """
    options = request.get("stream_options") or {}
    asked = options.get("include_usage") is True
    head = _head(request, "chat.completion.chunk", completion_id, created)
    no_usage = {"usage": None} if asked else {}

    def chunk(index: int, delta: JsonObject, finish_reason: str | None = None) -> JsonObject:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return head | {"choices": [choice]} | no_usage

    for index, answer in enumerate(answers):
        yield chunk(index, answer.opening)
    for deltas in zip_longest(*(answer.deltas for answer in answers)):
        for index, delta in enumerate(deltas):
            if delta is not None:
                yield chunk(index, delta)
    for index, answer in enumerate(answers):
        yield chunk(index, {}, answer.finish_reason)
    if asked:
        yield head | {"choices": [], "usage": build_usage(request, answers)}


def build_usage(request: JsonObject, answers: Sequence[Answer]) -> JsonObject:
    """The ``usage`` object, with details; its counting rules are the script's 3 and 4."""
    prompt = count_prompt_tokens(request)
    completion = sum(len(answer.deltas) for answer in answers)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {
            "cached_tokens": count_cached_tokens(request),
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def build_error(
    message: str,
    *,
    error_type: str = "invalid_request_error",
    param: str | None = None,
    code: str | None = None,
) -> JsonObject:
    """An error body as OpenAI sends it."""
    return {"error": {"message": message, "type": error_type, "param": param, "code": code}}


def build_models() -> JsonObject:
    """The answer of ``GET /v1/models``."""
    models = [
        {"id": model, "object": "model", "created": _MODELS_CREATED, "owned_by": "spantap-demo"}
        for model in (MODEL, ENDLESS_MODEL, ERROR_MODEL)
    ]
    return {"object": "list", "data": models}


def _head(request: JsonObject, kind: str, completion_id: str, created: int) -> JsonObject:
    return {
        "id": completion_id,
        "object": kind,
        "created": created,
        "model": request["model"],
        "service_tier": "default",
        "system_fingerprint": "fp_demo",
    }


def _fold(answer: Answer) -> JsonObject:
    """The message that the deltas of one answer add up to."""
    text = "".join(delta.get("content", "") for delta in answer.deltas)
    refusal = "".join(delta.get("refusal", "") for delta in answer.deltas)
    calls: list[dict[str, Any]] = []
    for delta in answer.deltas:
        for part in delta.get("tool_calls", ()):
            if "id" in part:
                call = {key: part[key] for key in ("id", "type")}
                calls.append(call | {"function": dict(part["function"])})
            else:
                calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
    message = {"role": "assistant", "content": text or None, "refusal": refusal or None}
    return message | ({"tool_calls": calls} if calls else {}) | {"annotations": []}
