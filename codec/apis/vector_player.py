"""The player of embeddings, which all APIs share; only the form of the answer differs.

The vector of a text is made of its digest: the same text always gets the same vector, of length 1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from math import hypot
from typing import TYPE_CHECKING, Any

from codec.apis.player import PlainPerformance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.apis.player import Player, Script
    from codec.asked import Asked
    from codec.dialects import Dialect
    from codec.text.jsontext import JsonObject

__all__ = ("VectorPlayer",)

_DIMENSIONS = 8
"""The length of a vector if the request names none; it fits on a screen."""

_MAX_DIMENSIONS = 4096
"""More than models have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorPlayer:
    """Plays embeddings.

    Attributes:
        find_fault: the error body for the first thing wrong with a request.
        errors: the player that writes the API's errors.
        build: builds the answer's body of the vectors, one for each text.
    """

    find_fault: Callable[[JsonObject], JsonObject | None]
    errors: Player
    build: Callable[[Sequence[Sequence[float]], Asked, Script], JsonObject]

    def write_error(self, error: JsonObject, dialect: Dialect) -> bytes:
        """Write the body of an error."""
        return self.errors.write_error(error, dialect)

    def play(self, asked: Asked, script: Script, _: Dialect) -> PlainPerformance:
        """Begin an answer."""
        dimensions = asked.options.get("dimensions")
        if not (isinstance(dimensions, int) and 0 < dimensions <= _MAX_DIMENSIONS):
            dimensions = _DIMENSIONS
        vectors = [_vector(text, dimensions) for text in asked.read_texts()]
        return PlainPerformance(json.dumps(self.build(vectors, asked, script)).encode())


def _vector(text: Any, dimensions: int) -> list[float]:
    seed = str(text).encode("utf-8", "replace")
    digests = (sha256(seed + bytes([turn])).digest() for turn in range(dimensions // 32 + 1))
    numbers = [byte - 127.5 for digest in digests for byte in digest][:dimensions]
    length = hypot(*numbers)
    return [round(number / length, 8) for number in numbers]
