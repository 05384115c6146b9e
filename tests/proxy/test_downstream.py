"""The client's side: leaving, broken ends, and what a connection does after an answer of ours."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from proxy import downstream, downstream_server, overflow
from proxy.clock import SystemClock
from proxy.downstream_server import DownstreamServer
from proxy.limits import DownstreamLimits
from proxy.logs import limit_lines
from telemetry.exchange import Outcome
from tests.proxy.harness import (
    DONE,
    STREAM,
    STREAMED_CHAT,
    USAGE_EVENT,
    Address,
    Connection,
    ScriptedUpstream,
    chunk_event,
    read_answer,
    read_to_end,
    request_bytes,
    running_proxy,
    send_raw,
    split_answer,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from aiohttp import web

    from proxy.downstream import Downstream
    from proxy.headers import RawHeaders

Handler = "Callable[[Downstream], Awaitable[web.StreamResponse]]"


@contextlib.asynccontextmanager
async def serving(
    handler: Callable[[Downstream], Awaitable[web.StreamResponse]],
    limits: DownstreamLimits | None = None,
) -> AsyncIterator[tuple[Address, DownstreamServer]]:
    """A server with a handler of the test's own."""
    server = DownstreamServer(
        handler, max_header_bytes=8192, refusals=limit_lines(SystemClock()), limits=limits
    )
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[:2], server
    finally:
        listener.close()
        await server.shutdown(0.1)


GET = b"GET / HTTP/1.1\r\nHost: c\r\n\r\n"
GET_1_0 = b"GET / HTTP/1.0\r\n\r\n"


# Rule 2: leaving.


async def _seconds_until_noticed(target: bytes) -> float:
    """From a half-close of a client that does not read to the end of the upstream's request."""
    loop = asyncio.get_running_loop()
    full: asyncio.Event = asyncio.Event()
    closed: asyncio.Future[float] = loop.create_future()
    large = chunk_event(f'"content":"{"a" * 60_000}"')

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(0.3):
                    await connection.send_chunks(large, end=False)
        full.set()
        await connection.wait_closed_by_peer()
        closed.set_result(loop.time())

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        _reader, writer = await asyncio.open_connection(*running.address, limit=4096)
        writer.write(request_bytes(STREAMED_CHAT, target=target, close=False))
        await full.wait()
        left = loop.time()
        writer.write_eof()
        async with asyncio.timeout(5):
            seconds = await closed - left
        if target != b"/x":
            exchange = await running.sink.wait_for()
            assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
        assert len(running.proxy.open_exchanges) == 0
        writer.transport.abort()
    return seconds


@pytest.mark.parametrize("target", [b"/v1/chat/completions", b"/x"], ids=["chat", "other"])
async def test_rule_2_a_half_close_is_noticed_within_100_ms_by_a_full_buffer(
    target: bytes,
) -> None:
    """Even while bytes wait for a client that does not read; the best of three is taken."""
    assert min([await _seconds_until_noticed(target) for _ in range(3)]) < 0.1


async def test_rule_2_a_half_close_does_not_cut_the_draining_that_it_begins() -> None:
    """With ``on_disconnect = drain`` the rest is read for its usage."""
    go_on = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(STREAM[0], end=False)
        await go_on.wait()
        await connection.send_chunks(*STREAM[1:], USAGE_EVENT, DONE)

    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, on_disconnect="drain") as running,
    ):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(STREAMED_CHAT))
        await reader.readuntil(b"assistant")
        writer.write_eof()
        await asyncio.sleep(0.05)
        go_on.set()
        exchange = await running.sink.wait_for()
        writer.transport.abort()
    assert exchange.response is not None
    assert exchange.response.usage is not None


async def test_a_half_close_between_requests_ends_the_connection() -> None:
    """Nobody is waiting for anything."""

    async def handler(client: Downstream) -> web.StreamResponse:
        await client.send_head(200, "OK", ((b"Content-Length", b"0"),), has_body=True)
        return await client.finish()

    async with serving(handler) as (address, _):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(GET)
        await read_answer(reader)
        writer.write_eof()
        async with asyncio.timeout(1):
            assert await reader.read() == b""
        writer.transport.abort()


# Rule 3: broken ends.


async def _read_until_cut(address: Address, data: bytes) -> tuple[bytes, bool]:
    """What came, and whether the end was a reset."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    pieces, was_reset = [], False
    try:
        while piece := await reader.read(65536):
            pieces.append(piece)
    except ConnectionResetError:
        was_reset = True
    writer.transport.abort()
    return b"".join(pieces), was_reset


@pytest.mark.parametrize(
    ("request_data", "headers", "resets"),
    [
        (GET, (), False),
        (GET, ((b"Content-Length", b"1000000"),), False),
        (GET_1_0, (), True),
        (GET_1_0, ((b"Content-Length", b"1000000"),), False),
    ],
    ids=["chunked", "counted", "delimited by its end", "counted, 1.0"],
)
async def test_rule_3_a_cut_comes_after_all_bytes_and_is_never_a_clean_end(
    request_data: bytes, headers: RawHeaders, resets: bool
) -> None:
    """Chunked and counted bodies just stop; only a reset tells the end of the others."""
    body = b"x" * 300_000

    async def handler(client: Downstream) -> web.StreamResponse:
        await client.send_head(200, "OK", headers, has_body=True)
        await client.send(body)
        return await client.cut()

    async with serving(handler) as (address, _):
        data, was_reset = await _read_until_cut(address, request_data)
    assert was_reset is resets
    assert data.count(b"x") == len(body)
    assert not data.endswith(b"0\r\n\r\n")


async def test_rule_3_a_client_that_never_reads_is_reset_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Waiting for its acknowledgement has a limit."""
    monkeypatch.setattr(downstream, "MAX_RESET_WAIT_SECONDS", 0.05)
    cut = asyncio.Event()

    async def handler(client: Downstream) -> web.StreamResponse:
        await client.send_head(200, "OK", (), has_body=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                while True:
                    await client.send(b"x" * 100_000)
        answered = await client.cut()
        cut.set()
        return answered

    async with serving(handler) as (address, _):
        with socket.create_connection(address) as sock:
            sock.sendall(GET_1_0)
            async with asyncio.timeout(5):
                await cut.wait()


# Faults of the handler's.


async def test_a_fault_before_the_answer_is_a_500_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """OpenAI-shaped, closed, not counted as the client's, and silent about the cause."""

    async def handler(client: Downstream) -> web.StreamResponse:
        raise ValueError("secret")

    async with serving(handler) as (address, server):
        status, fields, body = split_answer(await send_raw(address, GET))
    assert status == b"HTTP/1.1 500 Internal Server Error"
    assert (b"Connection", b"close") in fields
    assert b'"code": "internal_error"' in body
    assert b"secret" not in body
    assert server.refused_count == 0
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


@pytest.mark.parametrize(
    ("fault", "status"), [(ValueError, b"500 "), (TimeoutError, b"504 ")], ids=["500", "504"]
)
async def test_an_interim_answer_of_ours_is_not_the_beginning_of_the_answer(
    fault: type[Exception], status: bytes
) -> None:
    """A fault after the 100 Continue is told like any other before the head."""

    async def handler(client: Downstream) -> web.StreamResponse:
        await client.continue_if_expected()
        raise fault

    request = b"PUT / HTTP/1.1\r\nHost: c\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    async with serving(handler) as (address, _):
        got = await send_raw(address, request)
    assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 " + status)
    assert b'"code": "internal_error"' in got


async def test_a_fault_in_answer_to_head_has_no_body() -> None:
    """RFC 9110 section 9.3.2."""

    async def handler(client: Downstream) -> web.StreamResponse:
        raise ValueError

    async with serving(handler) as (address, _):
        answer = await send_raw(address, b"HEAD / HTTP/1.1\r\nHost: c\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("fault", [ValueError, TimeoutError])
async def test_a_fault_in_the_middle_of_an_answer_is_a_reset(
    fault: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """Never a clean end, whatever the framing."""

    async def handler(client: Downstream) -> web.StreamResponse:
        await client.send_head(200, "OK", (), has_body=True)
        raise fault

    async with serving(handler) as (address, _):
        _, was_reset = await _read_until_cut(address, GET_1_0)
    assert was_reset
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_client_that_leaves_is_nobodys_fault(caplog: pytest.LogCaptureFixture) -> None:
    """A write that fails ends the connection without a log line."""
    done = asyncio.Event()

    async def handler(client: Downstream) -> web.StreamResponse:
        try:
            raise ConnectionResetError
        finally:
            done.set()

    async with serving(handler) as (address, _):
        assert await send_raw(address, GET) == b""
        await done.wait()
    assert caplog.records == []


async def test_a_timeout_that_a_handler_lets_pass_is_a_504() -> None:
    """The base class asks for it."""

    async def handler(client: Downstream) -> web.StreamResponse:
        raise TimeoutError

    async with serving(handler) as (address, _):
        assert (await send_raw(address, GET)).startswith(b"HTTP/1.1 504 Gateway Timeout\r\n")


# Rule 5: after an answer of ours.


async def test_rule_5_our_side_is_closed_and_the_rest_is_dropped_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then the connection is closed on a client that never closes its own."""

    async def handler(client: Downstream) -> web.StreamResponse:
        return await client.answer_error(502, "code", "message")

    async with serving(handler) as (address, server):
        # Only now, so that the base class would wait as long as ever in our stead.
        monkeypatch.setattr(downstream_server, "MAX_LINGER_SECONDS", 0.1)
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"PUT / HTTP/1.1\r\nHost: c\r\nContent-Length: 9000000\r\n\r\n")
        assert (await read_to_end(reader)).startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
        writer.write(b"x" * 100_000)
        assert len(server.connections) == 1
        async with asyncio.timeout(2):
            while server.connections:
                await asyncio.sleep(0.01)
        writer.transport.abort()


async def test_rule_5_a_large_upload_in_vain_can_read_its_answer() -> None:
    """Even where reading had been paused because nobody took the body."""

    async def handler(client: Downstream) -> web.StreamResponse:
        await asyncio.sleep(0.1)
        return await client.answer_error(413, "code", "message")

    async with serving(handler) as (address, _):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"PUT / HTTP/1.1\r\nHost: c\r\nContent-Length: 9000000\r\n\r\n")
        async with asyncio.timeout(5):
            for _ in range(90):
                writer.write(b"x" * 100_000)
                await writer.drain()
            data = await read_to_end(reader)
        writer.transport.abort()
    assert data.startswith(b"HTTP/1.1 413 ")


async def test_an_error_in_answer_to_head_has_no_body() -> None:
    """RFC 9110 section 9.3.2."""

    async def handler(client: Downstream) -> web.StreamResponse:
        return await client.answer_error(502, "code", "message")

    async with serving(handler) as (address, _):
        answer = await send_raw(address, b"HEAD / HTTP/1.1\r\nHost: c\r\n\r\n")
    assert answer.endswith(b"Connection: close\r\n\r\n")


async def test_a_server_that_is_closing_says_so() -> None:
    """The last answer of a connection tells the client to open another one."""

    async def handler(client: Downstream) -> web.StreamResponse:
        await client.send_head(200, "OK", ((b"Content-Length", b"0"),), has_body=True)
        return await client.finish()

    async with serving(handler) as (address, server):
        server.closing = True
        _, fields, _ = split_answer(await send_raw(address, GET))
    assert fields == [(b"Content-Length", b"0"), (b"Connection", b"close")]


# Rule 6: going down.


async def test_rule_6_an_answer_whose_head_promised_more_ends_its_connection_too() -> None:
    """The head was sent before we knew."""
    go_on = asyncio.Event()

    async def handler(client: Downstream) -> web.StreamResponse:
        await client.send_head(200, "OK", ((b"Content-Length", b"2"),), has_body=True)
        await go_on.wait()
        await client.send(b"ok")
        return await client.finish()

    async with serving(handler) as (address, server):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(GET)
        head = await reader.readuntil(b"\r\n\r\n")
        server.closing = True
        server.pre_shutdown()
        go_on.set()
        async with asyncio.timeout(1):
            assert await reader.read() == b"ok"
        writer.transport.abort()
    assert b"Connection" not in head


async def test_rule_6_going_down_drops_nothing_of_an_upload() -> None:
    """Idle connections are closed at once, busy ones at their end."""
    begun = asyncio.Event()

    async def handler(client: Downstream) -> web.StreamResponse:
        begun.set()
        size = 0
        while data := await client.body.readany():
            size += len(data)
        await client.send_head(200, "OK", ((b"X-Size", b"%d" % size),), has_body=True)
        return await client.finish()

    async with serving(handler) as (address, server):
        idle_reader, idle_writer = await asyncio.open_connection(*address)
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"PUT / HTTP/1.1\r\nHost: c\r\nContent-Length: 2000000\r\n\r\nx")
        await begun.wait()
        server.closing = True
        waiting = asyncio.ensure_future(server.wait_until_unconnected(5))
        async with asyncio.timeout(1):
            assert await idle_reader.read() == b""
        assert not waiting.done()
        writer.write(b"x" * 1_999_999)
        async with asyncio.timeout(5):
            _, fields, _ = split_answer(await read_to_end(reader))
        assert await waiting
        idle_writer.close()
        writer.close()
    assert fields[0] == (b"X-Size", b"2000000")
    assert (b"Connection", b"close") in fields


async def test_rule_6_a_connection_that_becomes_idle_later_is_closed_then() -> None:
    """Its answer was over before we knew, and the rest of its request came after."""

    async def handler(client: Downstream) -> web.StreamResponse:
        await client.send_head(200, "OK", ((b"Content-Length", b"0"),), has_body=True)
        return await client.finish()

    async with serving(handler) as (address, server):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"PUT / HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\nx")
        await reader.readuntil(b"\r\n\r\n")
        server.closing = True
        assert not await server.wait_until_unconnected(0.1)
        writer.write(b"x")
        assert await server.wait_until_unconnected(2)
        writer.close()


@pytest.mark.parametrize("by", ["server", "overflow"])
async def test_rule_5_a_client_that_resets_while_it_is_answered_ends_quietly(
    by: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its reset arrives after the answer was written, and before our side is closed."""
    module = downstream_server if by == "server" else overflow
    limits = DownstreamLimits(max_connections=1 if by == "server" else 0)
    was_reset = asyncio.Event()

    def half_close(transport: asyncio.Transport) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        downstream.half_close(transport)
        was_reset.set()

    async def handler(client: Downstream) -> web.StreamResponse:
        return await client.answer_error(400, "a", "b")

    monkeypatch.setattr(module, "half_close", half_close)
    async with serving(handler, limits) as (address, server):
        client = socket.create_connection(address)
        client.sendall(GET)
        async with asyncio.timeout(5):
            await was_reset.wait()
            while server.connections or server._turned_away:
                await asyncio.sleep(0.002)
    assert not caplog.records or by == "overflow"
    assert not [r for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    ("request_data", "coding", "expected"),
    [
        (GET, b"gzip", [(b"Transfer-Encoding", b"gzip"), (b"Transfer-Encoding", b"chunked")]),
        (GET, b"gzip, Chunked", [(b"Transfer-Encoding", b"gzip, Chunked")]),
        (GET, b"chunked\t ", [(b"Transfer-Encoding", b"chunked\t ")]),
        (GET, b"identity", [(b"Transfer-Encoding", b"chunked")]),
        (GET, b", Identity ,", [(b"Transfer-Encoding", b"chunked")]),
        (GET, b"identity, chunked", [(b"Transfer-Encoding", b"identity, chunked")]),
        (GET_1_0, b"chunked", [(b"Connection", b"close")]),
    ],
)
async def test_the_transfer_coding_says_how_this_hop_is_framed(
    request_data: bytes, coding: bytes, expected: list[tuple[bytes, bytes]]
) -> None:
    """Chunked always comes last (RFC 9112 section 6.1), and never to a client of HTTP/1.0.

    What is no coding is not said before it.
    """

    async def handler(client: Downstream) -> web.StreamResponse:
        await client.send_head(200, "OK", ((b"Transfer-Encoding", coding),), has_body=True)
        assert client.head_sent
        return await client.finish()

    async with serving(handler) as (address, _):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request_data)
        _, fields, _ = split_answer(await reader.readuntil(b"\r\n\r\n"))
        writer.transport.abort()
    assert fields == expected


HEAD = b"HEAD / HTTP/1.1\r\nHost: c\r\n\r\n"
HEAD_1_0 = b"HEAD / HTTP/1.0\r\n\r\n"


@pytest.mark.parametrize(
    ("request_data", "status", "relayed"),
    [
        (HEAD, 200, True),
        (GET, 304, True),
        (GET, 204, False),
        (HEAD, 204, False),
        (HEAD_1_0, 200, False),
        (GET_1_0, 304, False),
        (GET_1_0, 204, False),
    ],
)
async def test_the_transfer_coding_of_no_body_is_relayed_where_it_may_be(
    request_data: bytes, status: int, relayed: bool
) -> None:
    """Not in a 204, nor to a client of HTTP/1.0 (RFC 9112 section 6.1)."""

    async def handler(client: Downstream) -> web.StreamResponse:
        headers = ((b"Transfer-Encoding", b"chunked"),)
        await client.send_head(status, "Fine", headers, has_body=False)
        return await client.finish()

    async with serving(handler) as (address, _):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request_data)
        head = await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
    assert (b"Transfer-Encoding: chunked\r\n" in head) is relayed
