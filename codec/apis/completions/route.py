"""The route of legacy completions, and the names of their spans."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from codec.apis.api import Api, Content, load_player
from codec.apis.completions.asked import CompletionRequest
from codec.chat.response import decode_response
from codec.chat.stream import ChatStream
from codec.chat.usage_option import STREAM_OPTIONS

if TYPE_CHECKING:
    from codec.chat.answer import ChatResponse

__all__ = ("COMPLETIONS", "read_completion")


def read_completion(body: bytes) -> ChatResponse:
    """Read the body of an answer, one that reports an error included.

    llama.cpp's own API ends its path as this one does, and has ``content`` in the place of choices:
    such a body is an answer, and kept as it came.

    Raises:
        MalformedResponse: it is not a JSON object.
    """
    answer = decode_response(body)
    if "choices" in answer.body or not isinstance(answer.body.get("content"), str):
        return answer
    known = tuple(name for name in answer.anomalies if name != "foreign_chunk")
    return msgspec.structs.replace(answer, anomalies=known)


COMPLETIONS = Api(
    name="completions",
    path_ends=("/completions",),
    operation="text_completion",
    span_name="Completion",
    content=Content.TEXTS,
    usage_option=STREAM_OPTIONS,
    asked=CompletionRequest,
    open_stream=ChatStream,
    read_said=read_completion,
    open_player=partial(load_player, "codec.apis.chunk_player", "COMPLETION_PLAYER"),
)
"""Its spans are named as OpenInference's instrumentor names them
(``docs/contract/spans.md#span-name``)."""
