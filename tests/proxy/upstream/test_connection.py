"""Connections to upstreams: heads however they come, idle ones looked at, silence watched."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from proxy.on_disconnect import OnDisconnect
from proxy.sockets import has_unread
from tests.proxy.harness import ANSWER, Connection, ScriptedUpstream, relaying, request_bytes
from tests.proxy.raw_client import ask
from tests.proxy.upstream.test_client import get, open_client, read_all

if TYPE_CHECKING:
    from proxy.upstream.connection import UpstreamConnection

EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"


async def test_what_comes_on_an_idle_connection_is_no_answer() -> None:
    """It ends the connection, and the next request goes out on a new one."""
    sent = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.answer()
        if connection.number == 1:
            await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
            sent.set()

    async with ScriptedUpstream(script) as upstream, open_client() as client:
        assert await read_all(await client.send(get(upstream.url))) == ANSWER
        await sent.wait()
        await asyncio.sleep(0.01)
        assert await read_all(await client.send(get(upstream.url))) == ANSWER
        assert upstream.connections == 2


async def test_a_connection_that_was_lost_is_readable() -> None:
    """No socket left to look at: of no use either."""
    async with ScriptedUpstream(lambda c: c.answer()) as upstream, open_client() as client:
        response = await client.send(get(upstream.url))
        await response.read()
        connection = cast("UpstreamConnection", response._connection)
        assert not has_unread(connection.transport)
        connection.transport.abort()
        await asyncio.sleep(0.01)
        assert has_unread(connection.transport)
        response.close()


async def test_a_half_sent_request_is_never_followed_by_another() -> None:
    """The next one would be read as the rest of its body.

    The client leaves in the middle of a body over the limit, and the upstream answers early and
    keeps the connection.
    """
    answered = asyncio.Event()

    async def script(connection: Connection) -> None:
        if connection.number == 1:
            await asyncio.sleep(0.3)
            await connection.answer(b"no", status=b"413 Content Too Large")
            answered.set()
            await connection.wait_closed_by_peer()
        else:
            await connection.answer()

    async with relaying(
        script, reads_body=False, on_disconnect=OnDisconnect.DRAIN, max_body_bytes=1024
    ) as (upstream, running):
        _, writer = await asyncio.open_connection(*running.address)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n"
        writer.write(head + b"{" * 2000)
        await asyncio.sleep(0.1)
        writer.close()
        await answered.wait()
        await running.sink.wait_for()
        answer = await ask(running.address, request_bytes(target=b"/v1/files"))
        assert answer.body == ANSWER
        assert upstream.connections == 2


async def test_closing_an_answer_twice_leaves_its_successor_alone() -> None:
    """The connection belongs to the next exchange by then."""
    waiting = asyncio.Event()

    async def script(connection: Connection) -> None:
        if connection.number == 2:
            await waiting.wait()
        await connection.answer()

    async with ScriptedUpstream(script) as upstream, open_client() as client:
        first = await client.send(get(upstream.url))
        assert await read_all(first) == ANSWER
        second = asyncio.ensure_future(client.send(get(upstream.url)))
        await asyncio.sleep(0.02)
        first.close()
        waiting.set()
        assert await read_all(await second) == ANSWER
        assert upstream.connections == 1
