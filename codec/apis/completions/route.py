"""The route of legacy completions, and the names of their spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.apis.api import Api, Content
from codec.apis.completions.asked import CompletionRequest
from codec.response import decode_response
from codec.stream import ChatStream

if TYPE_CHECKING:
    from codec.apis.player import Player

__all__ = ("COMPLETIONS",)


def _open_player() -> Player:
    # Imported where it is asked for: a proxy plays no answers, and starts without this.
    from codec.apis.chunk_player import ChunkPlayer  # noqa: PLC0415
    from codec.apis.faults import find_completion_fault  # noqa: PLC0415

    return ChunkPlayer(find_fault=find_completion_fault, id_prefix="cmpl", is_completion=True)


COMPLETIONS = Api(
    name="completions",
    path_end="/completions",
    operation="text_completion",
    span_name="Completion",
    content=Content.TEXTS,
    has_usage_option=True,
    asked=CompletionRequest,
    open_stream=ChatStream,
    read_said=decode_response,
    open_player=_open_player,
)
"""The name of its spans is the one of OpenInference's instrumentor (contract section 1)."""
