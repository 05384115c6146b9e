"""The route of chat completions, and the names of their spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.apis.api import Api
from codec.request import ChatRequest
from codec.response import decode_response
from codec.stream import ChatStream

if TYPE_CHECKING:
    from codec.apis.player import Player

__all__ = ("CHAT",)


def _open_player() -> Player:
    # Imported where it is asked for: a proxy plays no answers, and starts without this.
    from codec.apis.chunk_player import ChunkPlayer  # noqa: PLC0415
    from codec.apis.faults import find_chat_fault  # noqa: PLC0415

    return ChunkPlayer(find_fault=find_chat_fault, id_prefix="chatcmpl")


CHAT = Api(
    name="chat.completions",
    path_end="/chat/completions",
    operation="chat",
    span_name="ChatCompletion",
    api_type="chat_completions",
    has_usage_option=True,
    asked=ChatRequest,
    open_stream=ChatStream,
    read_said=decode_response,
    open_player=_open_player,
)
"""The name of its spans is the one of OpenInference's instrumentor (contract section 1)."""
