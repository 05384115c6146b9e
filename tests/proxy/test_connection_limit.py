"""How many clients a worker serves at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
from typing import TYPE_CHECKING

from proxy.downstream import server
from proxy.limits import MAX_OTHER_FILES, fit_file_limit
from tests.proxy.harness import (
    DONE,
    STREAM,
    STREAMED_CHAT,
    Connection,
    RunningProxy,
    relaying,
    request_bytes,
)
from tests.proxy.raw_client import ask, parse_answer, read_answer, read_to_end, read_with_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest


@contextlib.asynccontextmanager
async def crowded(count: int) -> AsyncIterator[RunningProxy]:
    """As many idle connections as there may be."""
    async with relaying(max_connections=count) as (_, running):
        writers = []
        for _ in range(count):
            reader, writer = await asyncio.open_connection(*running.address)
            writer.write(request_bytes(close=False))
            await read_answer(reader)
            writers.append(writer)
        try:
            yield running
        finally:
            for writer in writers:
                writer.transport.abort()


async def test_one_connection_too_many_is_told_so_and_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """503, OpenAI-shaped; counted, and one log line whatever their number."""
    async with crowded(2) as running:
        for _ in range(3):
            refused = await ask(running.address, request_bytes())
            assert refused.status == 503
            assert refused.error["code"] == "too_many_connections"
            assert refused.error["type"] == "spantap_error"
            assert refused.field(b"connection") == b"close"
            assert (refused.clean, refused.reset) == (True, False)
        assert running.server.state.turned_away_count == 3
        assert running.server.state.refused_count == 0
    lines = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert lines == ["turned a client away: 2 connections are open (max_connections)"]


async def test_open_connections_go_on_undisturbed_and_room_is_used_again() -> None:
    """A stream flows to its end beside the refusals; a connection that ends makes room."""
    go_on = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(STREAM[0], end=False)
        await go_on.wait()
        await connection.send_chunks(*STREAM[1:], DONE)

    async with relaying(script, max_connections=1) as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(STREAMED_CHAT))
        await reader.readuntil(STREAM[0])
        assert (await ask(running.address, request_bytes())).status == 503
        go_on.set()
        rest = await read_to_end(reader)
        assert rest.endswith(b"0\r\n\r\n")
        assert STREAM[-1] in rest
        writer.close()
        assert len(upstream.requests) == 1
        assert (await ask(running.address, request_bytes(STREAMED_CHAT))).status == 200


async def test_connections_that_come_in_one_turn_of_the_loop_are_counted_too() -> None:
    """The limit holds for a burst."""
    go_on = asyncio.Event()

    async def script(connection: Connection) -> None:
        await go_on.wait()
        await connection.answer()

    async with relaying(script, max_connections=5) as (_, running):
        asking = [asyncio.ensure_future(ask(running.address, request_bytes())) for _ in range(40)]
        while running.server.state.turned_away_count < 35:
            await asyncio.sleep(0.001)
        go_on.set()
        statuses = sorted([(await each).status for each in asking])
        assert statuses == [200] * 5 + [503] * 35


async def test_who_is_turned_away_can_read_why_though_it_uploads() -> None:
    """What is sent is dropped: a reset would take the answer from the client."""
    async with crowded(1) as running:
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(b"x" * 3_000_000))
        async with asyncio.timeout(5):
            await writer.drain()
            raw, reset = await read_with_end(reader)
        assert parse_answer(raw, reset=reset).error["code"] == "too_many_connections"
        assert not reset
        writer.transport.abort()


async def test_who_is_turned_away_on_head_gets_no_body() -> None:
    """RFC 9110 section 9.3.2."""
    async with crowded(1) as running:
        refused = await ask(running.address, b"HEAD /v1/models HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (refused.status, refused.body) == (503, b"")


async def test_who_is_turned_away_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends nothing is closed all the same, and so many are held at most."""
    monkeypatch.setattr(server, "MAX_TURNED_AWAY_SECONDS", 0.3)
    monkeypatch.setattr("proxy.downstream.server.MAX_TURNED_AWAY", 1)
    async with crowded(1) as running:
        held, held_writer = await asyncio.open_connection(*running.address)
        while running.server.state.turned_away_count < 1:
            await asyncio.sleep(0.001)
        beyond, beyond_writer = await asyncio.open_connection(*running.address)
        assert await read_to_end(beyond) == b""
        assert not held.at_eof()
        assert await read_to_end(held) == b""
        # There is room for the next one to be told.
        assert (await ask(running.address, request_bytes())).status == 503
        held_writer.close()
        beyond_writer.close()


async def test_a_server_that_goes_down_ends_those_that_it_turned_away() -> None:
    """They are no open connections, but they are open."""
    async with crowded(1) as running:
        reader, writer = await asyncio.open_connection(*running.address)
        while not running.server.state.turned_away_count:
            await asyncio.sleep(0.001)
        await running.server.shutdown(0.1)
        assert await read_to_end(reader) == b""
        writer.close()


def test_there_are_no_more_connections_than_open_files(caplog: pytest.LogCaptureFixture) -> None:
    """Each takes two; what is set wins where it is less, and the operator is told where not."""
    assert fit_file_limit(4096, 1_048_576) == 4096
    assert fit_file_limit(4096, resource.RLIM_INFINITY) == 4096
    assert not caplog.records
    assert fit_file_limit(4096, 4096) == (4096 - MAX_OTHER_FILES) // 2
    assert fit_file_limit(4096, 64) == 16
    assert "raise it (ulimit -n)" in caplog.records[0].getMessage()
