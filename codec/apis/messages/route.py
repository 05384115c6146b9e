"""The route of Messages, and the names of their spans."""

from __future__ import annotations

from functools import partial

from codec.apis.api import Api, load_player
from codec.apis.messages.asked import MessageRequest
from codec.apis.messages.said import read_answer
from codec.apis.messages.stream import MessageStream

__all__ = ("MESSAGES",)

_ON_VERTEX = "/publishers/anthropic/models/"
_THREADS = "/threads/"


def _owns(path: str) -> bool:
    """Tell whether it is a path of Messages: OpenAI's Assistants had messages in threads."""
    return _ON_VERTEX in path if path.endswith("Predict") else _THREADS not in path


MESSAGES = Api(
    name="messages",
    path_ends=("/messages", ":rawPredict", ":streamRawPredict"),
    owns=_owns,
    operation="chat",
    span_name="Message",
    system="anthropic",
    shows_past_reasoning=True,
    calls_are_parts=True,
    asked=MessageRequest,
    open_stream=MessageStream,
    read_said=read_answer,
    open_player=partial(load_player, "codec.apis.messages.player", "PLAYER"),
)
"""Messages. The name of their spans is Envoy's gateway's (``docs/contract/apis.md#span-names``)."""
