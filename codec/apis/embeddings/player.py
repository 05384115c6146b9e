"""The player of embeddings: vectors as numbers, or packed in base64 if the request asks for it."""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any, Final

from codec.apis.chunk_player import CHAT_PLAYER
from codec.apis.faults import build_error
from codec.apis.vector_player import VectorPlayer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.apis.player import Player, Script
    from codec.asked import Asked
    from codec.text.jsontext import JsonObject

__all__ = ("PLAYER",)


def _find_fault(body: JsonObject) -> JsonObject | None:
    """The first thing wrong with a request, ``None`` for a good one."""
    if not isinstance(body.get("model"), str):
        return build_error("you must provide a model parameter")
    if not (body.get("input") and isinstance(body["input"], str | list)):
        return build_error("'$.input' is invalid", param="input")
    return None


def _build(vectors: Sequence[Sequence[float]], asked: Asked, script: Script) -> JsonObject:
    packs = asked.body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _pack(vector) if packs else vector}
        for index, vector in enumerate(vectors)
    ]
    counts = {"prompt_tokens": script.prompt_tokens, "total_tokens": script.prompt_tokens}
    return {"object": "list", "data": data, "model": asked.model, "usage": counts}


def _pack(vector: Sequence[float]) -> Any:
    """Write a vector as OpenAI packs it: 32-bit floats, little-endian."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")


PLAYER: Final[Player] = VectorPlayer(find_fault=_find_fault, errors=CHAT_PLAYER, build=_build)
