"""The same bytes, sent directly and through the proxy: what both ways showed to both ends.

What may differ is the closed list of ``docs/contract/promises.md#what-may-differ``; each entry of
it has a test of its own in the files ``test_transparent_*``.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.proxy.harness import (
    ANSWER,
    CHAT,
    Connection,
    ScriptedUpstream,
    request_bytes,
    running_proxy,
)
from tests.proxy.raw_client import join_chunks, read_answer, split_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from telemetry.observing.exchange import Exchange
    from tests.proxy.raw_client import Address, Fields

CHAT_TARGET = b"/v1/chat/completions"
OTHER_TARGET = b"/v1/models"
TARGETS = pytest.mark.parametrize("target", [CHAT_TARGET, OTHER_TARGET], ids=["chat", "other"])


def replies(*data: bytes, closes: bool = False) -> Callable[[Connection], Awaitable[None]]:
    """A script that sends bytes."""

    async def script(connection: Connection) -> None:
        await connection.send(*data)
        if closes:
            connection.writer.close()

    return script


def plain(head: bytes = b"", body: bytes = ANSWER, status: bytes = b"200 OK") -> bytes:
    """A counted answer."""
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, head, len(body), body)


def post(target: bytes = CHAT_TARGET, head: bytes = b"", body: bytes = CHAT) -> bytes:
    """A counted request on a connection that is kept."""
    return request_bytes(body, target=target, head=head, close=False)


async def exchange_raw(address: Address, data: bytes, *, seconds: float = 10.0) -> bytes:
    """Send a request on a connection that stays open, and read its answer."""
    reader, writer = await asyncio.open_connection(*address, limit=1 << 22)
    try:
        writer.write(data)
        await writer.drain()
        async with asyncio.timeout(seconds):
            return await read_answer(reader, data.partition(b" ")[0])
    finally:
        writer.transport.abort()


@dataclass(frozen=True)
class Side:
    """What one way to the upstream showed to both ends."""

    answer: bytes
    request: Connection

    @property
    def status(self) -> bytes:
        """Code and reason."""
        return split_answer(self.answer)[0].partition(b" ")[2]

    @property
    def fields(self) -> Fields:
        return split_answer(self.answer)[1]

    @property
    def body(self) -> bytes:
        """The body, chunks undone."""
        _, fields, body = split_answer(self.answer)
        chunked = any(n.lower() == b"transfer-encoding" and v == b"chunked" for n, v in fields)
        return join_chunks(body)[0] if chunked else body

    @property
    def request_fields(self) -> Fields:
        """What reached the upstream, the value of ``Host`` left open."""
        return [(n, b"..." if n.lower() == b"host" else v) for n, v in self.request.fields]


@dataclass(frozen=True)
class Compared:
    """The same request, sent directly and through the proxy."""

    direct: Side
    proxied: Side
    exchanges: list[Exchange]


async def compare(
    data: bytes, script: Callable[[Connection], Awaitable[object]], **settings: Any
) -> Compared:
    """Send the same bytes directly and through the proxy, to the same scripted upstream."""
    async with ScriptedUpstream(script) as upstream:
        direct = Side(await exchange_raw(upstream.address, data), upstream.last)
        async with running_proxy(upstream.url, **settings) as running:
            proxied = Side(await exchange_raw(running.address, data), upstream.last)
        assert len(upstream.requests) == 2
    return Compared(direct, proxied, running.sink.exchanges)


def assert_same_request(compared: Compared) -> None:
    """The upstream got the same request, but for the value of ``Host``."""
    assert compared.proxied.request.request_line == compared.direct.request.request_line
    assert compared.proxied.request_fields == compared.direct.request_fields
    assert compared.proxied.request.body == compared.direct.request.body


def assert_same_answer(compared: Compared) -> None:
    """The client got the same answer, chunk boundaries aside."""
    assert compared.proxied.status == compared.direct.status
    assert compared.proxied.fields == compared.direct.fields
    assert compared.proxied.body == compared.direct.body


FIELDS = {
    "none": b"",
    "case": b"x-lower: 1\r\nX-UPPER: 2\r\naCCept: text/x\r\n",
    "order": b"Z: 1\r\nA: 2\r\nM: 3\r\nB: 4\r\n",
    "duplicates": b"X-A: 1\r\nX-B: 2\r\nX-A: 3\r\n",
    "duplicates that differ in case": b"X-A: 1\r\nx-a: 2\r\nX-a: 1\r\n",
    "values that are no UTF-8": b"X-A: \xff\xfe caf\xe9\r\nX-B: caf\xc3\xa9\r\n",
    "empty values": b"X-A:\r\nX-B: \r\n",
    "white space inside": b"X-A: a  b\tc\r\n",
    "longer than 8,190 bytes": b"X-Long: %b\r\n" % (b"a" * 20_000),
    "nearly 64 KiB": b"X-Long: %b\r\n" % (b"a" * 65_500),
    "two hundred": b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(200)),
    "every character of names": b"!#$%&'*+-.^_`|~09azAZ: 1\r\n",
    "what libraries like to touch": (
        b"user-agent: x\r\nAccept-Encoding: gzip, br\r\nAuthorization: Bearer k\r\n"
        b"Cookie: a=1\r\nCookie: b=2\r\nDate: now\r\nServer: s\r\nVia: 1.1 v\r\n"
    ),
    "a trace of the client's own": (
        b"traceparent: 00-%b-%b-01\r\nTraceState: a=1\r\n" % (b"1" * 32, b"2" * 16)
    ),
}
"""Fields that cross as they are, in either direction."""
HOP_BY_HOP = (
    b"Keep-Alive: timeout=5\r\nproxy-authenticate: Basic\r\nProxy-Authorization: Basic x\r\n"
    b"Proxy-Connection: keep-alive\r\nTE: trailers\r\nTrailer: X-T\r\nX-Named: 1\r\nX-Kept: 2\r\n"
    b"x-other: 3\r\n"
)
"""Fields that stay here where Connection names ``X-Named`` and ``X-Other``; ``X-Kept`` crosses."""
TRAILED = b"3\r\nabc\r\n0\r\nX-Trailer: evil\r\nHost: evil\r\n\r\n"
"""The chunks of a body, with trailers that do not cross."""
