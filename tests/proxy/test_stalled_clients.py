"""Clients that take nothing of their answer, and those that are merely slow to."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import socket
import ssl
from typing import TYPE_CHECKING

import pytest
import trustme

from proxy.headers import Head
from proxy.sockets import count_unacknowledged
from proxy.stall_watch import StallWatch
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import End
from telemetry.observing.exchange import Outcome
from telemetry.observing.judgement import judge
from tests.proxy.harness import (
    ANSWER,
    DONE,
    STREAM,
    STREAMED_CHAT,
    USAGE_EVENT,
    Connection,
    chunk_event,
    relaying,
    request_bytes,
)
from tests.proxy.observed_ends import total_of
from tests.proxy.raw_client import (
    parse_answer,
    read_answer,
    receive,
    receive_to_end,
    slow_client,
    until,
)
from tests.proxy.serving import GET, serving
from tests.proxy.turned_time import TurnedLoop, run_turned
from tests.telemetry.observed import content

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.downstream.downstream import Answered, Downstream


SMALL = 4096
"""Of the kernel's buffers on both sides, so that a few hundred KiB are more than they hold."""
LARGE_EVENT = chunk_event(f'"content":"{"a" * 30_000}"')


async def flood(connection: Connection) -> None:
    """More than all buffers hold."""
    await connection.begin_stream()
    await connection.send_chunks(STREAM[0], end=False)
    await connection.send_chunks(*[LARGE_EVENT] * 200, *STREAM[1:], USAGE_EVENT, DONE)


# --- cut when they take nothing


async def test_a_client_that_takes_nothing_is_cut_and_its_span_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By a reset; the upstream is cancelled, what came is kept; counted, told in one line."""
    closed = asyncio.Event()

    async def script(connection: Connection) -> None:
        try:
            await flood(connection)
        finally:
            closed.set()

    async with relaying(script, send_buffer_bytes=SMALL, client_stall_timeout_seconds=0.3) as (
        _,
        running,
    ):
        async with slow_client(running.address, request_bytes(STREAMED_CHAT)) as sock:
            end = await running.wait_for_end()
            received, reset = await receive_to_end(sock)
        async with asyncio.timeout(5):
            await closed.wait()
        await until(lambda: not running.server.connections)
        [exchange] = running.sink.exchanges
    assert end.kind is EndKind.CLIENT_STALLED
    assert "read nothing" in end.message
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
    assert exchange.error_type is None
    assert content(exchange)
    assert reset
    assert not received.endswith(b"0\r\n\r\n")
    assert running.server.state.stalled_count == 1
    lines = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert lines == ["cut a client that read nothing of its answer for 0.3 s"]


async def test_the_policy_drain_holds_for_a_client_that_was_cut() -> None:
    """The rest is read for its usage, and the span says why the client is gone."""
    async with relaying(
        flood, send_buffer_bytes=SMALL, client_stall_timeout_seconds=0.2, on_disconnect="drain"
    ) as (_, running):
        async with slow_client(running.address, request_bytes(STREAMED_CHAT)):
            end = await running.wait_for_end()
        [exchange] = running.sink.exchanges
    assert end.kind is EndKind.CLIENT_STALLED
    assert total_of(exchange) == 5


async def test_what_is_not_observed_is_cut_too() -> None:
    """A download that nobody takes."""
    async with relaying(
        lambda c: c.answer(b"x" * 3_000_000),
        send_buffer_bytes=SMALL,
        client_stall_timeout_seconds=0.2,
    ) as (_, running):
        async with slow_client(running.address, request_bytes(target=b"/v1/files")) as sock:
            await until(lambda: running.server.state.stalled_count)
            _, reset = await receive_to_end(sock)
        await until(lambda: not running.proxy.open_exchanges)
    assert reset
    assert not running.sink.frames


async def test_over_tls_it_is_the_same(tmp_path: Path) -> None:
    """A client that takes nothing is cut, one too many is told so, half a head is a 408."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem
    certificate.write_to_path(tmp_path / "both.pem")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with (
        relaying(
            flood,
            send_buffer_bytes=SMALL,
            tls_cert=tmp_path / "both.pem",
            max_connections=1,
            header_timeout_seconds=0.3,
            client_stall_timeout_seconds=0.3,
        ) as (_, running),
        slow_client(running.address, b"") as sock,
    ):
        _, slow = await asyncio.open_connection(
            sock=sock.dup(), ssl=trusting, server_hostname="127.0.0.1", limit=SMALL
        )
        slow.write(request_bytes(STREAMED_CHAT))
        await until(lambda: running.server.state.requests_count)
        reader, writer = await asyncio.open_connection(*running.address, ssl=trusting)
        writer.write(request_bytes())
        crowded = parse_answer(await read_answer(reader), reset=False)
        writer.close()
        assert crowded.error["code"] == "too_many_connections"
        assert (await running.wait_for_end()).kind is EndKind.CLIENT_STALLED
        await until(lambda: not running.server.connections)
        slow.transport.abort()
        reader, writer = await asyncio.open_connection(*running.address, ssl=trusting)
        writer.write(request_bytes()[:40])
        late = parse_answer(await read_answer(reader), reset=False)
        writer.close()
        assert late.error["code"] == "request_timeout"
        await until(lambda: not running.server.connections)


@pytest.mark.parametrize("close", [True, False], ids=["closing", "kept"])
async def test_an_answer_that_was_given_whole_and_is_never_taken_holds_nothing(
    *, close: bool
) -> None:
    """The exchange is over and complete; what waits in our buffer is not kept for ever."""
    body = ANSWER[:-1] + b" " * 50_000 + b"}"
    async with relaying(
        lambda c: c.answer(body), send_buffer_bytes=SMALL, client_stall_timeout_seconds=0.2
    ) as (_, running):
        async with slow_client(running.address, request_bytes(close=close)) as sock:
            assert (await running.sink.wait_for()).outcome is Outcome.COMPLETED
            await until(lambda: running.server.state.stalled_count)
            _, reset = await receive_to_end(sock)
        await until(lambda: not running.server.connections)
    assert reset


@pytest.mark.parametrize("pace", [4 * SMALL, 100 * SMALL])
def test_a_client_that_reads_slowly_is_never_cut(pace: int) -> None:
    """A little in all but the limit, for hours; and to the end (on a turned loop)."""

    async def main(loop: TurnedLoop) -> None:
        async with (
            relaying(flood, send_buffer_bytes=SMALL) as (_, running),
            slow_client(running.address, request_bytes(STREAMED_CHAT)) as sock,
        ):
            received = b""
            for _ in range(12):
                received += await receive(sock, pace)
                await asyncio.sleep(0.01)
                await loop.turn(800, step=25)
            received += (await receive_to_end(sock))[0]
            assert received.endswith(b"0\r\n\r\n")
            assert len(received) > 200 * len(LARGE_EVENT)
            assert (await running.sink.wait_for()).outcome is Outcome.COMPLETED
            assert running.server.state.stalled_count == 0

    run_turned(main)


def test_a_client_that_stops_reading_after_a_while_is_cut() -> None:
    """The time counts from what it took last (on a turned loop)."""

    async def main(loop: TurnedLoop) -> None:
        async with (
            relaying(flood, send_buffer_bytes=SMALL) as (_, running),
            slow_client(running.address, request_bytes(STREAMED_CHAT)) as sock,
        ):
            await receive(sock, 4 * SMALL)
            await asyncio.sleep(0.05)
            await loop.turn(850, step=25)
            await receive(sock, 4 * SMALL)
            await asyncio.sleep(0.05)
            await loop.turn(850, step=25)
            assert running.server.state.stalled_count == 0
            for _ in range(1000):  # the kernels take their own time over the last bytes
                await loop.turn(100, step=25)
                if running.server.state.stalled_count:
                    break
            assert (await running.wait_for_end()).kind is EndKind.CLIENT_STALLED

    run_turned(main)


# --- what waits for them


async def test_what_waits_for_a_client_is_bounded() -> None:
    """The transport's mark and one read of the upstream's; the rest waits at the upstream."""
    async with (
        relaying(flood, send_buffer_bytes=SMALL) as (_, running),
        slow_client(running.address, request_bytes(STREAMED_CHAT)),
    ):
        await until(lambda: running.server.connections)
        [connection] = running.server.connections
        transport = connection.stream.transport
        sizes: list[int] = []
        while len(sizes) < 3 or sizes[-3] != sizes[-1]:
            await asyncio.sleep(0.1)
            sizes.append(transport.get_write_buffer_size())
        assert 64 * 1024 < sizes[-1] < 64 * 1024 + 400_000
        [dialler] = running.client._diallers.values()
        [upstream] = dialler._open
        assert upstream._response is not None
        assert upstream._response._size_bytes < 600_000


async def test_many_small_pieces_wait_as_one_large_does() -> None:
    """Nothing is added to a buffer that has enough."""

    async def handler(client: Downstream) -> Answered:
        client.begin_answer(200, "OK", Head(), has_body=True)
        while True:
            await client.send(b"x" * 100)

    async with (
        serving(handler) as (address, server),
        slow_client(address, GET),
    ):
        await until(lambda: [c for c in server.connections if c.stream.writing_paused])
        [connection] = server.connections
        await asyncio.sleep(0.05)
        assert connection.stream.transport.get_write_buffer_size() < 64 * 1024 + 200


# --- the watch, and the span


class FakeTransport(asyncio.Transport):
    """A transport in which so many bytes wait."""

    waiting = 1

    def get_write_buffer_size(self) -> int:
        return self.waiting


@pytest.mark.parametrize("limit", [0.0, 0.05])
async def test_a_peer_is_watched_only_where_there_is_a_limit_and_something_waits(
    limit: float,
) -> None:
    """0 is for ever; what is gone from the buffer is the kernel's business."""
    stalls: list[bool] = []
    with socket.socket() as sock:
        transport = FakeTransport({"socket": sock})
        watch = StallWatch(limit, lambda: stalls.append(True))
        watch.begin(transport)
        await asyncio.sleep(0.15)
        assert stalls == [True] * bool(limit)
        transport.waiting = 0
        watch.begin(transport)
        await asyncio.sleep(0.15)
        assert stalls == [True] * bool(limit)
    assert count_unacknowledged(transport) == 0


@pytest.mark.parametrize("told", [None, 7])
def test_what_the_kernel_holds_counts_as_far_as_it_tells(
    told: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MacOS tells it by an option of the socket, others perhaps not at all."""

    class Socket(socket.socket):
        def getsockopt(self, *option: int) -> int:  # type: ignore[override]
            if told is None:
                raise OSError(errno.ENOPROTOOPT, "Protocol not available")
            return {(socket.SOL_SOCKET, 0x1024): told}[option[0], option[1]]

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTTY, "Inappropriate ioctl for device")

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    with Socket() as sock:
        transport = FakeTransport({"socket": sock})
        assert count_unacknowledged(transport) == transport.waiting + (told or 0)


@pytest.mark.parametrize("kind", [EndKind.CLIENT_STALLED, EndKind.REQUEST_TIMEOUT])
def test_a_client_that_was_given_up_has_left_and_the_anomaly_says_how(kind: EndKind) -> None:
    """No error, no success, as for a client that closes."""
    end = End(exchange=1, at_ns=1, kind=kind, message="m")
    judgement = judge(end=end, status=None, streamed=False, response=None)
    assert judgement.outcome is Outcome.CLIENT_DISCONNECTED
    assert judgement.error_type is None
    assert judgement.anomaly == kind.value
