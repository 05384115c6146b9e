"""The route of legacy completions, and the names of their spans."""

from __future__ import annotations

from functools import partial

from codec.apis.api import Api, Content, load_player
from codec.apis.completions.asked import CompletionRequest
from codec.chat.response import decode_response
from codec.chat.stream import ChatStream
from codec.chat.usage_option import STREAM_OPTIONS

__all__ = ("COMPLETIONS",)


COMPLETIONS = Api(
    name="completions",
    path_ends=("/completions",),
    operation="text_completion",
    span_name="Completion",
    content=Content.TEXTS,
    usage_option=STREAM_OPTIONS,
    asked=CompletionRequest,
    open_stream=ChatStream,
    read_said=decode_response,
    open_player=partial(load_player, "codec.apis.chunk_player", "COMPLETION_PLAYER"),
)
"""The name of its spans is the one of OpenInference's instrumentor (contract section 1)."""
