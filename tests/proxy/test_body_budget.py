"""What the bodies of all open calls together may take: counted, bounded, given back."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from proxy.request_body import BodyBudget, BodyShare
from tests.proxy.harness import (
    ANSWER,
    CHAT,
    DONE,
    STREAM,
    STREAMED_CHAT,
    USAGE_EVENT,
    Connection,
    RunningProxy,
    relaying,
    request_bytes,
    running_proxy,
)
from tests.proxy.raw_client import ask, parse_answer, read_answer, until

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

MIB = 1024 * 1024


def padded(body: bytes, size: int) -> bytes:
    """The same JSON with so many bytes."""
    return body[:-1] + b" " * (size - len(body)) + b"}"


def recorded(running: RunningProxy, size: int) -> Exchange:
    """The one exchange whose client sent so many bytes, or of whose body so many were read."""
    [found] = [e for e in running.sink.exchanges if e.request_size_bytes == size]
    return found


def test_a_share_is_taken_where_there_is_room_and_given_back_once() -> None:
    """What found no room is not counted."""
    budget = BodyBudget(10)
    first, second = BodyShare(budget), BodyShare(budget)
    assert first.reserve(6)
    assert not second.reserve(5)
    assert second.reserve(4)
    assert budget.held_bytes == 10
    for _ in range(2):
        first.give_back()
    assert budget.held_bytes == 4
    second.give_back()
    assert budget.held_bytes == 0


async def test_a_body_without_room_beside_the_others_is_relayed_as_it_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The upstream has it before its end; nobody waits; its span is marked, the other's is whole.

    One log line says so, whatever their number.
    """
    body = padded(CHAT, 700_000)
    async with relaying(max_bodies_bytes=MIB) as (upstream, running):
        clients = [await asyncio.open_connection(*running.address) for _ in range(3)]
        for number, (_, writer) in enumerate(clients):
            writer.write(request_bytes(body)[:-100_000])
            await until(lambda: len(upstream.requests) >= number)  # noqa: B023 - awaited here
            if number == 0:
                await until(lambda: running.bodies.held_bytes >= 500_000)
        assert len(upstream.requests) == 2
        assert running.bodies.held_bytes <= MIB
        for reader, writer in reversed(clients):
            writer.write(body[-100_000:])
            assert parse_answer(await read_answer(reader), reset=False).body == ANSWER
            writer.close()
        await running.sink.wait_for(3)
        assert [request.body for request in upstream.requests] == [body] * 3
        assert running.bodies.held_bytes == 0
    assert recorded(running, len(body)).request_body == body
    marked = [e for e in running.sink.exchanges if e.request_body is None]
    assert len(marked) == 2
    assert all(0 < e.request_size_bytes < len(body) for e in marked)
    lines = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert "max_bodies_bytes" in lines[0]


@pytest.mark.parametrize(("size", "asks"), [(400_000, True), (700_000, False)])
async def test_a_body_is_rewritten_only_where_there_is_room_for_both(
    size: int, *, asks: bool
) -> None:
    """The client's own may have to be sent after all; it is recorded either way."""
    body = padded(STREAMED_CHAT, size)
    async with relaying(lambda c: c.stream(*STREAM, USAGE_EVENT, DONE), max_bodies_bytes=MIB) as (
        upstream,
        running,
    ):
        answered = await ask(running.address, request_bytes(body))
        exchange = await running.sink.wait_for()
        assert (b"include_usage" in upstream.last.body) is asks
        assert asks or upstream.last.body == body
    assert (USAGE_EVENT in answered.body) is not asks
    assert exchange.request_body == body
    assert running.bodies.held_bytes == 0


async def test_an_answer_that_goes_on_holds_nothing_of_its_request() -> None:
    """Long streams leave the room to the bodies that come."""
    go_on = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(STREAM[0], end=False)
        await go_on.wait()
        await connection.send_chunks(*STREAM[1:], USAGE_EVENT, DONE)

    body = padded(STREAMED_CHAT, 500_000)
    async with relaying(script, max_bodies_bytes=MIB) as (upstream, running):
        clients = [await asyncio.open_connection(*running.address) for _ in range(3)]
        for reader, writer in clients:
            writer.write(request_bytes(body))
            await reader.readuntil(STREAM[0])
            assert running.bodies.held_bytes == 0
        go_on.set()
        await running.sink.wait_for(3)
        for _, writer in clients:
            writer.close()
    assert all(b"include_usage" in request.body for request in upstream.requests)


async def test_an_early_answer_leaves_the_body_counted_until_the_upstream_has_it() -> None:
    """It is held for as long as it is sent."""
    body = padded(CHAT, 30 * MIB)
    read_on, done = asyncio.Event(), asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(STREAM[0], end=False)
        await read_on.wait()
        await connection.reader.readexactly(len(body))
        await done.wait()
        await connection.send_chunks(DONE)

    async with relaying(script, reads_body=False) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(body))
        await reader.readuntil(STREAM[0])
        assert running.bodies.held_bytes == len(body)
        read_on.set()
        await until(lambda: running.bodies.held_bytes == 0)
        assert not running.sink.exchanges
        done.set()
        await running.sink.wait_for()
        writer.close()


async def test_what_a_call_held_is_given_back_however_it_ends() -> None:
    """The client leaves, its framing breaks, the upstream is not there, or cuts it off."""
    chunked = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def script(connection: Connection) -> None:
        connection.reset()

    async with relaying(script, max_bodies_bytes=MIB) as (_, running):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(padded(CHAT, 5000))[:-1])
        await until(lambda: running.bodies.held_bytes > 0)
        writer.close()
        await until(lambda: running.bodies.held_bytes == 0)
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(chunked + b"5\r\nabcde\r\n")
        await until(lambda: running.bodies.held_bytes == 5)
        writer.write(b"zz\r\n")
        assert b" 400 " in await reader.readline()
        writer.close()
        assert running.bodies.held_bytes == 0
        assert (await ask(running.address, request_bytes())).status == 502
        assert running.bodies.held_bytes == 0
    async with running_proxy("http://127.0.0.1:9", max_bodies_bytes=MIB) as running:
        assert (await ask(running.address, request_bytes())).status == 502
        assert running.bodies.held_bytes == 0
