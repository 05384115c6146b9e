"""The player of Gemini's embeddings: of one content, or of several requests at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codec.apis.faults import build_error
from codec.apis.gemini.player import PLAYER
from codec.apis.gemini.vectors import EmbedRequest
from codec.apis.vector_player import VectorPlayer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.apis.player import Player, Script
    from codec.call import Asked
    from codec.text.jsontext import JsonObject

__all__ = ("VECTOR_PLAYER",)


def _find_fault(body: JsonObject) -> JsonObject | None:
    """The first thing wrong with a request, ``None`` for a good one."""
    fault = EmbedRequest(body).fault
    return build_error(fault) if fault is not None else None


def _build(vectors: Sequence[Sequence[float]], asked: Asked, script: Script) -> JsonObject:
    counts = {"promptTokenCount": script.prompt_tokens, "totalTokenCount": script.prompt_tokens}
    embeddings = [{"values": vector} for vector in vectors]
    if asked.path.endswith(":batchEmbedContents"):
        return {"embeddings": embeddings, "usageMetadata": counts}
    return {"embedding": embeddings[0], "usageMetadata": counts}


VECTOR_PLAYER: Final[Player] = VectorPlayer(find_fault=_find_fault, errors=PLAYER, build=_build)
