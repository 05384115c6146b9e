"""The player of Ollama's embeddings, in the form of the path: one vector or several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codec.apis.faults import build_error
from codec.apis.ollama.player import CHAT_PLAYER
from codec.apis.vector_player import VectorPlayer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.apis.player import Player, Script
    from codec.call import Asked
    from codec.text.jsontext import JsonObject

__all__ = ("VECTOR_PLAYER",)


def _find_fault(body: JsonObject) -> JsonObject | None:
    """The first thing wrong with a request, ``None`` for a good one."""
    return None if isinstance(body.get("model"), str) else build_error("model is required")


def _build(vectors: Sequence[Sequence[float]], asked: Asked, script: Script) -> JsonObject:
    if asked.path.rstrip("/").endswith("/embeddings"):
        return {"embedding": vectors[0] if vectors else []}
    counts = {"total_duration": 1, "load_duration": 1, "prompt_eval_count": script.prompt_tokens}
    return {"model": asked.model, "embeddings": vectors, **counts}


VECTOR_PLAYER: Final[Player] = VectorPlayer(
    find_fault=_find_fault, errors=CHAT_PLAYER, build=_build
)
