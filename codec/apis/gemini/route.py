"""The routes of Gemini, and the names of their spans."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from codec.apis.api import Api, Content, NoStream, SpanKind, load_player
from codec.apis.gemini.asked import ContentRequest
from codec.apis.gemini.counting import CountRequest, read_count
from codec.apis.gemini.said import read_answer
from codec.apis.gemini.stream import ContentStream
from codec.apis.gemini.vectors import EmbedRequest, read_vectors

__all__ = ("GEMINI", "GEMINI_COUNT", "GEMINI_EMBED", "GEMINI_STREAM")

_MODELS: Final = ("models", "tunedModels", "endpoints")
"""The collections that a path may name a model in."""


def _owns(path: str) -> bool:
    """Tell whether it is the path of a model."""
    kind, _, model = path.rpartition("/")
    return not model.startswith(":") and kind.rpartition("/")[2] in _MODELS


GEMINI = Api(
    name="gemini.generate",
    path_ends=(":generateContent",),
    owns=_owns,
    operation="generate_content",
    span_name="GenerateContent",
    system="vertexai",
    shows_past_reasoning=True,
    asked=ContentRequest,
    open_stream=ContentStream,
    read_said=read_answer,
    open_pictured=ContentStream,
    read_pictured=read_answer,
    open_player=partial(load_player, "codec.apis.gemini.player", "PLAYER"),
)
"""OpenInference has one word for Google's systems (``docs/contract/apis.md#span-names``)."""

GEMINI_STREAM = replace(
    GEMINI,
    name="gemini.stream",
    path_ends=(":streamGenerateContent",),
    span_name="GenerateContentStream",
    streams_json=True,
)
"""Streamed content: as events, or as an array in pieces."""

GEMINI_EMBED = Api(
    name="gemini.embed",
    path_ends=(":embedContent", ":batchEmbedContents"),
    owns=_owns,
    operation="embeddings",
    span_name="CreateEmbeddings",
    system=None,
    span_kind=SpanKind.EMBEDDING,
    noun="embedding",
    content=Content.VECTORS,
    asked=EmbedRequest,
    open_stream=NoStream,
    read_said=read_vectors,
    open_player=partial(load_player, "codec.apis.gemini.player", "VECTOR_PLAYER"),
)

GEMINI_COUNT = Api(
    name="gemini.count",
    path_ends=(":countTokens",),
    owns=_owns,
    operation=None,
    span_name="CountTokens",
    system=None,
    span_kind=SpanKind.CHAIN,
    noun="token count",
    content=Content.BODIES,
    asked=CountRequest,
    open_stream=NoStream,
    read_said=read_count,
    open_player=partial(load_player, "codec.apis.gemini.player", "COUNT_PLAYER"),
)
"""Token counts, as Anthropic's (``docs/contract/apis.md#token-counts``)."""
