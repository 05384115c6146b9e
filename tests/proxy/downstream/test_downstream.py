"""``proxy.downstream.downstream``: the client's side of an answer, framed, cut, and left."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

import pytest

from proxy.downstream import downstream
from proxy.downstream.listening import listen
from proxy.downstream.port_state import PortState
from proxy.downstream.server import DownstreamServer
from proxy.headers import Head
from tests.proxy.raw_client import read_answer, send_with_end, split_answer
from tests.proxy.serving import GET, GET_1_0, HEAD, answer_empty, serving

if TYPE_CHECKING:
    from proxy.downstream.downstream import Answered, Downstream
    from proxy.headers import RawHeaders


# A client that leaves.


async def test_a_half_close_between_requests_ends_the_connection() -> None:
    """Nobody is waiting for anything."""
    async with serving(answer_empty) as (address, _):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(GET)
        await read_answer(reader)
        writer.write_eof()
        async with asyncio.timeout(1):
            assert await reader.read() == b""
        writer.transport.abort()


async def test_what_is_written_to_a_client_does_not_wait_for_more() -> None:
    """Whatever the listener is: an event that waits for the next one is a late event."""
    state = PortState(max_header_bytes=8192)
    server = DownstreamServer(answer_empty, state)
    listener = await asyncio.get_running_loop().create_server(
        server, sock=listen("traffic", "127.0.0.1", 0)
    )
    _, writer = await asyncio.open_connection(*listener.sockets[0].getsockname()[:2])
    while not server.connections:
        await asyncio.sleep(0.001)
    [connection] = server.connections
    sock = connection.stream.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    listener.close()
    await server.shutdown(0.1)
    writer.close()


# Broken ends.


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
async def test_a_cut_comes_after_all_bytes_and_is_never_a_clean_end(
    request_data: bytes, headers: RawHeaders, resets: bool
) -> None:
    """Chunked and counted bodies just stop; only a reset tells the end of the others."""
    body = b"x" * 300_000

    async def handler(client: Downstream) -> Answered:
        client.begin_answer(200, "OK", Head(headers), has_body=True)
        await client.send(body)
        return await client.cut()

    async with serving(handler) as (address, _):
        data, was_reset = await send_with_end(address, request_data)
    assert was_reset is resets
    assert data.count(b"x") == len(body)
    assert not data.endswith(b"0\r\n\r\n")


async def test_a_client_that_never_reads_is_reset_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Waiting for its acknowledgement has a limit."""
    monkeypatch.setattr(downstream, "MAX_RESET_WAIT_SECONDS", 0.05)
    cut = asyncio.Event()

    async def handler(client: Downstream) -> Answered:
        client.begin_answer(200, "OK", Head(), has_body=True)
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


# The transfer coding.


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

    async def handler(client: Downstream) -> Answered:
        client.begin_answer(200, "OK", Head(((b"Transfer-Encoding", coding),)), has_body=True)
        assert client.head_sent
        return await client.finish()

    async with serving(handler) as (address, _):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request_data)
        _, fields, _ = split_answer(await reader.readuntil(b"\r\n\r\n"))
        writer.transport.abort()
    assert fields == expected


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

    async def handler(client: Downstream) -> Answered:
        headers = ((b"Transfer-Encoding", b"chunked"),)
        client.begin_answer(status, "Fine", Head(headers), has_body=False)
        return await client.finish()

    async with serving(handler) as (address, _):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request_data)
        head = await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
    assert (b"Transfer-Encoding: chunked\r\n" in head) is relayed
