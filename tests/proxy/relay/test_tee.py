"""The tee: stamped, copied, then written and awaited; nothing that arrived is lost."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import struct
import termios

import pytest

from proxy.relay.tee import COMMENT_WAIT_SECONDS
from telemetry.frames.frame import ResponseData
from telemetry.in_process import FrameByFrame
from telemetry.observing.exchange import Outcome
from tests.proxy.harness import (
    ASKING_CHAT,
    CHAT,
    DONE,
    STREAM,
    STREAMED_CHAT,
    USAGE_EVENT,
    Connection,
    RunningProxy,
    ScriptedUpstream,
    chunk_event,
    frames_of,
    relaying,
    request_bytes,
)
from tests.proxy.raw_client import (
    Address,
    Answer,
    ask,
    join_chunks,
    parse_answer,
    read_with_end,
    receive_to_end,
    slow_client,
    until,
)
from tests.proxy.turned_time import TurnedClock, TurnedLoop, run_turned

EVENT = chunk_event('"content":"%s"' % ("x" * 800))


def observed_bytes(running: RunningProxy) -> bytes:
    return b"".join(frame.data for frame in frames_of(running, ResponseData))


# --- an upstream that ends before its client reads


async def ask_late(address: Address, *, seconds: float) -> Answer:
    """Ask, read nothing for a while, then all."""
    async with slow_client(address, request_bytes(ASKING_CHAT), buffer_bytes=8192) as sock:
        await asyncio.sleep(seconds)
        raw, reset = await receive_to_end(sock)
    return parse_answer(raw, reset=reset)


class LateUpstream:
    """Writes an answer at once, waits half a second, and ends in the middle.

    Attributes:
        arrived: the body bytes that the other side's kernel had acknowledged before the end.
    """

    def __init__(self, size: int, *, chunked: bool, reset: bool) -> None:
        self.body = (EVENT * (size // len(EVENT) + 1))[:size]
        self.chunked = chunked
        self.reset = reset
        self.arrived = b""

    async def __call__(self, connection: Connection) -> None:
        if self.chunked:
            head = b"Transfer-Encoding: chunked"
            pieces = [self.body[i : i + 1000] for i in range(0, len(self.body), 1000)]
            wire = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        else:
            head = b"Content-Length: %d" % (len(self.body) + 1)
            wire = self.body
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + head + b"\r\n\r\n"
        writer = connection.writer
        writer.write(head + wire)
        await asyncio.sleep(0.5)
        if not self.reset:
            self.arrived = self.body
            writer.close()
            await writer.wait_closed()  # all of it was sent
            return
        sock = writer.get_extra_info("socket")
        queued = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
        unread = struct.unpack("i", queued)[0] + writer.transport.get_write_buffer_size()
        there = wire[: len(wire) - unread]
        self.arrived = join_chunks(there)[0] if self.chunked else there
        connection.reset()


SIZES = [64_000, 150_000, 200_000, 300_000, 2_000_000]
"""Below, at and above what is read ahead, and more than the kernel takes at once."""


@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "counted"])
@pytest.mark.parametrize("reset", [False, True], ids=["fin", "rst"])
async def test_every_byte_that_arrived_comes_before_the_broken_end(
    *, chunked: bool, reset: bool
) -> None:
    """A client that reads nothing for a second loses nothing by the proxy between them."""

    async def compare(size: int) -> None:
        script = LateUpstream(size, chunked=chunked, reset=reset)
        async with ScriptedUpstream(script) as upstream:
            direct = await ask_late(upstream.address, seconds=1)
        assert not direct.clean
        assert direct.body == script.arrived
        async with relaying(script, send_buffer_bytes=4096) as (_, running):
            answer = await ask_late(running.address, seconds=1)
            exchange = await running.sink.wait_for()
            observed = observed_bytes(running)
        assert len(script.arrived) >= min(size, 64_000)
        assert answer.body == script.arrived
        assert observed == script.arrived
        assert not answer.clean
        assert len(answer.body) >= len(direct.body)
        assert (exchange.outcome, exchange.error_type) == (Outcome.TRUNCATED, "stream_truncated")

    await asyncio.gather(*(compare(size) for size in SIZES))


# --- backpressure


async def test_a_slow_client_slows_its_own_stream_and_no_other() -> None:
    """Its upstream has to wait, nothing buffers without limit, and other streams flow."""
    sent = hashlib.sha256()
    written = 0
    stop = False

    async def script(connection: Connection) -> None:
        nonlocal written
        await connection.begin_stream()
        if connection.field(b"x-fast") is not None:
            await connection.send_chunks(*STREAM, DONE)
            return
        while not stop:
            await connection.send_chunks(EVENT * 50, end=False)
            sent.update(EVENT * 50)
            written += len(EVENT) * 50
        await connection.send_chunks()

    async with relaying(script) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address, limit=1024)
        writer.write(request_bytes(ASKING_CHAT))
        await asyncio.sleep(0.7)
        stuck_at = written
        fast = request_bytes(ASKING_CHAT, head=b"X-Fast: 1\r\n")
        for _ in range(20):
            async with asyncio.timeout(10):  # without end, if one held the other back
                answer = await ask(running.address, fast)
            assert answer.body == b"".join([*STREAM, DONE])
        print(f"the upstream could write {written:,} bytes to a client that reads nothing")
        assert written == stuck_at
        # Two hops' kernel buffers (some MB each), and our own of about 300 KiB.
        assert written < 24_000_000
        stop = True
        raw, reset = await read_with_end(reader)
        writer.transport.abort()
    answer = parse_answer(raw, reset=reset)
    assert answer.clean
    assert hashlib.sha256(answer.body).digest() == sent.digest()


# --- time


async def test_the_first_byte_is_relayed_before_the_last_arrives() -> None:
    """Streams are not collected: each event is there before the next is sent."""
    turn = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        for event in [*STREAM, DONE]:
            await connection.send_chunks(event, end=False)
            await turn.wait()
            turn.clear()
        await connection.send_chunks()

    async with relaying(script) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(STREAMED_CHAT))
        for event in [*STREAM, DONE]:
            async with asyncio.timeout(1):
                await reader.readuntil(event)
            turn.set()
        assert (await running.sink.wait_for()).outcome is Outcome.COMPLETED
        writer.close()


async def test_frames_are_stamped_when_they_are_read() -> None:
    """The times of the record are the injected clock's at each read."""
    clock = TurnedClock()
    start = clock.now_ns
    turn = asyncio.Event()

    async def script(connection: Connection) -> None:
        clock.turn(2)
        await connection.begin_stream()
        for event in [*STREAM, DONE]:
            await connection.send_chunks(event, end=False)
            await turn.wait()
            turn.clear()
        await connection.send_chunks()

    async with relaying(script, clock=clock) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(STREAMED_CHAT))
        for event in [*STREAM, DONE]:
            await reader.readuntil(event)
            clock.turn(1)
            turn.set()
        exchange = await running.sink.wait_for()
        writer.close()
        stamps = [frame.at_ns - start for frame in frames_of(running, ResponseData)]
    assert stamps == [second * 10**9 for second in range(2, 7)]
    assert exchange.start_ns == start
    assert exchange.first_chunk_ns == start + 2 * 10**9
    assert exchange.first_content_ns == start + 3 * 10**9
    assert exchange.end_ns == start + 7 * 10**9


def test_a_stream_may_be_silent_for_ten_minutes_and_is_cut_after_fifteen() -> None:
    """Nothing in the path gives up on a model that thinks (the defaults, on a turned loop)."""

    async def main(loop: TurnedLoop) -> None:
        go = asyncio.Event()

        async def script(connection: Connection) -> None:
            await go.wait()
            await connection.begin_stream()
            await connection.send_chunks(*STREAM[:3], end=False)
            await connection.reader.read()

        async with relaying(script) as (upstream, running):
            reader, writer = await asyncio.open_connection(*running.address)
            writer.write(request_bytes(STREAMED_CHAT))
            await until(lambda: upstream.requests)
            await loop.turn(600)
            go.set()
            await reader.readuntil(b'"lo"')
            await loop.turn(890)
            assert not running.sink.exchanges
            await loop.turn(20)
            _, reset = await read_with_end(reader)
            assert not reset
            assert running.sink.exchanges[0].outcome is Outcome.TIMEOUT
            writer.close()

    run_turned(main)


def test_comments_that_keep_a_connection_alive_arrive_within_a_second() -> None:
    """Also without a blank line; the usage event behind them is taken out all the same."""

    async def main(loop: TurnedLoop) -> None:
        go = asyncio.Event()

        async def script(connection: Connection) -> None:
            await connection.begin_stream()
            await connection.send_chunks(*STREAM, b": ping\n", end=False)
            await go.wait()
            await connection.send_chunks(b": pong\r\n", USAGE_EVENT, DONE)

        async with relaying(script) as (_, running):
            reader, writer = await asyncio.open_connection(*running.address)
            writer.write(request_bytes(STREAMED_CHAT))
            await reader.readuntil(STREAM[-1])
            await loop.turn(COMMENT_WAIT_SECONDS + 0.1)
            await reader.readuntil(b": ping\n")
            go.set()
            raw, reset = await read_with_end(reader)
            writer.close()
        assert not reset
        assert b"pong" not in raw
        assert USAGE_EVENT not in raw
        assert raw.count(DONE) == 1

    run_turned(main)


async def test_a_tap_that_fails_does_not_touch_the_stream() -> None:
    """R2: the sink's trouble is its own."""

    def fail(frame: object) -> None:
        raise MemoryError

    class FailingSink:
        def open_exchange(self, number: int) -> FrameByFrame:
            return FrameByFrame(fail)

    async with relaying(
        lambda connection: connection.stream(*STREAM, DONE), sink=FailingSink()
    ) as (_, running):
        answer = await ask(running.address, request_bytes(STREAMED_CHAT))
        assert (answer.body, answer.clean) == (b"".join([*STREAM, DONE]), True)
        assert (await ask(running.address, request_bytes(CHAT))).clean
