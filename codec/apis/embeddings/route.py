"""The route of embeddings, and the names of their spans."""

from __future__ import annotations

from codec.apis.api import Api, Content, SpanKind

__all__ = ("EMBEDDINGS",)

EMBEDDINGS = Api(
    name="embeddings",
    path_end="/embeddings",
    operation="embeddings",
    span_name="CreateEmbeddings",
    span_kind=SpanKind.EMBEDDING,
    content=Content.VECTORS,
)
"""The name of its spans is OpenInference's; its specification says MUST."""
