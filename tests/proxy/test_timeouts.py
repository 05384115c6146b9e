"""The timeouts are settings (``docs/contract/promises.md#timeouts``); 0 means none where it may."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from telemetry.observing.exchange import Outcome
from tests.proxy.harness import (
    ANSWER,
    DONE,
    STREAM,
    Connection,
    ScriptedUpstream,
    relaying,
    request_bytes,
)
from tests.proxy.observed_ends import STREAMED, observe
from tests.proxy.raw_client import ask, read_to_end, receive_to_end, slow_client
from tests.proxy.turned_time import TurnedLoop, run_turned
from tests.proxy.upstream.test_client import get, open_client, read_all


async def test_the_first_byte_timeout_begins_after_the_last_byte_of_the_request() -> None:
    """A long upload does not use it up."""
    async with relaying(first_byte_timeout_seconds=0.2) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        request = request_bytes(b"x" * 60, target=b"/v1/files")
        for start in range(0, len(request), 40):
            writer.write(request[start : start + 40])
            await asyncio.sleep(0.08)
        assert (await reader.read(12)) == b"HTTP/1.1 200"
        writer.close()


async def test_the_idle_timeout_begins_anew_with_each_read() -> None:
    """A slow stream is no silent one."""

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        for event in STREAM:
            await connection.send_chunks(event, end=False)
            await asyncio.sleep(0.12)
        await connection.send_chunks(DONE)

    answer, *_ = await observe(script, idle_timeout_seconds=0.25)
    assert (answer.body, answer.clean) == (b"".join([*STREAM, DONE]), True)


async def test_waiting_for_a_slow_client_is_not_the_upstreams_silence() -> None:
    """The idle timeout stands still while we do not read."""
    big = b"data: " + b"x" * 10_000_000 + b"\n\n"

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(big, DONE)

    async with relaying(script, idle_timeout_seconds=0.2) as (_, running):
        async with slow_client(running.address, STREAMED, buffer_bytes=1 << 20) as sock:
            await asyncio.sleep(0.8)
            received, _ = await receive_to_end(sock)
        assert len(received) > len(big) + len(DONE)
        assert (await running.sink.wait_for()).outcome is Outcome.COMPLETED


def test_no_timeout_is_no_timeout() -> None:
    """0 waits for a day (on a turned loop)."""

    async def main(loop: TurnedLoop) -> None:
        go = asyncio.Event()

        async def script(connection: Connection) -> None:
            await go.wait()
            go.clear()
            await connection.begin_stream()
            await connection.send_chunks(STREAM[0], end=False)
            await go.wait()
            await connection.send_chunks(*STREAM[1:], DONE)

        async with relaying(script, first_byte_timeout_seconds=0, idle_timeout_seconds=0) as (
            upstream,
            running,
        ):
            reader, writer = await asyncio.open_connection(*running.address)
            writer.write(STREAMED)
            while not upstream.requests:
                await asyncio.sleep(0.001)
            await loop.turn(86_400, step=600)
            go.set()
            await reader.readuntil(STREAM[0])
            await loop.turn(86_400, step=600)
            go.set()
            await reader.readuntil(DONE)
            writer.close()

    run_turned(main)


# --- the head of the answer


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 2000,
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10 + b"HTTP/1.1 200 OK\r\n" + b"X-A: a\r\n" * 200,
        b"\r\n" * 2000,
    ],
    ids=["a head", "heads", "blank lines"],
)
async def test_a_head_that_trickles_does_not_extend_the_first_byte_timeout(head: bytes) -> None:
    """It holds for the whole head, however regularly a byte of it comes."""

    async def script(connection: Connection) -> None:
        for byte in head:
            await connection.send(bytes([byte]))
            await asyncio.sleep(0.02)

    answer, exchange, _ = await observe(script, first_byte_timeout_seconds=0.3)
    assert (answer.status, answer.error["code"]) == (504, "upstream_timeout")
    assert exchange.outcome is Outcome.TIMEOUT


async def endless(connection: Connection, begin: bytes, again: bytes) -> None:
    """Send without an end, until the other side has enough."""
    with contextlib.suppress(ConnectionError):
        await connection.send(begin)
        while True:
            await connection.send(again)


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100),
        (b"HTTP/1.1 200 OK\r\n", b"X-A: aaaaaaaaaaaaaaaa\r\n" * 100),
        (b"HTTP/1.1 200 OK\r\n", b"X-A: %b\r\n" % (b"a" * 2000)),
        (b"HTTP/1.1 200 OK\r\nX-A: ", b"a" * 1000),
        (b"HTTP/1.1 200 ", b"a" * 1000),
    ],
    ids=["interim answers", "fields", "large fields", "a field", "a reason"],
)
async def test_a_flood_instead_of_a_head_is_an_invalid_answer(begin: bytes, again: bytes) -> None:
    """Bounded by number and size, long before any timeout."""
    answer, exchange, _ = await observe(
        lambda connection: endless(connection, begin, again), max_header_bytes=4096
    )
    assert (answer.status, answer.error["code"]) == (502, "upstream_invalid_response")
    assert exchange.error_type == "invalid_response"


@pytest.mark.parametrize(("surplus", "relayed"), [(0, True), (1, False)])
@pytest.mark.parametrize("size", [100, 100_000], ids=["pieces", "one read"])
async def test_a_head_of_four_largest_fields_is_relayed_and_a_byte_more_is_not(
    surplus: int, size: int, *, relayed: bool
) -> None:
    """However it is cut into reads."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + b"X-A: %b\r\n" % (b"a" * 2000) * 8
    head += b"X-B: %b\r\n\r\n" % (b"b" * (4 * 4096 + surplus - len(head) - len(b"X-B: \r\n\r\n")))

    async def script(connection: Connection) -> None:
        data = head + b"ok"
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(data), size):
                await connection.send(data[start : start + size])
                await asyncio.sleep(0)

    answer, *_ = await observe(script, max_header_bytes=4096)
    assert (answer.status, answer.body == b"ok") == ((200, True) if relayed else (502, False))


# --- the body of the answer


@pytest.mark.parametrize(
    ("begin", "again"),
    [(b"5;", b"a"), (b"5;a=", b"a" * 500), (b"0\r\n", b"X-A: a\r\n"), (b"0\r\nX-A: ", b"a")],
    ids=["an extension", "a fast one", "trailers", "a trailer"],
)
async def test_bytes_that_are_none_of_the_body_are_silence(begin: bytes, again: bytes) -> None:
    """The client would get nothing for ever."""

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(STREAM[0], end=False)
        await connection.send(begin)
        with contextlib.suppress(ConnectionError):
            while True:
                await connection.send(again)
                await asyncio.sleep(0.02)

    answer, exchange, _ = await observe(script, idle_timeout_seconds=0.3)
    assert (answer.body, answer.clean) == (STREAM[0], False)
    assert exchange.outcome is Outcome.TIMEOUT


# --- the way of the request


async def test_an_upstream_that_takes_nothing_of_a_request_is_a_504() -> None:
    """It neither reads nor answers; the client, that has sent everything, is told."""
    answered = asyncio.Event()
    received: list[int] = []

    async def script(connection: Connection) -> None:
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await answered.wait()
        connection.writer.transport.resume_reading()  # type: ignore[attr-defined]
        received.append(len(await read_to_end(connection.reader)))

    big = b'{"model":"m-1","messages":[],"x":"%b"}' % (b"x" * 20_000_000)
    async with relaying(
        script, reads_body=False, upstream_stall_timeout_seconds=0.3, first_byte_timeout_seconds=0.1
    ) as (_, running):
        answer = await ask(running.address, request_bytes(big))
        exchange = await running.sink.wait_for()
        answered.set()
        while not received:
            await asyncio.sleep(0.01)
        assert running.client.failure_count == 1
    assert (answer.status, answer.error["code"]) == (504, "upstream_timeout")
    assert "read nothing of the request" in answer.error["message"]
    assert (exchange.outcome, exchange.error_type) == (Outcome.TIMEOUT, "timeout")
    assert received[0] < len(big)


async def test_an_upstream_that_takes_a_request_slowly_is_waited_for() -> None:
    """Longer than the limit in all, a little in each part of it."""
    size = 8_000_000

    async def script(connection: Connection) -> None:
        for _ in range(8):
            await connection.reader.readexactly(size // 8)
            await asyncio.sleep(0.1)
        await connection.answer()

    async with (
        ScriptedUpstream(script, reads_body=False) as upstream,
        open_client(stall_seconds=0.6, first_byte_seconds=5) as client,
    ):
        body = b"x" * size
        began = time.monotonic()
        response = await client.send(get(upstream.url, method="POST", body=body))
        assert await read_all(response) == ANSWER
        assert time.monotonic() - began > 0.6


async def test_an_answer_that_has_begun_is_not_cut_because_the_request_is_not_taken() -> None:
    """An upstream may answer before it has read everything; its own pace counts then."""

    async def script(connection: Connection) -> None:
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await connection.begin_stream()
        for event in STREAM:
            await connection.send_chunks(event, end=False)
            await asyncio.sleep(0.15)
        await connection.send_chunks(DONE)

    async with (
        ScriptedUpstream(script, reads_body=False) as upstream,
        open_client(stall_seconds=0.1) as client,
    ):
        response = await client.send(get(upstream.url, method="POST", body=b"x" * 20_000_000))
        assert await read_all(response) == b"".join([*STREAM, DONE])
