"""How chats, legacy completions and embeddings end; with the other APIs' rows, all rows.

What is answered is built from ``docs/contract/apis.md#how-an-answer-ends`` and
``docs/contract/spans.md#endings``. A stream asks for its usage itself, so that the client gets
every byte of it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.corpus.built.wire import EVENTS, JSON
from tests.corpus.recordings import Recording
from tests.proxy.api_endings import BUILT, ENDINGS, Ended, cut, failed, ok, refused

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("ROWS",)

_ASKED: dict[str, dict[str, Any]] = {
    "chat.completions": {"messages": [{"role": "user", "content": "Where to?"}]},
    "completions": {"prompt": "Where to?"},
    "embeddings": {"input": "Where to?"},
}
_STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
_SLOW = {"error": {"message": "Slow down", "type": "requests", "code": "rate_limit_exceeded"}}
_HEAD = {"id": "c-1", "object": "c", "created": 1, "model": "m-1"}
_USED = {"usage": {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}}
_DONE = b"data: [DONE]\n\n"


def _record(api: str, body: Any, *, status: int = 200) -> Recording:
    streamed = isinstance(body, bytes)
    asked = {"model": "m", **_ASKED[api], **(_STREAMED if streamed else {})}
    return Recording(
        id=api,
        target=b"/v1/" + api.replace(".", "/").encode(),
        request=json.dumps(asked).encode(),
        status=status,
        head=((b"content-type", (EVENTS if streamed else JSON).encode()),),
        body=body if streamed else json.dumps(body).encode(),
    )


def _write(*chunks: dict[str, Any], end: bytes = _DONE) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in chunks) + end


class _Words:
    """The bodies of an API that answers with words.

    Attributes:
        api: its name, of chats or of legacy completions.
    """

    def __init__(self, api: str) -> None:
        self.api = api

    def _choose(self, said: str, reason: str | None, member: str) -> dict[str, Any]:
        is_chat = self.api == "chat.completions"
        words = {member: {"role": "assistant", "content": said}} if is_chat else {"text": said}
        choice = {"index": 0, "finish_reason": reason, **words}
        return {"choices": [choice], **_HEAD}

    def _end(self, reason: str) -> Recording:
        """Words, a reason, the usage and [DONE]."""
        last = self._choose("", reason, "delta") | {"choices": []} | _USED
        chunks = (self._choose("Ahoy", None, "delta"), self._choose("", reason, "delta"), last)
        return _record(self.api, _write(*chunks))

    def _whole(self, reason: str) -> Recording:
        """The same in one piece."""
        return _record(self.api, self._choose("Ahoy", reason, "message") | _USED)

    def list_all(self) -> Iterator[tuple[str, Recording, Ended]]:
        """Each answer under its name, with how its call ends."""
        words = self._choose("Ahoy", None, "delta")
        for written, form in ((self._end, "in pieces"), (self._whole, "in one piece")):
            yield f"words {form}", written("stop"), ok("stop")
            yield f"words cut by their limit {form}", written("length"), ok("length")
            filtered = written("content_filter")
            yield f"words that a filter cut {form}", filtered, ok("content_filter")
            yield f"a reason that is an error {form}", written("error"), failed("error", "error")
        broken = _record(self.api, _write(words, _SLOW))
        yield "an error among words", broken, failed("rate_limit_exceeded")
        yield "nothing but an error", _record(self.api, _write(_SLOW, end=b"")), _FAILED
        yield "words without an end", _record(self.api, _write(words, end=b"")), cut()
        reason = self._choose("", "stop", "delta")
        unmarked = _record(self.api, _write(words, reason, end=b""))
        yield "words without the mark of their end", unmarked, ok("stop")
        unreasoned = _record(self.api, _write(words))
        yield "words without a reason", unreasoned, ok(None, "no_finish_reason")
        yield "an error in one piece", _record(self.api, _SLOW), _FAILED
        yield "refused by its status", _record(self.api, _SLOW, status=429), refused(429)


def _refuse() -> Iterator[tuple[str, Recording, Ended]]:
    """The model's refusals, which only chats have a member for."""
    choice = {"index": 0, "finish_reason": "stop"}
    said = {"role": "assistant", "content": None, "refusal": "I must not"}
    body = _HEAD | _USED
    told, declined = "chat.completions", ok("stop", refused=True)
    chunk = body | {"choices": [choice | {"delta": said}]}
    yield "a refusal in pieces", _record(told, _write(chunk)), declined
    whole = body | {"choices": [choice | {"message": said}]}
    yield "a refusal in one piece", _record(told, whole), declined


_FAILED = failed("rate_limit_exceeded")
_VECTORS = {"object": "list", "data": [{"index": 0, "embedding": [0.25, -0.5]}], "model": "m-1"}
_EMBEDDINGS = {
    "vectors": (_record("embeddings", _VECTORS), ok()),
    "an error in one piece": (_record("embeddings", _SLOW), _FAILED),
    "refused by its status": (_record("embeddings", _SLOW, status=429), refused(429)),
}
ROWS: dict[tuple[str, str], tuple[Recording, Ended]] = {
    **{(api, name): (one, ENDINGS[api][name]) for (api, name), one in BUILT.items()},
    **{
        (api, name): (recording, ended)
        for api in ("chat.completions", "completions")
        for name, recording, ended in _Words(api).list_all()
    },
    **{("chat.completions", name): (recording, ended) for name, recording, ended in _refuse()},
    **{("embeddings", name): row for name, row in _EMBEDDINGS.items()},
}
"""What is answered, and how the call ends, by the API and a name: of every API."""
