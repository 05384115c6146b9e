"""Responses over a WebSocket at the demo upstream."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession, WSServerHandshakeError
from aiohttp.test_utils import TestServer

from codec.text.jsontext import decode_json_object, encode_json
from proxy.demo.script import ERROR_MODEL
from proxy.demo.upstream import Pace, create_demo_upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import ClientWebSocketResponse


@contextlib.asynccontextmanager
async def connected(path: str = "/v1/responses") -> AsyncIterator[ClientWebSocketResponse]:
    """A client of the demo upstream."""
    app = create_demo_upstream(pace=Pace(first_seconds=0.01, chunk_seconds=0.001))
    async with (
        TestServer(app) as server,
        ClientSession() as session,
        session.ws_connect(server.make_url(path)) as client,
    ):
        yield client


async def say(client: ClientWebSocketResponse, **create: Any) -> None:
    """Ask for a response."""
    await client.send_str(encode_json({"type": "response.create", **create}))


async def hear(client: ClientWebSocketResponse) -> list[dict[str, Any]]:
    """The events up to the last one of a response."""
    events = []
    async with asyncio.timeout(10):
        while True:
            event = decode_json_object((await client.receive_str()).encode())
            events.append(event)
            if event["type"] in {"response.completed", "error"}:
                return events


async def test_each_request_gets_the_events_of_an_answer() -> None:
    """As over HTTP, one in each message."""
    async with connected() as client:
        for _ in range(2):
            await say(client, model="gpt-demo", input="Hello")
            events = await hear(client)
            assert events[0]["type"] == "response.created"
            assert events[-1]["response"]["output"]


async def test_a_request_that_only_warms_up_gets_no_output() -> None:
    """Its input is counted."""
    async with connected() as client:
        await say(client, model="gpt-demo", input="Hello", generate=False)
        events = await hear(client)
        assert [event["type"] for event in events][-1] == "response.completed"
        assert events[-1]["response"]["output"] == []
        assert events[-1]["response"]["usage"]["output_tokens"] == 0
        assert not any("delta" in event["type"] for event in events)


async def test_a_request_that_continues_a_response_has_the_whole_conversation() -> None:
    """Its directions lead on, and all of it is counted; a lane may continue another one's."""
    question = 'Sail.\nsay "One."\nsay "Two."\nsay "Three."'
    async with connected() as client:
        await say(client, model="gpt-demo", input=question, generate=False)
        response = (await hear(client))[-1]["response"]
        texts, counts = [], []
        for lane in (None, "a", "a"):
            members = {} if lane is None else {"stream_id": lane}
            more = {"input": [], "previous_response_id": response["id"], **members}
            await say(client, model="gpt-demo", **more)
            response = (await hear(client))[-1]["response"]
            texts.append(response["output"][0]["content"][0]["text"])
            counts.append(response["usage"]["input_tokens"])
    assert texts == ["One.", "Two.", "Three."]
    assert counts == sorted({*counts})


async def test_lanes_answer_beside_each_other() -> None:
    """Each event says of which lane it is."""
    async with connected() as client:
        for lane in ("a", "b"):
            await say(client, model="gpt-demo", input="Hello", stream_id=lane)
        events = [*await hear(client), *await hear(client)]
        order = [event["stream_id"] for event in events]
        assert {*order} == {"a", "b"}
        assert order != sorted(order)


@pytest.mark.parametrize(
    ("create", "code"),
    [
        ({"model": 1, "input": "x"}, None),
        ({"model": ERROR_MODEL, "input": "x"}, "rate_limit_exceeded"),
    ],
)
async def test_what_cannot_be_answered_is_an_error(
    create: dict[str, Any], code: str | None
) -> None:
    """The connection goes on."""
    async with connected() as client:
        await say(client, **create)
        [error] = await hear(client)
        assert error["error"]["code"] == code
        await client.send_str("words")
        [error] = await hear(client)
        assert "no such event" in error["error"]["message"]
        await say(client, model="gpt-demo", input="Hello")
        assert (await hear(client))[-1]["type"] == "response.completed"


async def test_other_paths_have_no_websocket() -> None:
    """They are unknown, as over HTTP."""
    with pytest.raises(WSServerHandshakeError):
        async with connected("/v1/chat/completions"):
            pass
