"""The timeouts are settings (``design.md`` section 5); 0 means none where it may."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

from telemetry.exchange import Outcome
from tests.proxy.harness import (
    DONE,
    STREAM,
    STREAMED_CHAT,
    Connection,
    ScriptedUpstream,
    TurnedLoop,
    ask,
    request_bytes,
    running_proxy,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

STREAMED = request_bytes(STREAMED_CHAT)


@contextlib.contextmanager
def full_listener() -> Iterator[int]:
    """A port whose backlog is full: connecting to it hangs."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.connect(listener.getsockname())
        yield listener.getsockname()[1]


async def test_connecting_has_a_timeout() -> None:
    """504 and ``upstream_connect_timeout``."""
    with full_listener() as port:
        url = f"http://127.0.0.1:{port}"
        async with running_proxy(url, connect_timeout_seconds=0.1) as running:
            answer = await ask(running.address, STREAMED)
            exchange = await running.sink.wait_for()
    assert answer.status == 504
    assert answer.error["code"] == "upstream_connect_timeout"
    assert (exchange.outcome, exchange.error_type) == (Outcome.TIMEOUT, "timeout")


async def test_the_first_byte_timeout_begins_after_the_last_byte_of_the_request() -> None:
    """A long upload does not use it up."""

    async def script(connection: Connection) -> None:
        await connection.answer()

    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, first_byte_timeout_seconds=0.2) as running,
    ):
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

    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, idle_timeout_seconds=0.25) as running,
    ):
        answer = await ask(running.address, STREAMED)
    assert (answer.body, answer.clean) == (b"".join([*STREAM, DONE]), True)


async def test_waiting_for_a_slow_client_is_not_the_upstreams_silence() -> None:
    """The idle timeout stands still while we do not read."""
    big = b"data: " + b"x" * 10_000_000 + b"\n\n"

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(big, DONE)

    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, idle_timeout_seconds=0.2) as running,
    ):
        loop = asyncio.get_running_loop()
        with socket.socket() as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, running.address)
            await loop.sock_sendall(sock, STREAMED)
            await asyncio.sleep(0.8)
            received = 0
            async with asyncio.timeout(10):
                while data := await loop.sock_recv(sock, 1 << 20):
                    received += len(data)
        assert received > len(big) + len(DONE)
        assert (await running.sink.wait_for()).outcome is Outcome.COMPLETED


def test_no_timeout_is_no_timeout() -> None:
    """0 waits for a day (on a turned loop)."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, TurnedLoop)
        go = asyncio.Event()

        async def script(connection: Connection) -> None:
            await go.wait()
            go.clear()
            await connection.begin_stream()
            await connection.send_chunks(STREAM[0], end=False)
            await go.wait()
            await connection.send_chunks(*STREAM[1:], DONE)

        async with (
            ScriptedUpstream(script) as upstream,
            running_proxy(
                upstream.url, first_byte_timeout_seconds=0, idle_timeout_seconds=0
            ) as running,
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

    with asyncio.Runner(loop_factory=TurnedLoop) as runner:
        runner.run(main())
