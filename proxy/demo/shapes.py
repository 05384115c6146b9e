"""What the demo upstream needs besides answers: its identity, its list of models, its errors.

Source: OpenAI's API reference. Answers and their chunks are :mod:`codec.generator`'s part, and how
they look on the wire is that of :mod:`codec.dialects`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.generator import ChunkGenerator, Identity, UsagePolicy
from proxy.demo.script import (
    ENDLESS_MODEL,
    ERROR_MODEL,
    MODEL,
    REASONING_MODEL,
    count_cached_tokens,
    count_prompt_tokens,
)

if TYPE_CHECKING:
    from codec.jsontext import JsonObject

__all__ = ("build_error", "build_generator", "build_models")

_MODELS_CREATED = 1_700_000_000


def build_generator(
    request: JsonObject,
    *,
    answer_id: str,
    created: int,
    choice_count: int,
    is_completion: bool,
) -> ChunkGenerator:
    """The maker of an answer's chunks, with running counts.

    Args:
        request: the request as sent.
        answer_id: e.g. ``chatcmpl-...``.
        created: seconds since the epoch.
        choice_count: how many choices there are.
        is_completion: it is a legacy completion.
    """
    members = {"service_tier": "default", "system_fingerprint": "fp_demo"}
    return ChunkGenerator(
        Identity(id=answer_id, created=created, model=request["model"], members=members),
        choice_count=choice_count,
        prompt_tokens=count_prompt_tokens(request),
        cached_tokens=count_cached_tokens(request),
        usage=UsagePolicy.CONTINUOUS,
        is_completion=is_completion,
    )


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
        for model in (MODEL, REASONING_MODEL, ENDLESS_MODEL, ERROR_MODEL)
    ]
    return {"object": "list", "data": models}
