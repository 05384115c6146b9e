"""The worker as a whole: it starts whole or not at all, and goes down without taking anything."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

import pytest

from proxy.app import Proxy
from proxy.settings.settings import Settings
from telemetry.errors import ConfigurationError
from tests.proxy.harness import ANSWER, CHAT, Connection, ObservingSink, relaying, request_bytes
from tests.proxy.raw_client import (
    join_chunks,
    parse_answer,
    read_to_end,
    read_with_end,
    receive_to_end,
    slow_client,
    split_answer,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.proxy.harness import RunningProxy
from tests.proxy.side_by_side import CHAT_TARGET, TARGETS

# Starting.


async def test_a_start_that_fails_leaves_nothing_open() -> None:
    """What is left open is a warning, which fails a test."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        settings = Settings(upstream="http://127.0.0.1:1", port=other.getsockname()[1])
        proxy = Proxy(settings, ObservingSink())
        with pytest.raises(
            ConfigurationError,
            match="another program listens there: name another port with --port or SPANTAP_PORT",
        ):
            await proxy.start()


# Going down.


@TARGETS
async def test_an_upload_in_progress_ends_while_draining(target: bytes) -> None:
    """The rest of its body arrives, and so does its answer, which is told to be the last.

    An idle connection is closed at once.
    """
    async with relaying(drain_seconds=5) as (upstream, running):
        idle, idle_writer = await asyncio.open_connection(*running.address)
        reader, writer = await asyncio.open_connection(*running.address)
        request = request_bytes(CHAT, target=target, close=False)
        writer.write(request[:-10])
        async with asyncio.timeout(2):
            while not len(running.proxy.open_exchanges):
                await asyncio.sleep(0.005)
        draining = asyncio.ensure_future(running.proxy.drain())
        assert await read_to_end(idle) == b""
        idle_writer.close()
        await asyncio.sleep(0.05)
        assert not draining.done()
        writer.write(request[-10:])
        async with asyncio.timeout(2):
            raw, reset = await read_with_end(reader)
            await draining
        writer.close()
    answer = parse_answer(raw, reset=reset)
    assert (answer.status, answer.body) == (200, ANSWER)
    assert answer.field(b"connection") == b"close"
    assert upstream.last.body == CHAT


@contextlib.asynccontextmanager
async def unread_answer(
    request: bytes, *, drain_seconds: float
) -> AsyncIterator[tuple[RunningProxy, socket.socket, list[int]]]:
    """A finished answer of which more waits in the proxy than the kernel takes.

    Yields the proxy, the client, and how long the body is.
    """
    size = [0]
    proxies: list[RunningProxy] = []

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        while not _unsent_bytes(proxies[0]):
            await connection.send_chunks(b"x" * 8192, end=False)
            size[0] += 8192
            await asyncio.sleep(0)
        await connection.send_chunks()

    async with relaying(script, drain_seconds=drain_seconds) as (_, running):
        proxies.append(running)
        async with slow_client(running.address, request) as client:
            await running.sink.wait_for()
            assert len(running.proxy.open_exchanges) == 0
            assert _unsent_bytes(running)
            yield running, client, size


def _unsent_bytes(running: RunningProxy) -> int:
    streams = [connection.stream for connection in running.server.connections]
    return sum(stream.transport.get_write_buffer_size() for stream in streams)


@pytest.mark.parametrize("close", [False, True], ids=["kept", "closed"])
async def test_draining_waits_for_the_last_byte_of_an_answer_to_be_sent(close: bool) -> None:
    """The exchange is over long before a slow client has it all."""
    request = request_bytes(target=CHAT_TARGET, close=close)
    async with unread_answer(request, drain_seconds=10) as (running, client, size):
        draining = asyncio.ensure_future(running.proxy.drain())
        await asyncio.sleep(0.2)
        assert not draining.done()
        data, was_reset = await receive_to_end(client)
        async with asyncio.timeout(1):
            await draining
    body, is_whole = join_chunks(split_answer(data)[2])
    assert (len(body), is_whole, was_reset) == (size[0], True, False)


async def test_draining_waits_for_no_client_past_its_deadline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that never reads ends as it came: an answer that only the end delimits is reset."""
    request = request_bytes(target=CHAT_TARGET).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    async with unread_answer(request, drain_seconds=0.2) as (running, client, size):
        async with asyncio.timeout(2):
            await running.proxy.drain()
            await running.proxy.close()
        data, was_reset = await receive_to_end(client)
    assert len(data) < size[0]
    assert was_reset
    [record] = [record for record in caplog.records if record.name == "spantap"]
    assert record.getMessage() == "drain deadline: cutting 0 open exchanges, 1 connections left"
