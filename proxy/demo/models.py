"""The demo upstream's list of models, as OpenAI's API reference has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.demo.script import (
    ENDLESS_MODEL,
    ERROR_MODEL,
    FAILING_MODEL,
    MODEL,
    REASONING_MODEL,
)

if TYPE_CHECKING:
    from codec.jsontext import JsonObject

__all__ = ("build_models",)

_MODELS_CREATED = 1_700_000_000


def build_models() -> JsonObject:
    """The answer of ``GET /v1/models``."""
    models = [
        {"id": model, "object": "model", "created": _MODELS_CREATED, "owned_by": "spantap-demo"}
        for model in (MODEL, REASONING_MODEL, ENDLESS_MODEL, ERROR_MODEL, FAILING_MODEL)
    ]
    return {"object": "list", "data": models}
