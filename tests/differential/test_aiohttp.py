"""Why both ends of the relay are our own protocols: a plain aiohttp relay beside ours.

Each test says what a relay owes its client or its upstream, over raw sockets. Ours does it;
aiohttp's client or server does not, and the day it does the test says so, being strict.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.differential.aiohttp_relay import TOTAL_SECONDS, relaying_by_aiohttp
from tests.proxy.harness import Connection, ScriptedUpstream, running_proxy
from tests.proxy.raw_client import parse_answer, send_with_end, slow_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.proxy.raw_client import Address, Answer

    Script = Callable[[Connection], Awaitable[object]]
    Relay = Callable[..., contextlib.AbstractAsyncContextManager[Address]]

HEAD = b"%b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
ENOUGH_SECONDS = TOTAL_SECONDS / 4


@contextlib.asynccontextmanager
async def relaying_by_us(
    upstream: str, *, send_buffer_bytes: int | None = None
) -> AsyncIterator[Address]:
    async with running_proxy(
        upstream, send_buffer_bytes=send_buffer_bytes, header_timeout_seconds=0.5
    ) as running:
        yield running.address


both = pytest.mark.parametrize(
    "relaying",
    [
        pytest.param(relaying_by_us, id="ours"),
        pytest.param(
            relaying_by_aiohttp,
            id="aiohttp",
            marks=pytest.mark.xfail(strict=True, raises=AssertionError),
        ),
    ],
)


async def call(
    relaying: Relay, script: Script, data: bytes, **options: Any
) -> tuple[Answer, ScriptedUpstream]:
    """Send bytes to a relay in front of a script: the answer, and what the upstream has seen."""
    async with ScriptedUpstream(script) as upstream, relaying(upstream.url, **options) as address:
        raw, reset = await send_with_end(address, data, seconds=TOTAL_SECONDS / 2)
        return parse_answer(raw, reset=reset), upstream


# --- aiohttp's client


@both
@pytest.mark.parametrize("target", [b"/a?", b"/a#b"])
async def test_the_target_is_sent_as_it_came(relaying: Relay, target: bytes) -> None:
    """To the byte: an upstream may sign it."""
    _, upstream = await call(relaying, Connection.answer, HEAD % (b"GET " + target))
    assert upstream.last.request_line == b"GET %b HTTP/1.1" % target


@both
@pytest.mark.parametrize(
    "fields",
    [
        [(b"X-A", b"1"), (b"x-a", b"2"), (b"X-A", b"1")],
        [(b"X-A", b"caf\xe9")],
    ],
    ids=["repeated", "not UTF-8"],
)
async def test_fields_are_sent_as_they_came(
    relaying: Relay, fields: list[tuple[bytes, bytes]]
) -> None:
    """Each byte, each time and in their order."""
    lines = b"".join(b"%b: %b\r\n" % field for field in fields)
    request = b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n%b\r\n" % lines
    _, upstream = await call(relaying, Connection.answer, request)
    assert [field for field in upstream.last.fields if field[0].lower().startswith(b"x-")] == fields


@both
async def test_what_came_before_a_break_arrives(relaying: Relay) -> None:
    """Also where the client was slow, and the relay had it before the break."""
    sent = b"".join(b"%07d\n" % number for number in range(80_000))

    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n", sent)
        connection.writer.close()

    received = bytearray()
    async with (
        ScriptedUpstream(script) as upstream,
        relaying(upstream.url, send_buffer_bytes=4096) as address,
        slow_client(address, HEAD % b"GET /a", buffer_bytes=4096) as sock,
    ):
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):
            while data := await loop.sock_recv(sock, 16_384):
                received += data
                await asyncio.sleep(0.002)
    assert bytes(received).partition(b"\r\n\r\n")[2] == sent


@both
async def test_broken_chunks_end_the_answer_at_once(relaying: Relay) -> None:
    """And not when the client's patience is at its end."""

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(b"hi", end=False)
        await asyncio.sleep(0.2)
        await connection.send(b"no size\r\n")
        await connection.wait_closed_by_peer(TOTAL_SECONDS)

    began = time.monotonic()
    with contextlib.suppress(TimeoutError):
        await call(relaying, script, HEAD % b"GET /a")
    assert time.monotonic() - began < ENOUGH_SECONDS


@both
async def test_a_body_that_a_reset_ended_is_not_whole(relaying: Relay) -> None:
    """A body without a length ends by the connection's end, and by no other."""

    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await asyncio.sleep(0.1)  # a reset takes with it what was not read yet
        connection.reset()

    answer, _ = await call(relaying, script, HEAD % b"GET /a")
    assert (answer.body, answer.clean) == (b"half", False)


@both
async def test_what_an_upstream_sends_unasked_answers_nobody(relaying: Relay) -> None:
    """Another client's request is answered by its own answer."""

    async def script(connection: Connection) -> None:
        await connection.answer(b"answer %d" % connection.number)
        if connection.number == 1:
            await asyncio.sleep(0.05)
            await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")

    async with ScriptedUpstream(script) as upstream, relaying(upstream.url) as address:
        bodies = []
        for _ in range(2):
            raw, reset = await send_with_end(address, HEAD % b"GET /a")
            bodies.append(parse_answer(raw, reset=reset).body)
            await asyncio.sleep(0.2)
    assert bodies == [b"answer 1", b"answer 2"]


# --- aiohttp's server


@both
async def test_trailers_are_no_fields_of_the_next_request(relaying: Relay) -> None:
    """One client's trailers could else pass for what a gateway in front of us says of another's."""
    request = (
        b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\nhi\r\n0\r\nX-User: someone-else\r\n\r\n"
    )
    _, upstream = await call(relaying, Connection.answer, request + HEAD % b"GET /b")
    assert [asked.request_line.split()[1] for asked in upstream.requests] == [b"/a", b"/b"]
    assert upstream.last.field(b"x-user") is None


@both
async def test_a_large_head_is_refused(relaying: Relay) -> None:
    """All of it together, and not each field by itself."""
    fields = b"".join(b"X-%d: %b\r\n" % (number, b"a" * 8000) for number in range(100))
    request = b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n%b\r\n" % fields
    answer, _ = await call(relaying, Connection.answer, request)
    assert answer.status == 431


@both
async def test_a_head_that_does_not_end_is_given_up(relaying: Relay) -> None:
    """By 408, and within a limit."""
    async with ScriptedUpstream(Connection.answer) as upstream, relaying(upstream.url) as address:
        raw = b""
        with contextlib.suppress(TimeoutError):
            raw, _ = await send_with_end(address, b"GET /a HTTP/1.1\r\n", seconds=ENOUGH_SECONDS)
    assert raw.startswith(b"HTTP/1.1 408 ")
