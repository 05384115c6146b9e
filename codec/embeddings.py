"""What is particular to embeddings: texts in, vectors out (``span-contract.md`` 1.6).

All else of such an answer (model, usage, error) reads like a chat's: :mod:`codec.response`.
"""

from __future__ import annotations

import array
import base64
import binascii
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codec.call import Asked

__all__ = ("decode_vector", "embedded_inputs", "embedding_items")

_FLOAT_BYTES = 4


def embedded_inputs(request: Asked) -> Sequence[Any]:
    """The inputs of an embedding request: texts, lists of token ids, or neither.

    A list of integers is one input, of token ids (OpenAI's reference for embeddings).
    """
    value = request.body.get("input")
    if isinstance(value, list) and not all(type(token) is int for token in value):
        return value
    return () if value is None or value == [] else (value,)


def embedding_items(body: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """The embeddings of an answer, each with its index, as they came.

    The index is the item's own; its position where that is no index.
    """
    data = body.get("data")
    for position, item in enumerate(data if isinstance(data, list) else ()):
        if isinstance(item, dict) and "embedding" in item:
            index = item.get("index")
            yield index if type(index) is int and index >= 0 else position, item["embedding"]


def decode_vector(embedding: Any) -> tuple[float, ...] | None:
    """The numbers of one embedding.

    Args:
        embedding: a list of numbers, or base64 of 32-bit floats, little-endian
            (``encoding_format``).

    Returns:
        ``None`` where it is neither.
    """
    if isinstance(embedding, str):
        return _decode_base64(embedding)
    if not isinstance(embedding, list):
        return None
    try:
        return tuple(map(float, embedding))
    except (TypeError, ValueError, OverflowError):
        return None


def _decode_base64(text: str) -> tuple[float, ...] | None:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(data) % _FLOAT_BYTES:
        return None
    numbers = array.array("f", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)
