"""A client of the demo upstream over real sockets, and the requests it sends."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from aiohttp.test_utils import TestClient, TestServer

from codec.text.jsontext import decode_json_object
from proxy.demo.script import MODEL
from proxy.demo.upstream import Pace, create_demo_upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web

    from codec.text.jsontext import JsonObject

    Client = TestClient[web.Request, web.Application]


AT_ONCE = Pace(first_seconds=0, chunk_seconds=0)


@contextlib.asynccontextmanager
async def demo_client(dialect: str = "openai", pace: Pace = AT_ONCE) -> AsyncIterator[Client]:
    """A client of a demo upstream, of one that does not wait where no pace is given."""
    app = create_demo_upstream(pace=pace, dialect=dialect)
    async with TestClient(TestServer(app)) as client:
        yield client


def ask(question: str = "Hello", **members: Any) -> JsonObject:
    """A request with one question."""
    return {"model": MODEL, "messages": [{"role": "user", "content": question}], **members}


def prompt(text: Any = "Hello over there", **members: Any) -> JsonObject:
    """A legacy request."""
    return {"model": MODEL, "prompt": text, **members}


async def complete(client: Client, request: JsonObject) -> JsonObject:
    """Send a request, expect 200 and return the body."""
    async with client.post("/v1/chat/completions", json=request) as response:
        assert response.status == 200
        assert response.headers["x-request-id"].startswith("req_")
        return decode_json_object(await response.read())


async def stream(client: Client, request: JsonObject) -> list[JsonObject]:
    """Send a streaming request, check its framing and return its chunks."""
    async with client.post("/v1/chat/completions", json=request | {"stream": True}) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        *events, done, rest = (await response.read()).split(b"\n\n")
        assert (done, rest) == (b"data: [DONE]", b"")
        return [decode_json_object(event.removeprefix(b"data: ")) for event in events]


def text_of(chunks: list[JsonObject], index: int = 0, member: str = "content") -> str:
    """What the deltas of one choice add up to."""
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return "".join(c["delta"].get(member) or "" for c in choices if c["index"] == index)
