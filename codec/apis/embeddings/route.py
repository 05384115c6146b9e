"""Embeddings: texts in, vectors out, never streamed (``docs/contract/spans.md#embeddings``).

The rest of such an answer (model, usage, error) is read like a chat's.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from codec.apis.api import Api, Content, SpanKind, load_player
from codec.asked import Asked
from codec.chat.request import list_inputs
from codec.chat.response import decode_response
from codec.chat.stream import ChatStream
from codec.members import list_of, object_of
from codec.said import Said, Vector
from codec.text.integers import places_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("EMBEDDINGS", "EmbeddingRequest", "EmbeddingResponse", "read_embeddings")

_OF_CHOICES = frozenset({"no_finish_reason", "foreign_chunk"})
"""Anomalies of an answer without choices, as one of embeddings is."""

_VECTORS = ("data", "embeddings", "embedding")
"""An answer has one of these members. Ollama's vectors, and Cohere's by type, are not read."""


class EmbeddingRequest(Asked, frozen=True, gc=False):
    """A request to embed texts."""

    content_members: ClassVar[frozenset[str]] = frozenset({"input"})

    def read_texts(self) -> Sequence[Any]:
        """Read the inputs: texts, lists of token ids, or neither."""
        return list_inputs(self.body.get("input"))


class EmbeddingResponse(Said, frozen=True, kw_only=True):
    """The vectors of an answer."""

    @property
    def vectors(self) -> Sequence[Vector]:
        """The embeddings, each with its index; its position if it has none."""
        items = [object_of(item) for item in list_of(self.body.get("data"))]
        return [
            Vector(index=place, value=item["embedding"])
            for place, item in zip(places_of(items), items, strict=True)
            if "embedding" in item
        ]


def read_embeddings(body: bytes) -> EmbeddingResponse:
    """Read the body of an answer, or of an error.

    Raises:
        MalformedResponse: it is not a JSON object.
    """
    read = decode_response(body)
    is_answer = any(isinstance(read.body.get(name), list | dict) for name in _VECTORS)
    odd = () if is_answer or read.error is not None else ("foreign_chunk",)
    return EmbeddingResponse(
        id=read.id,
        model=read.model,
        created=read.created,
        usage=read.usage,
        cost=read.cost,
        error=read.error,
        anomalies=(*odd, *[name for name in read.anomalies if name not in _OF_CHOICES]),
        body=read.body,
    )


EMBEDDINGS = Api(
    name="embeddings",
    path_ends=("/embeddings",),
    operation="embeddings",
    span_name="CreateEmbeddings",
    system=None,
    span_kind=SpanKind.EMBEDDING,
    noun="embedding",
    content=Content.VECTORS,
    asked=EmbeddingRequest,
    open_stream=ChatStream,
    read_said=read_embeddings,
    open_player=partial(load_player, "codec.apis.embeddings.player", "PLAYER"),
)
"""Embeddings. The name of their spans is OpenInference's; its specification says MUST."""
