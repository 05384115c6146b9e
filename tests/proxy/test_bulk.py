"""Big bodies: relayed as they come, in little memory; what is too big to observe is marked."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import queue
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from telemetry.frames.frame import RequestBody
from telemetry.observing.exchange import Outcome
from tests.faults.stage import running_spantap
from tests.proxy.harness import (
    ANSWER,
    DONE,
    STREAM,
    USAGE_EVENT,
    Connection,
    frames_of,
    relaying,
    request_bytes,
)
from tests.proxy.raw_client import ask, parse_answer, read_with_end

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.faults.stage import RunningSpantap

SIZE_BYTES = 200_000_000
BLOCK = bytes(range(256)) * 1024
MAX_GROWTH_BYTES = 20_000_000


class End(NamedTuple):
    """What one end of a bulk transfer saw."""

    digest: str
    first_at: float
    last_at: float


def send_unevenly(sock: socket.socket) -> End:
    """200 MB in blocks that are never the same, with rests."""
    digest, first_at = hashlib.sha256(), time.monotonic()
    sent, number = 0, 0
    while sent < SIZE_BYTES:
        block = number.to_bytes(8, "big") + BLOCK[: 7919 * (number % 32) + 1]
        block = block[: SIZE_BYTES - sent]
        sock.sendall(block)
        digest.update(block)
        sent += len(block)
        number += 1
        if number % 200 == 0:
            time.sleep(0.02)
    return End(digest.hexdigest(), first_at, time.monotonic())


def receive_unevenly(sock: socket.socket, begun: bytes) -> End:
    """Read as much, in other steps and with other rests."""
    digest, received, number = hashlib.sha256(begun), len(begun), 0
    first_at = time.monotonic() if begun else 0.0
    while received < SIZE_BYTES:
        data = sock.recv(1 + 37_003 * (number % 11))
        assert data, "the body ended early"
        first_at = first_at or time.monotonic()
        digest.update(data)
        received += len(data)
        number += 1
        if number % 700 == 0:
            time.sleep(0.03)
    return End(digest.hexdigest(), first_at, time.monotonic())


def read_head(sock: socket.socket) -> tuple[bytes, bytes]:
    """A head, and what came of the body with it."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += sock.recv(4096)
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


class BulkUpstream(threading.Thread):
    """Takes 200 MB by PUT, gives them by GET, and little to HEAD."""

    def __init__(self) -> None:
        super().__init__()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.ends: queue.SimpleQueue[End] = queue.SimpleQueue()

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                with sock:
                    head, rest = read_head(sock)
                    if head.startswith(b"PUT"):
                        self.ends.put(receive_unevenly(sock, rest))
                        sock.sendall(
                            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                        )
                    elif head.startswith(b"HEAD"):
                        sock.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
                    else:
                        length = b"Content-Length: %d\r\n\r\n" % SIZE_BYTES
                        sock.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + length)
                        self.ends.put(send_unevenly(sock))

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture
def bulk_upstream() -> Iterator[BulkUpstream]:
    upstream = BulkUpstream()
    upstream.start()
    yield upstream
    upstream.close()
    upstream.join()


def memory(pids: Iterable[int], field: str) -> dict[int, int]:
    """``VmRSS`` or ``VmHWM`` (the most so far) of each process, in bytes."""
    found = {}
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith(field))
        found[pid] = int(line.split()[1]) * 1024
    return found


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_200_mb_up_and_down_take_little_memory(bulk_upstream: BulkUpstream, tmp_path: Path) -> None:
    """The same bytes, the first out before the last is in, below 20 MB more in any process."""
    settings = {"SPANTAP_DRAIN_SECONDS": "0"}
    with running_spantap(tmp_path, upstream=bulk_upstream.url, environment=settings) as served:
        with connect(served) as sock:  # the code is loaded before memory is measured
            sock.sendall(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            read_head(sock)
        before = memory(served.pids(), "VmRSS")
        with connect(served) as sock:
            sock.sendall(
                b"PUT /v1/files HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % SIZE_BYTES
            )
            sent = send_unevenly(sock)
            head, _ = read_head(sock)
            assert head.startswith(b"HTTP/1.1 200 OK")
        received = bulk_upstream.ends.get(timeout=10)
        assert received.digest == sent.digest
        assert received.first_at < sent.last_at
        with connect(served) as sock:
            sock.sendall(b"GET /v1/files/1/content HTTP/1.1\r\nHost: a\r\n\r\n")
            _, rest = read_head(sock)
            received = receive_unevenly(sock, rest)
        sent = bulk_upstream.ends.get(timeout=10)
        assert received.digest == sent.digest
        assert received.first_at < sent.last_at
        growth = [most - before[pid] for pid, most in memory(before, "VmHWM").items()]
    assert len(growth) == 3
    assert max(growth) < MAX_GROWTH_BYTES


def connect(served: RunningSpantap) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port))


# --- chat requests over the limit

LIMIT = 4096
PADDED = b'{"model":"m-1","stream":true,"messages":[],"padding":"%b"}'


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_chat_over_the_limit_is_relayed_as_it_is_and_marked(*, chunked: bool) -> None:
    """Not rewritten, not recorded, but answered; its record says that a limit was reached."""
    body = PADDED % (b"x" * 300_000)
    request = request_bytes(body)
    if chunked:
        pieces = [body[i : i + 5000] for i in range(0, len(body), 5000)]
        wire = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        head, _, _ = request_bytes(b"").partition(b"\r\n\r\n")
        head = head.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        request = head + b"\r\n\r\n" + wire + b"0\r\n\r\n"
    async with relaying(lambda c: c.stream(*STREAM, USAGE_EVENT, DONE), max_body_bytes=LIMIT) as (
        upstream,
        running,
    ):
        answer = await ask(running.address, request)
        exchange = await running.sink.wait_for()
        [frame] = frames_of(running, RequestBody)
    assert upstream.last.body == body
    assert (upstream.last.field(b"transfer-encoding") is not None) == chunked
    assert answer.body == b"".join([*STREAM, USAGE_EVENT, DONE])
    assert frame.data is None
    assert LIMIT < frame.size_bytes <= len(body)
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.request is None
    assert "observer_limit" in exchange.anomalies
    assert exchange.rewrites == ()


async def test_a_chat_at_the_limit_is_still_rewritten() -> None:
    """The limit itself is within it."""
    body = PADDED % (b"x" * (LIMIT - len(PADDED) + len("%b")))
    assert len(body) == LIMIT
    async with relaying(lambda c: c.stream(*STREAM, USAGE_EVENT, DONE), max_body_bytes=LIMIT) as (
        _,
        running,
    ):
        answer = await ask(running.address, request_bytes(body))
        exchange = await running.sink.wait_for()
    assert answer.body == b"".join([*STREAM, DONE])
    assert exchange.rewrites


async def test_a_chat_over_the_limit_reaches_the_upstream_before_it_is_whole() -> None:
    """What cannot be held is relayed as it comes."""
    begun = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.reader.readexactly(LIMIT + 1)
        begun.set()
        await connection.reader.readuntil(b'"}')
        await connection.answer()

    body = PADDED % (b"x" * 100_000)
    async with relaying(script, reads_body=False, max_body_bytes=LIMIT) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        request = request_bytes(body)
        writer.write(request[:50_000])
        async with asyncio.timeout(2):
            await begun.wait()
        writer.write(request[50_000:])
        assert (await reader.read()).endswith(ANSWER)
        writer.close()


@pytest.mark.parametrize("observed", [True, False])
async def test_an_upload_that_breaks_off_ends_at_the_upstream_too(*, observed: bool) -> None:
    """The upstream never takes half a body for a whole one."""
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def script(connection: Connection) -> None:
        gone.set_result(await connection.wait_closed_by_peer())

    target = b"/v1/chat/completions" if observed else b"/v1/files"
    async with relaying(script, reads_body=False, max_body_bytes=LIMIT) as (_, running):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(PADDED % (b"x" * 100_000), target=target)[:50_000])
        await asyncio.sleep(0.1)
        writer.close()
        assert await gone < 1
        if observed:
            assert (await running.sink.wait_for()).outcome is Outcome.CLIENT_DISCONNECTED


@pytest.mark.parametrize("begun", [True, False], ids=["answer-begun", "no-answer"])
@pytest.mark.parametrize("observed", [True, False])
async def test_an_upload_with_broken_framing_breaks_off_on_both_sides(
    *, observed: bool, begun: bool
) -> None:
    """400 where nothing was answered yet, else a broken end; never a whole body upstream."""
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def script(connection: Connection) -> None:
        if begun:
            await connection.begin_stream()
            await connection.send_chunks(STREAM[0], end=False)
        gone.set_result(await connection.wait_closed_by_peer())

    target = b"/v1/chat/completions" if observed else b"/v1/files"
    head = b"POST %b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % target
    async with relaying(script, reads_body=False, max_body_bytes=1024) as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(head + b"fa0\r\n%b\r\n" % (b"x" * 4000))
        async with asyncio.timeout(20):
            while not upstream.requests:
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        writer.write(b"no size\r\n")
        async with asyncio.timeout(20):
            raw, reset = await read_with_end(reader)
        writer.close()
        answer = parse_answer(raw, reset=reset)
        assert await gone < 1
        if observed:
            exchange = await running.sink.wait_for()
            assert exchange.outcome in {Outcome.CLIENT_DISCONNECTED, Outcome.TRUNCATED}
    if begun:
        assert (answer.body, answer.clean) == (STREAM[0], False)
    else:
        assert answer.status == 400
        assert answer.error["code"] == "invalid_request_body"
