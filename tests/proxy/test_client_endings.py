"""Clients that go, before the end or once they have everything.

See ``docs/contract/promises.md#endings``.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from telemetry.frames.ending import EndKind
from telemetry.frames.frame import End
from telemetry.observing.exchange import Outcome
from tests.proxy.harness import (
    ASKING_CHAT,
    CHAT,
    DONE,
    STREAM,
    STREAMED_CHAT,
    USAGE_EVENT,
    Connection,
    chunk_event,
    frames_of,
    relaying,
    request_bytes,
)
from tests.proxy.observed_ends import STREAMED, WHOLE, assert_nothing_invented, the_end, total_of
from tests.proxy.raw_client import reset
from tests.telemetry.observed import content

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


# --- once everything was relayed


@pytest.mark.parametrize("policy", ["cancel", "drain"])
@pytest.mark.parametrize(
    ("request_", "events"),
    [(STREAMED, [USAGE_EVENT, DONE]), (request_bytes(ASKING_CHAT), [USAGE_EVENT])],
    ids=["done", "usage"],
)
async def test_a_client_that_closes_at_the_end_got_everything(
    policy: str, request_: bytes, events: list[bytes]
) -> None:
    """[DONE] completes an answer, as do every finish reason and the usage; the upstream is open."""
    async with relaying(lambda c: c.stall_after(*STREAM, *events), on_disconnect=policy) as (
        _,
        running,
    ):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_)
        await reader.readuntil(events[-1])
        writer.close()
        exchange = await the_end(running)
        assert frames_of(running, End)[0].kind is EndKind.CLIENT_GONE
    assert exchange.outcome is Outcome.COMPLETED
    assert total_of(exchange) == 5


# --- before that


async def leave_by_close(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def leave_by_reset(writer: asyncio.StreamWriter) -> None:
    reset(writer)


async def leave_by_half_close(writer: asyncio.StreamWriter) -> None:
    writer.write_eof()


LEAVES = [leave_by_close, leave_by_reset, leave_by_half_close]
leaves = pytest.mark.parametrize("leave", LEAVES, ids=lambda leave: leave.__name__)


@leaves
@pytest.mark.parametrize("events", [[], STREAM[:2]], ids=["before the head", "between chunks"])
async def test_a_client_that_leaves_is_noticed_at_once(
    events: list[bytes], leave: Callable[[asyncio.StreamWriter], Awaitable[None]]
) -> None:
    """The upstream is cancelled at once, the record marked and without usage.

    See ``docs/contract/sources.md#s0-15`` and ``docs/contract/sources.md#n4``.
    """
    asked = asyncio.Event()
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def script(connection: Connection) -> None:
        asked.set()
        if events:
            await connection.begin_stream()
            await connection.send_chunks(*events, end=False)
        gone.set_result(await connection.wait_closed_by_peer())

    async with relaying(script) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(STREAMED)
        await (reader.readuntil(b"Hel") if events else asked.wait())
        await leave(writer)
        assert await gone < 1.0  # 100 ms, were nothing else done here; no timeout is as short
        exchange = await the_end(running)
        writer.transport.abort()
    assert (exchange.outcome, exchange.error_type) == (Outcome.CLIENT_DISCONNECTED, None)
    if events:
        assert content(exchange) == "Hel"
        assert_nothing_invented(exchange)
    else:
        assert exchange.response is None


@leaves
@pytest.mark.parametrize("target", [b"/v1/chat/completions", b"/x"], ids=["chat", "other"])
async def test_a_client_that_leaves_during_a_big_write_is_noticed_within_100_ms(
    target: bytes, leave: Callable[[asyncio.StreamWriter], Awaitable[None]]
) -> None:
    """Bytes that wait to be written do not hide that nobody reads them."""
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    sent = 0

    async def script(connection: Connection) -> None:
        nonlocal sent
        await connection.begin_stream()
        big = chunk_event('"content":"%s"' % ("x" * 60_000))
        try:
            while True:
                await connection.send_chunks(big, end=False)
                sent += 1
        except ConnectionError:
            gone.set_result(time.monotonic())

    async with relaying(script) as (_, running):
        # A small buffer, and nobody reads it.
        _, writer = await asyncio.open_connection(*running.address, limit=1024)
        writer.write(request_bytes(STREAMED_CHAT, target=target))
        before = -1
        while not sent or before < sent:  # until all that is between has taken what it takes
            before = sent
            await asyncio.sleep(0.1)
        assert not gone.done()
        left = time.monotonic()
        await leave(writer)
        assert await gone - left < 0.1
        if target != b"/x":
            exchange = await the_end(running)
            assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
            assert_nothing_invented(exchange)
        writer.transport.abort()


async def test_a_client_that_leaves_during_its_own_upload_never_reaches_the_upstream() -> None:
    """Half a request is none."""

    async def script(connection: Connection) -> None:
        raise AssertionError("nothing was asked")

    async with relaying(script) as (upstream, running):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(WHOLE[:-10])
        await asyncio.sleep(0.05)
        writer.close()
        exchange = await the_end(running)
        assert upstream.connections == 0
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED


# --- and the policy is to drain


@leaves
@pytest.mark.parametrize("when", ["before_head", "between_chunks"])
async def test_the_policy_drain_learns_the_usage_of_whoever_left(
    when: str, leave: Callable[[asyncio.StreamWriter], Awaitable[None]]
) -> None:
    """The answer is read to its end; the span is marked cancelled and has its usage."""
    left = asyncio.Event()

    async def script(connection: Connection) -> None:
        if when == "before_head":
            left.set()
            await asyncio.sleep(0.1)
        await connection.begin_stream()
        await connection.send_chunks(*STREAM[:2], end=False)
        await asyncio.sleep(0.1)
        await connection.send_chunks(*STREAM[2:], USAGE_EVENT, DONE)

    async with relaying(script, on_disconnect="drain") as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(STREAMED)
        if when == "before_head":
            await left.wait()
        else:
            await reader.readuntil(b"Hel")
        await leave(writer)
        exchange = await the_end(running)
        writer.transport.abort()
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
    assert content(exchange) == "Hello"
    assert total_of(exchange) == 5


@pytest.mark.parametrize("limit", ["MAX_DRAIN_BYTES", "MAX_DRAIN_SECONDS"])
async def test_draining_has_limits(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past 60 s or 8 MiB the upstream is cancelled after all."""
    monkeypatch.setattr(
        f"proxy.relay.exchange.{limit}", 0.2 if limit.endswith("SECONDS") else 3_000
    )
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        start = time.monotonic()
        try:
            while True:
                await connection.send_chunks(STREAM[1], end=False)
                await asyncio.sleep(0.01)
        except ConnectionError:
            gone.set_result(time.monotonic() - start)

    async with relaying(script, on_disconnect="drain") as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(STREAMED)
        await reader.readuntil(b"Hel")
        writer.close()
        assert 0.05 < await gone < 1
        exchange = await the_end(running)
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
    assert_nothing_invented(exchange)


async def test_the_policy_drain_ends_where_the_request_itself_breaks_off() -> None:
    """Of a body that is relayed as it comes half has come: there will be no answer to wait for."""
    asked = asyncio.Event()
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def script(connection: Connection) -> None:
        asked.set()
        gone.set_result(await connection.wait_closed_by_peer())

    async with relaying(script, reads_body=False, on_disconnect="drain", max_body_bytes=1024) as (
        _,
        running,
    ):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(CHAT + b" " * 100_000)[:50_000])
        await asked.wait()
        writer.transport.abort()
        assert await gone < 2
        exchange = await the_end(running)
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED


@pytest.mark.parametrize("answers", [True, False])
async def test_draining_outlasts_an_upstream_that_fails(*, answers: bool) -> None:
    """Whatever happens after the client has gone, it is the client that ended the exchange."""

    async def script(connection: Connection) -> None:
        await asyncio.sleep(0.05)
        if answers:
            await connection.begin_stream()
            await connection.send_chunks(*STREAM[:2], end=False)
            await asyncio.sleep(0.05)
        connection.writer.close()

    async with relaying(script, on_disconnect="drain") as (_, running):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(STREAMED)
        await asyncio.sleep(0.03)
        writer.close()
        exchange = await the_end(running)
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
