"""Every way an exchange ends, over real sockets (``design.md`` section 6)."""

from __future__ import annotations

import asyncio

from telemetry.exchange import Outcome
from tests.proxy.harness import (
    ANSWER,
    DONE,
    STREAM,
    STREAMED_CHAT,
    USAGE_EVENT,
    Connection,
    ScriptedUpstream,
    join_chunks,
    request_bytes,
    running_proxy,
    send_raw,
    split_answer,
)


async def test_a_plain_answer_that_is_complete_is_ok() -> None:
    """Everything reaches the client, and the record has answer, usage and finish reason."""

    async def script(connection: Connection) -> None:
        await connection.answer()

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        status, _, body = split_answer(await send_raw(running.address, request_bytes()))
        exchange = await running.sink.wait_for()
    assert (status, body) == (b"HTTP/1.1 200 OK", ANSWER)
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.response is not None
    assert exchange.response.choices[0].message.content == "Hello"
    assert exchange.response.usage is not None
    assert exchange.response.usage.total == 4


async def test_a_stream_that_is_complete_is_ok_and_its_caused_usage_event_hidden() -> None:
    """The client sees the stream it would have had; the record has the usage."""

    async def script(connection: Connection) -> None:
        await connection.stream(*STREAM, USAGE_EVENT, DONE)

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        answer = await send_raw(running.address, request_bytes(STREAMED_CHAT))
        exchange = await running.sink.wait_for()
    body, clean = join_chunks(split_answer(answer)[2])
    assert clean
    assert body == b"".join([*STREAM, DONE])
    assert b'"stream_options":{"include_usage":true}' in upstream.last.body
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.response is not None
    assert exchange.response.usage is not None
    assert exchange.response.usage.total == 5
    assert exchange.rewrites == ("stream_options.include_usage",)


async def test_a_client_that_leaves_between_chunks_is_noticed_within_100_ms() -> None:
    """The upstream request is cancelled at once, and the record is marked, without usage."""
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(*STREAM[:2], end=False)
        gone.set_result(await connection.wait_closed_by_peer())

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(STREAMED_CHAT))
        await reader.readuntil(b"Hel")
        writer.close()
        assert await gone < 0.1
        exchange = await running.sink.wait_for()
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
    assert exchange.response is not None
    assert exchange.response.choices[0].message.content == "Hel"
    assert exchange.response.usage is None
