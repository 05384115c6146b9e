"""Connections to upstreams: names and addresses of new ones, and those that wait."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

import pytest
import trustme
from yarl import URL

from proxy.upstream import dialler, idle_connections
from proxy.upstream.dialler import Dialler
from proxy.upstream.errors import UpstreamClosedError, UpstreamUnreachableError
from proxy.upstream.request import UpstreamTimeouts
from tests.proxy.harness import ANSWER, Connection, ScriptedUpstream
from tests.proxy.upstream.test_client import get, open_client, read_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.proxy.raw_client import Address

NAME = URL("http://upstream.invalid")


@contextlib.asynccontextmanager
async def open_dialler(
    origin: URL = NAME, authority: trustme.CA | None = None
) -> AsyncIterator[Dialler]:
    tls = ssl.create_default_context()
    if authority is not None:
        authority.configure_trust(tls)
    opened = Dialler(origin, None, tls=tls, timeouts=UpstreamTimeouts(), max_header_bytes=65536)
    yield opened
    await opened.close()


class Names:
    """What the system knows of names: addresses, or that there is none.

    Attributes:
        asked_count: how often it was asked.
    """

    def __init__(self, *addresses: Address) -> None:
        self.addresses = addresses
        self.asked_count = 0

    async def find(self, *_: object, **__: object) -> list[object]:
        self.asked_count += 1
        await asyncio.sleep(0.01)
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        kind = socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, ""
        return [(*kind, address) for address in self.addresses]


def use(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", names.find)


async def wait(connection: Connection) -> None:
    await connection.wait_closed_by_peer()


async def test_a_burst_asks_once_and_goes_to_all_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And so does the next one, soon after; later the name is asked for again."""
    async with ScriptedUpstream(wait) as one, ScriptedUpstream(wait) as other, open_dialler() as d:
        names = Names(one.address, other.address)
        use(names, monkeypatch)
        burst = await asyncio.gather(*[d.dial() for _ in range(4)])
        reached = [c.transport.get_extra_info("peername") for c in burst]
        assert reached == [one.address, other.address] * 2
        await d.dial()
        assert names.asked_count == 1
        monkeypatch.setattr(dialler, "KEEP_NAME_SECONDS", 0)
        d._lookup = None
        for _ in range(2):
            await d.dial()
        assert names.asked_count == 3


async def test_a_failure_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """All who asked at once are told; the next asks again."""
    async with ScriptedUpstream(wait) as upstream, open_dialler() as d:
        names = Names()
        use(names, monkeypatch)
        told = await asyncio.gather(*[d.dial() for _ in range(3)], return_exceptions=True)
        assert [type(error) for error in told] == [UpstreamUnreachableError] * 3
        assert str(told[0]) == "Name or service not known"
        assert names.asked_count == 1
        names.addresses = (upstream.address,)
        await d.dial()


async def test_a_dial_that_is_given_up_takes_the_name_from_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first to ask may leave before the name is found."""
    async with ScriptedUpstream(wait) as upstream, open_dialler() as d:
        use(Names(upstream.address), monkeypatch)
        first, second = (asyncio.ensure_future(d.dial()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).transport.get_extra_info("peername") == upstream.address


async def test_the_next_address_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody listens at one, and where TLS fails at one."""
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("upstream.invalid").configure_cert(tls)

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with (
            await asyncio.start_server(hang_up, "127.0.0.1", 0) as no_tls,
            ScriptedUpstream(wait, tls=tls) as upstream,
            open_dialler(NAME.with_scheme("https"), authority) as d,
        ):
            hangs_up = no_tls.sockets[0].getsockname()
            use(Names(closed.getsockname(), hangs_up, upstream.address), monkeypatch)
            connection = await d.dial()
            assert connection.transport.get_extra_info("peername") == upstream.address


async def test_closing_ends_all_connections() -> None:
    """In use or not; whoever waits for an answer is told."""
    async with ScriptedUpstream(wait) as upstream, open_dialler(URL(upstream.url)) as d:
        connections = [await d.dial() for _ in range(3)]
        answer = connections[0].begin(head_only=False)
        await d.close()
        assert all(connection.transport.is_closing() for connection in connections)
        with pytest.raises(UpstreamClosedError):
            await answer


async def test_an_idle_connection_ends_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each at its time: two that were used one after the other, and then wait both."""
    monkeypatch.setattr(idle_connections, "KEEP_IDLE_SECONDS", 0.5)  # a busy machine takes some
    ended: list[int] = []
    both = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.answer()
        await connection.wait_closed_by_peer()
        ended.append(connection.number)
        if len(ended) == 2:
            both.set()

    async with ScriptedUpstream(script) as upstream, open_client() as client:
        first = await client.send(get(upstream.url))
        second = await client.send(get(upstream.url))
        await read_all(first)
        await read_all(second)
        [used] = client._diallers.values()
        assert len(used.idle._waiting) == 2
        await both.wait()
        assert ended == [1, 2]
        assert not used.idle._waiting


async def test_the_one_that_was_used_last_is_used_next() -> None:
    """And where it was ended meanwhile, the one before it."""
    asked: list[asyncio.StreamWriter] = []

    async def script(connection: Connection) -> None:
        asked.append(connection.writer)
        await connection.answer()

    async with ScriptedUpstream(script) as upstream, open_client() as client:
        responses = [await client.send(get(upstream.url)) for _ in range(2)]
        for response in responses:
            assert await read_all(response) == ANSWER
        assert await read_all(await client.send(get(upstream.url))) == ANSWER
        assert asked[2] is asked[1] is not asked[0]
        [used] = client._diallers.values()
        next(reversed(used.idle._waiting)).transport.abort()
        await asyncio.sleep(0.01)
        assert await read_all(await client.send(get(upstream.url))) == ANSWER
        assert asked[3] is asked[0]
        assert upstream.connections == 2


async def test_closing_ends_those_that_wait() -> None:
    """And no timer is left."""
    closed = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.answer()
        await connection.wait_closed_by_peer()
        closed.set()

    async with ScriptedUpstream(script) as upstream:
        async with open_client() as client:
            assert await read_all(await client.send(get(upstream.url))) == ANSWER
            [used] = client._diallers.values()
            [timer] = used.idle._waiting.values()
        await closed.wait()
        assert not used.idle._waiting
        assert timer.cancelled()
