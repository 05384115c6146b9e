"""Clients that stop in the middle of their request, and those that are merely slow."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from proxy.errors import late_request_body
from telemetry.frames.ending import EndKind
from telemetry.observing.exchange import Outcome
from tests.proxy.harness import ANSWER, CHAT, Connection, relaying, request_bytes
from tests.proxy.raw_client import parse_answer, read_to_end
from tests.proxy.turned_time import TurnedLoop, run_turned

CHAT_PATH = b"/v1/chat/completions"


def half_a_request(target: bytes, *, chunked: bool) -> bytes:
    """A head, and a body that does not end."""
    if not chunked:
        return request_bytes(CHAT, target=target)[:-10]
    head = b"POST %b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % target
    return head + b"%x\r\n%b" % (len(CHAT), CHAT[:-10])


@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "counted"])
async def test_a_body_that_does_not_go_on_is_a_408_and_one_span(*, chunked: bool) -> None:
    """The connection ends; nothing reaches the upstream; the client is as one that left."""
    async with relaying(client_idle_timeout_seconds=0.2) as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(half_a_request(CHAT_PATH, chunked=chunked))
        late = parse_answer(await read_to_end(reader), reset=False)
        writer.close()
        end = await running.wait_for_end()
        [exchange] = running.sink.exchanges
        assert not upstream.requests
    assert (late.status, late.error["code"]) == (408, "request_timeout")
    assert late.error["type"] == "invalid_request_error"
    assert late.field(b"connection") == b"close"
    assert end.kind is EndKind.REQUEST_TIMEOUT
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
    assert exchange.request_body == CHAT[:-10]
    assert running.client.failure_count == 0


@pytest.mark.parametrize(
    ("target", "settings"),
    [(CHAT_PATH, {"max_body_bytes": 1024}), (b"/v1/files", {})],
    ids=["larger than is recorded", "not observed"],
)
async def test_a_body_that_stops_while_it_is_relayed_is_a_408_too(
    target: bytes, settings: dict[str, Any]
) -> None:
    """The upstream sees a request that breaks off, never one that ends, and is not blamed."""
    broken: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def script(connection: Connection) -> None:
        broken.set_result(await read_to_end(connection.reader))

    body = b"x" * 5000
    async with relaying(script, reads_body=False, client_idle_timeout_seconds=0.2, **settings) as (
        _,
        running,
    ):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(body, target=target)[:-1000])
        late = parse_answer(await read_to_end(reader), reset=False)
        writer.close()
        received = await broken
        if target == CHAT_PATH:
            assert (await running.wait_for_end()).kind is EndKind.REQUEST_TIMEOUT
        assert running.client.failure_count == 0
    assert (late.status, late.error["code"]) == (408, "request_timeout")
    assert len(received) < len(body)


async def test_bytes_that_are_none_of_the_body_do_not_hold_it_open() -> None:
    """An endless extension of a chunk is silence."""
    async with relaying(client_idle_timeout_seconds=0.2) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(half_a_request(CHAT_PATH, chunked=True) + CHAT[-10:] + b"\r\n2;")
        reading = asyncio.ensure_future(read_to_end(reader))
        while not reading.done() and running.server.connections:
            with contextlib.suppress(ConnectionError):
                writer.write(b"a")
                await writer.drain()
            await asyncio.sleep(0.02)
        assert parse_answer(await reading, reset=False).status == 408
        writer.close()


def test_a_body_that_trickles_is_no_silent_one() -> None:
    """Two bytes in each 50 s of 60 (on a turned loop)."""

    async def main(loop: TurnedLoop) -> None:
        async with relaying() as (upstream, running):
            reader, writer = await asyncio.open_connection(*running.address)
            request = request_bytes(CHAT)
            writer.write(request[: -len(CHAT)])
            for start in range(0, len(CHAT), 2):
                writer.write(CHAT[start : start + 2])
                await asyncio.sleep(0.005)
                await loop.turn(50)
            assert (await read_to_end(reader)).endswith(ANSWER)
            assert upstream.last.body == CHAT
            writer.close()

    run_turned(main)


def test_a_body_may_stop_for_a_day_where_no_time_is_set() -> None:
    """0: none (on a turned loop)."""

    async def main(loop: TurnedLoop) -> None:
        async with relaying(client_idle_timeout_seconds=0) as (_, running):
            reader, writer = await asyncio.open_connection(*running.address)
            request = request_bytes(CHAT)
            writer.write(request[:-10])
            await asyncio.sleep(0.01)
            await loop.turn(86_400, step=600)
            writer.write(request[-10:])
            assert (await read_to_end(reader)).endswith(ANSWER)
            writer.close()

    run_turned(main)


def test_a_late_body_is_the_client_s_fault() -> None:
    """408, and the setting's name in words."""
    error = late_request_body()
    assert (error.status, error.end) == (408, EndKind.REQUEST_TIMEOUT)
    assert "client idle timeout" in error.message
