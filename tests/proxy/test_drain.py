"""Going down: readiness first, then no new connections, then what is open."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.proxy.harness import ANSWER, CHAT, Connection, relaying, request_bytes
from tests.proxy.raw_client import ask


async def test_while_lingering_requests_are_answered_for_the_last_time() -> None:
    """Balancers need time to notice; kept-alive clients are told that this answer is the last."""
    async with relaying() as (_, running):
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
    async with relaying(drain_seconds=30) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(CHAT, close=False))
        await reader.readuntil(ANSWER)
        async with asyncio.timeout(1):
            await running.proxy.drain()
            assert await reader.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*running.address)
        writer.close()


async def read_answer(sock: socket.socket) -> bytes:
    """All that comes until the other side closes; empty where it resets at once."""
    reader, writer = await asyncio.open_connection(sock=sock)
    try:
        async with asyncio.timeout(5):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.transport.abort()


async def test_what_the_kernel_has_taken_when_draining_begins_is_answered() -> None:
    """Connections that nobody has accepted yet, with a request or with the beginning of one."""
    async with relaying(drain_seconds=30) as (_, running):
        socks = [socket.create_connection(running.address) for _ in range(20)]
        request = request_bytes(CHAT, close=False)
        for number, sock in enumerate(socks):
            sock.sendall(request if number % 2 else request[:30])
        draining = asyncio.ensure_future(running.proxy.drain())
        await asyncio.sleep(0.1)
        for sock in socks[::2]:
            sock.sendall(request[30:])
        answers = [await read_answer(sock) for sock in socks]
        await draining
        await running.sink.wait_for(20)
    assert all(data.endswith(ANSWER) for data in answers)


def _read_until(sock: socket.socket, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end) and (piece := sock.recv(65_536)):
        data += piece
    return data


async def test_a_request_that_came_on_a_kept_connection_when_draining_begins_is_answered() -> None:
    """It lies in the socket, and the connection seems idle."""
    async with relaying(drain_seconds=30) as (_, running):
        socks = [socket.create_connection(running.address) for _ in range(10)]
        request = request_bytes(CHAT, close=False)
        for sock in socks:
            sock.sendall(request)
        # On threads: who waits here on the loop keeps the proxy from answering.
        before = [await asyncio.to_thread(_read_until, sock, ANSWER) for sock in socks]
        for sock in socks:
            sock.sendall(request)
        draining = asyncio.ensure_future(running.proxy.drain())
        after = [await read_answer(sock) for sock in socks]
        await draining
    assert all(data.endswith(ANSWER) for data in before + after)


async def test_a_request_that_is_not_observed_is_waited_for_and_cut_too() -> None:
    """Downloads are open exchanges like chats."""

    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await connection.wait_closed_by_peer()

    async with relaying(script, drain_seconds=0.2) as (_, running):
        asking = asyncio.ensure_future(
            ask(running.address, request_bytes(b"", method=b"GET", target=b"/v1/files/1"))
        )
        await asyncio.sleep(0.05)
        await running.proxy.drain()
        got = await asking
    assert (got.body, got.clean) == (b"half", False)
    assert not running.sink.frames
