"""One call of a client, and what the upstream does about it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from openai.resources.chat import Completions as ChatCompletions
from openai.resources.completions import Completions
from openai.resources.embeddings import Embeddings
from openai.resources.responses import Responses

from codec.apis.chat import CHAT
from codec.apis.completions import COMPLETIONS
from codec.apis.embeddings.route import EMBEDDINGS
from codec.apis.responses.route import RESPONSES
from tests.corpus.oracle import parse_json
from tests.corpus.recordings import (
    load_chats,
    load_completions,
    load_dynamo,
    load_embeddings,
    load_responses,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from codec.apis.api import Api
    from codec.text.jsontext import JsonObject
    from tests.corpus.recordings import Recording

__all__ = ("EVENTS", "JSON", "Call", "load_recorded_calls")

Head = tuple[tuple[bytes, bytes], ...]

JSON: Head = ((b"content-type", b"application/json"),)
EVENTS: Head = ((b"content-type", b"text/event-stream"),)

_CREATE: dict[Api, Callable[..., Any]] = {
    CHAT: ChatCompletions.create,
    COMPLETIONS: Completions.create,
    EMBEDDINGS: Embeddings.create,
    RESPONSES: Responses.create,
}
_REQUIRED = {
    CHAT: {"model", "messages"},
    COMPLETIONS: {"model", "prompt"},
    EMBEDDINGS: {"model", "input"},
    RESPONSES: {"model"},
}
"""Members without which the SDK makes no call."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call.

    Attributes:
        id: names it in a failure.
        body: what the client sends.
        headers: what it sends besides.
        answer: the body of the answer, ``None`` for a connection that is reset instead.
        status: the answer's.
        head: the answer's fields, framing left out.
        leaves_after: so many chunks the client reads before it leaves; they are all that the
            upstream has sent by then. ``None`` for a client that reads to the end.
        breaks_off: once the client has read all of ``answer``, the upstream resets the connection.
    """

    id: str
    api: Api = CHAT
    body: JsonObject
    headers: dict[str, str] = field(default_factory=dict)
    answer: bytes | None
    status: int = 200
    head: Head = JSON
    leaves_after: int | None = None
    breaks_off: bool = False

    @property
    def streams(self) -> bool:
        """Whether the client asks for a stream."""
        return self.body.get("stream") is True

    @property
    def asks_usage(self) -> bool:
        """Whether the usage of a stream comes: the client asks, or it always does."""
        if self.api is RESPONSES:
            return True
        options = self.body.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    @property
    def arguments(self) -> JsonObject:
        """What the SDK's ``create`` is called with."""
        extra = self.extra_body
        known = {key: value for key, value in self.body.items() if key not in extra}
        return known | {"extra_body": extra or None, "extra_headers": self.headers}

    @property
    def extra_body(self) -> JsonObject:
        """The members of the body for which the SDK has no parameter."""
        names = _parameters(self.api)
        return {key: value for key, value in self.body.items() if key not in names}


@cache
def _parameters(api: Api) -> frozenset[str]:
    return frozenset(inspect.signature(_CREATE[api]).parameters)


def load_recorded_calls(folder: Path) -> Iterator[Call]:
    """The recorded exchanges that this SDK can make: all but two.

    These are a chat with a prompt that the provider keeps, and an embedding of Ollama's own.
    """
    chats = (*load_chats(folder), *load_dynamo(folder))
    texts = (*load_completions(folder), *load_dynamo(folder, legacy=True))
    for api, recordings in (
        (CHAT, chats),
        (COMPLETIONS, texts),
        (EMBEDDINGS, (*load_embeddings(folder),)),
        (RESPONSES, (*load_responses(folder),)),
    ):
        calls = (_recorded_call(recording, api) for recording in recordings)
        yield from (call for call in calls if call.body.keys() >= _REQUIRED[api])


def _recorded_call(recording: Recording, api: Api) -> Call:
    return Call(
        id=recording.id,
        api=api,
        body=parse_json(recording.request),
        answer=recording.body,
        status=recording.status,
        head=recording.head,
    )
