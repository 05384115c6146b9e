"""Exchanges that we end: at a shutdown, and by a fault of ours.

See ``docs/contract/promises.md#endings``.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from telemetry.observing.exchange import Outcome
from tests.proxy.harness import STREAM, Connection, relaying
from tests.proxy.observed_ends import (
    STREAMED,
    STREAMED_10,
    WHOLE,
    assert_nothing_invented,
    observe,
    the_end,
)
from tests.proxy.raw_client import ask, reset
from tests.telemetry.observed import content

# --- we cut it at shutdown


@pytest.mark.parametrize("policy", ["cancel", "drain"])
@pytest.mark.parametrize("request_", [STREAMED, STREAMED_10], ids=["chunked", "http10"])
async def test_what_is_open_at_the_drain_deadline_is_cut(request_: bytes, policy: str) -> None:
    """The client's stream ends broken; ERROR ``drain_deadline``, partial output kept."""
    async with relaying(
        lambda c: c.stall_after(*STREAM[:3]), drain_seconds=0.2, on_disconnect=policy
    ) as (_, running):
        asking = asyncio.ensure_future(ask(running.address, request_))
        await asyncio.sleep(0.1)
        start = time.monotonic()
        await running.proxy.drain()
        assert 0.15 < time.monotonic() - start < 2
        answer = await asking
        exchange = await the_end(running)
    assert (answer.body, answer.clean) == (b"".join(STREAM[:3]), False)
    assert answer.reset == (request_ is STREAMED_10)
    assert (exchange.outcome, exchange.error_type) == (Outcome.DRAIN_DEADLINE, "drain_deadline")
    assert content(exchange) == "Hello"
    assert_nothing_invented(exchange)


@pytest.mark.parametrize("policy", ["cancel", "drain"])
async def test_a_request_without_an_answer_is_cut_at_the_deadline_too(policy: str) -> None:
    """Before the head the connection just ends."""
    async with relaying(
        Connection.wait_closed_by_peer, drain_seconds=0.1, on_disconnect=policy
    ) as (_, running):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(WHOLE)
        await asyncio.sleep(0.05)
        await running.proxy.drain()
        exchange = await the_end(running)
        writer.transport.abort()
    assert exchange.error_type == "drain_deadline"


async def test_the_deadline_ends_the_draining_of_a_client_that_had_left() -> None:
    """It was the client that ended this exchange, not the shutdown."""
    async with relaying(
        lambda c: c.stall_after(*STREAM[:2]), drain_seconds=0.1, on_disconnect="drain"
    ) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(STREAMED)
        await reader.readuntil(b"Hel")
        writer.close()
        await asyncio.sleep(0.05)
        assert len(running.proxy.open_exchanges) == 1
        await running.proxy.drain()
        exchange = await the_end(running)
    assert (exchange.outcome, exchange.error_type) == (Outcome.CLIENT_DISCONNECTED, None)


async def test_a_second_cancellation_does_not_lose_the_end() -> None:
    """A client that resets while its exchange is being cut: one ``end`` all the same."""
    async with relaying(lambda c: c.stall_after(*STREAM[:2])) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(STREAMED)
        await reader.readuntil(b"Hel")
        assert running.proxy.open_exchanges.cut_all() == 1
        reset(writer)
        running.proxy.open_exchanges.cut_all()
        exchange = await the_end(running)
    assert exchange.outcome is Outcome.DRAIN_DEADLINE


# --- our own fault


@pytest.mark.parametrize("request_", [STREAMED, STREAMED_10], ids=["chunked", "http10"])
async def test_a_fault_of_ours_in_the_middle_is_a_broken_end(
    request_: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ERROR ``relay_error``; the stream is never shown as complete."""

    def fail(*_: object) -> bytes:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("codec.chat.usage_filter.UsageFilter.finish", fail)
    answer, exchange, _ = await observe(lambda connection: connection.stream(*STREAM[:3]), request_)
    assert answer.body == b"".join(STREAM[:3])
    assert not answer.clean
    assert answer.reset == (request_ is STREAMED_10)
    assert (exchange.outcome, exchange.error_type) == (Outcome.RELAY_ERROR, "relay_error")
    assert "secret" not in (exchange.error_message or "")


async def test_a_fault_of_ours_before_the_head_is_a_500(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI-shaped, without detail, and recorded."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("codec.chat.rewrite._find_splice", fail)
    answer, exchange, _ = await observe(lambda connection: connection.answer())
    assert answer.status == 500
    assert answer.error["code"] == "internal_error"
    assert b"secret" not in answer.raw
    assert exchange.error_type == "relay_error"
