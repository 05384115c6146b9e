"""The routes of Ollama's own API, and the names of their spans."""

from __future__ import annotations

from functools import partial

from codec.apis.api import Api, Content, NoStream, SpanKind, load_player
from codec.apis.ollama.asked import ChatAsked, GenerateAsked
from codec.apis.ollama.said import ChatSaid, GenerateSaid, read_chat, read_generate
from codec.apis.ollama.stream import LineStream
from codec.apis.ollama.vectors import EmbedAsked, read_embedded

__all__ = ("OLLAMA_CHAT", "OLLAMA_EMBED", "OLLAMA_GENERATE")

OLLAMA_CHAT = Api(
    name="ollama.chat",
    path_ends=("/api/chat",),
    operation="chat",
    span_name="Chat",
    system="ollama",
    shows_past_reasoning=True,
    asked=ChatAsked,
    streams_json=True,
    open_stream=partial(LineStream, kind=ChatSaid),
    read_said=read_chat,
    open_player=partial(load_player, "codec.apis.ollama.player", "CHAT_PLAYER"),
)

OLLAMA_GENERATE = Api(
    name="ollama.generate",
    path_ends=("/api/generate",),
    operation="text_completion",
    span_name="Generate",
    system="ollama",
    content=Content.TEXTS,
    quoted_members=frozenset({"context"}),
    asked=GenerateAsked,
    streams_json=True,
    open_stream=partial(LineStream, kind=GenerateSaid),
    read_said=read_generate,
    open_player=partial(load_player, "codec.apis.ollama.player", "GENERATE_PLAYER"),
)
"""The tokens of an answer's context are those of the prompt, too."""

OLLAMA_EMBED = Api(
    name="ollama.embed",
    path_ends=("/api/embed", "/api/embeddings"),
    operation="embeddings",
    span_name="CreateEmbeddings",
    system=None,
    span_kind=SpanKind.EMBEDDING,
    noun="embedding",
    content=Content.VECTORS,
    asked=EmbedAsked,
    open_stream=NoStream,
    read_said=read_embedded,
    open_player=partial(load_player, "codec.apis.ollama.player", "VECTOR_PLAYER"),
)
