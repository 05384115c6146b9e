"""Chat completions, OpenAI's and those of the many servers that copy them.

:mod:`codec.chat` reads them. It is a separate package because three others read chats, too.
"""

from __future__ import annotations

from functools import partial

from codec.apis.api import Api, load_player
from codec.chat.request import ChatRequest
from codec.chat.response import decode_response
from codec.chat.stream import ChatStream
from codec.chat.usage_option import STREAM_OPTIONS

__all__ = ("CHAT",)


CHAT = Api(
    name="chat.completions",
    path_ends=("/chat/completions",),
    operation="chat",
    span_name="ChatCompletion",
    api_type="chat_completions",
    usage_option=STREAM_OPTIONS,
    asked=ChatRequest,
    open_stream=ChatStream,
    read_said=decode_response,
    open_player=partial(load_player, "codec.apis.chunk_player", "CHAT_PLAYER"),
)
"""Chat completions. The name of their spans is the one of OpenInference's instrumentor
(``docs/contract/spans.md#span-name``)."""
