"""Going down: readiness first, then no new connections, then what is open."""

from __future__ import annotations

import asyncio

import pytest

from tests.proxy.harness import (
    ANSWER,
    CHAT,
    Connection,
    ScriptedUpstream,
    ask,
    request_bytes,
    running_proxy,
)


async def answer(connection: Connection) -> None:
    await connection.answer()


async def test_while_lingering_requests_are_answered_for_the_last_time() -> None:
    """Balancers need time to notice; kept-alive clients are told that this answer is the last."""
    async with (
        ScriptedUpstream(answer) as upstream,
        running_proxy(upstream.url) as running,
    ):
        kept_reader, kept_writer = await asyncio.open_connection(*running.address)
        running.proxy.linger()
        assert (await ask(running.address, request_bytes())).body == ANSWER
        kept_writer.write(request_bytes(CHAT, close=False))
        async with asyncio.timeout(1):
            data = await kept_reader.read()
        assert b"\r\nConnection: close\r\n" in data
        assert data.endswith(ANSWER)
        kept_writer.close()


async def test_while_draining_no_connection_is_accepted_and_idle_ones_are_closed() -> None:
    """With nothing open, draining takes no time."""
    async with (
        ScriptedUpstream(answer) as upstream,
        running_proxy(upstream.url, drain_seconds=30) as running,
    ):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(CHAT, close=False))
        await reader.readuntil(ANSWER)
        async with asyncio.timeout(1):
            await running.proxy.drain()
            assert await reader.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*running.address)
        writer.close()


async def test_a_request_that_is_not_observed_is_waited_for_and_cut_too() -> None:
    """Downloads are open exchanges like chats."""

    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await connection.wait_closed_by_peer()

    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, drain_seconds=0.2) as running,
    ):
        asking = asyncio.ensure_future(
            ask(running.address, request_bytes(b"", method=b"GET", target=b"/v1/files/1"))
        )
        await asyncio.sleep(0.05)
        await running.proxy.drain()
        got = await asking
    assert (got.body, got.clean) == (b"half", False)
    assert not running.sink.frames
