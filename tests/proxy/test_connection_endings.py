"""What becomes of a connection after an answer of ours, and when the server goes down."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from proxy import sockets
from proxy.downstream import connection as downstream_connection
from proxy.downstream import server as downstream_server
from proxy.headers import Head
from proxy.limits import DownstreamLimits
from tests.proxy.raw_client import read_to_end, send_raw
from tests.proxy.serving import GET, HEAD, answer_empty, serving

if TYPE_CHECKING:
    from proxy.downstream.downstream import Answered, Downstream


# After an answer of ours.


async def test_our_side_is_closed_and_the_rest_is_dropped_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then the connection is closed on a client that never closes its own."""

    async def handler(client: Downstream) -> Answered:
        return await client.answer_error(502, "code", "message")

    async with serving(handler) as (address, server):
        monkeypatch.setattr(downstream_connection, "MAX_LINGER_SECONDS", 0.1)
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"PUT / HTTP/1.1\r\nHost: c\r\nContent-Length: 9000000\r\n\r\n")
        assert (await read_to_end(reader)).startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
        writer.write(b"x" * 100_000)
        assert len(server.connections) == 1
        async with asyncio.timeout(2):
            while server.connections:
                await asyncio.sleep(0.01)
        writer.transport.abort()


async def test_a_large_upload_in_vain_can_read_its_answer() -> None:
    """Even where reading had been paused because nobody took the body."""

    async def handler(client: Downstream) -> Answered:
        await asyncio.sleep(0.1)
        return await client.answer_error(413, "code", "message")

    async with serving(handler) as (address, _):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"PUT / HTTP/1.1\r\nHost: c\r\nContent-Length: 9000000\r\n\r\n")
        async with asyncio.timeout(5):
            for _ in range(90):
                writer.write(b"x" * 100_000)
                await writer.drain()
            data = await read_to_end(reader)
        writer.transport.abort()
    assert data.startswith(b"HTTP/1.1 413 ")


async def test_a_client_that_sends_on_behind_its_last_request_can_read_the_answer() -> None:
    """Whoever asks to close and goes on all the same is not reset for it."""
    last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with serving(answer_empty) as (address, server):
        reader, writer = await asyncio.open_connection(*address)
        for data in (last + GET, GET, GET):
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(0.05)
        assert not writer.transport.is_closing()
        assert (await read_to_end(reader)).startswith(b"HTTP/1.1 200 OK\r\n")
        assert server.state.requests_count == 1
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("by", ["server", "overflow"])
async def test_a_client_that_resets_while_it_is_answered_ends_quietly(
    by: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its reset arrives after the answer was written, and before our side is closed."""
    module = downstream_connection if by == "server" else downstream_server
    limits = DownstreamLimits(max_connections=1 if by == "server" else 0)
    was_reset = asyncio.Event()

    def half_close(transport: asyncio.Transport) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        sockets.half_close(transport)
        was_reset.set()

    async def handler(client: Downstream) -> Answered:
        return await client.answer_error(400, "a", "b")

    monkeypatch.setattr(module, "half_close", half_close)
    async with serving(handler, limits) as (address, server):
        client = socket.create_connection(address)
        client.sendall(GET)
        async with asyncio.timeout(5):
            await was_reset.wait()
            while server.connections or server._turned_away:
                await asyncio.sleep(0.002)
    assert not caplog.records or by == "overflow"
    assert not [r for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR]


async def test_an_error_in_answer_to_head_has_no_body() -> None:
    """RFC 9110 section 9.3.2."""

    async def handler(client: Downstream) -> Answered:
        return await client.answer_error(502, "code", "message")

    async with serving(handler) as (address, _):
        answer = await send_raw(address, HEAD)
    assert answer.endswith(b"Connection: close\r\n\r\n")


# Going down.


async def test_after_a_head_that_promised_more_one_more_request_is_answered() -> None:
    """It was sent before we knew, and the client may have sent its next request meanwhile."""
    go_on = asyncio.Event()

    async def handler(client: Downstream) -> Answered:
        client.begin_answer(200, "OK", Head(((b"Content-Length", b"2"),)), has_body=True)
        await client.flush()
        await go_on.wait()
        await client.send(b"ok")
        return await client.finish()

    async with serving(handler) as (address, server):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(GET)
        head = await reader.readuntil(b"\r\n\r\n")
        server.state.closing = True
        go_on.set()
        assert await reader.readexactly(2) == b"ok"
        writer.write(GET)
        waiting = asyncio.ensure_future(server.wait_until_unconnected(5))
        async with asyncio.timeout(1):
            last = await reader.read()
        assert await waiting
        writer.transport.abort()
    assert b"Connection" not in head
    assert b"\r\nConnection: close\r\n" in last
    assert last.endswith(b"ok")


async def test_a_connection_that_becomes_idle_later_is_closed_then() -> None:
    """Its answer was over before we knew, and the rest of its request came after."""
    async with serving(answer_empty) as (address, server):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"PUT / HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\nx")
        await reader.readuntil(b"\r\n\r\n")
        server.state.closing = True
        assert not await server.wait_until_unconnected(0.1)
        writer.write(b"x")
        assert await server.wait_until_unconnected(2)
        writer.close()
