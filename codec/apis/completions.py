"""Legacy completions, which have prompts instead of messages.

Requests differ from those of chats; answers and streams are folded as chats are
(:mod:`codec.chat`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from codec.apis.api import Api, Content, load_player
from codec.chat.accumulator import MAX_CHOICES
from codec.chat.request import ChatRequest
from codec.chat.response import decode_response
from codec.chat.stream import ChatStream
from codec.chat.usage_option import STREAM_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.chat.answer import ChatResponse

__all__ = ("COMPLETIONS",)


class CompletionRequest(ChatRequest, frozen=True, gc=False):
    """A request to continue prompts."""

    @property
    def choice_count(self) -> int:
        """The number of choices asked for: ``n`` for each prompt."""
        return min(super().choice_count * max(len(self.prompts), 1), MAX_CHOICES)

    def read_texts(self) -> Sequence[Any]:
        """Read the prompts: texts, lists of token ids, or neither."""
        return self.prompts


def _read_completion(body: bytes) -> ChatResponse:
    """Read the body of an answer, or of an error.

    The path of llama.cpp's own API ends like this one's. Its answers have ``content`` in the place
    of choices; such a body is an answer, and is kept as it came.

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
    read_said=_read_completion,
    open_player=partial(load_player, "codec.apis.chunk_player", "COMPLETION_PLAYER"),
)
"""Legacy completions. The name of their spans is the one of OpenInference's instrumentor
(``docs/contract/spans.md#span-name``)."""
