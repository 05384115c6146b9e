"""The route of embeddings, and the names of their spans."""

from __future__ import annotations

from functools import partial

from codec.apis.api import Api, Content, SpanKind, load_player
from codec.apis.embeddings.vectors import EmbeddingRequest, read_embeddings
from codec.chat.stream import ChatStream

__all__ = ("EMBEDDINGS",)

EMBEDDINGS = Api(
    name="embeddings",
    path_ends=("/embeddings",),
    operation="embeddings",
    span_name="CreateEmbeddings",
    system=None,
    span_kind=SpanKind.EMBEDDING,
    content=Content.VECTORS,
    asked=EmbeddingRequest,
    open_stream=ChatStream,
    read_said=read_embeddings,
    open_player=partial(load_player, "codec.apis.embeddings.player", "PLAYER"),
)
"""The name of its spans is OpenInference's; its specification says MUST."""
