"""Connections of the TLS port, counted from their first moment to their last."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import ssl
from asyncio.sslproto import SSLProtocol
from typing import TYPE_CHECKING

import pytest
import trustme

from proxy.downstream import tls_port
from proxy.downstream.port_state import PortState
from proxy.downstream.server import DownstreamServer
from proxy.downstream.tls_port import READ_BYTES, TlsPort, _TlsConnection
from proxy.limits import DownstreamLimits
from tests.proxy.raw_client import parse_answer, read_answer, read_to_end, until
from tests.proxy.serving import GET, answer_empty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.proxy.raw_client import Address

CA = trustme.CA()
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def listening(
    max_connections: int = 2,
) -> AsyncIterator[tuple[Address, TlsPort, DownstreamServer]]:
    """A port with room for so many connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CA.issue_cert("127.0.0.1").configure_cert(context)
    limits = DownstreamLimits(max_connections=max_connections)
    server = DownstreamServer(answer_empty, PortState(max_header_bytes=8192, limits=limits))
    port = TlsPort(server, context)
    listener = await asyncio.get_running_loop().create_server(port, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[:2], port, server
        await until_open(port, 0)
    finally:
        listener.close()
        await server.shutdown(0.1)


@pytest.fixture(autouse=True)
def _one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit one more handshake is begun, and one client told that it was too many."""
    monkeypatch.setattr(tls_port, "MAX_TURNED_AWAY", 1)


@pytest.fixture(autouse=True)
def _no_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No test leaves a traceback or an error in the log, asyncio's own included."""
    caplog.set_level(logging.DEBUG)
    yield
    bad = [r for r in caplog.get_records("call") if r.exc_info or r.levelno >= logging.ERROR]
    assert not bad, caplog.text


async def connect(address: Address) -> Streams:
    context = ssl.create_default_context()
    CA.configure_trust(context)
    return await asyncio.open_connection(*address, ssl=context)


async def until_open(port: TlsPort, count: int) -> None:
    await until(lambda: len(port) == count)


async def test_handshakes_count_and_none_begins_beyond_the_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Closed at once, counted, in one log line; those before are undisturbed, and make room."""
    async with listening(max_connections=2) as (address, port, server):
        silent: list[Streams] = []
        for count in (1, 2, 3):
            silent.append(await asyncio.open_connection(*address))
            await until_open(port, count)
        for _ in range(20):
            reader, writer = await asyncio.open_connection(*address)
            assert await read_to_end(reader) == b""
            writer.close()
        assert server.state.turned_away_count == 20
        assert len(port) == 3
        assert not any(reader.at_eof() for reader, _ in silent)
        silent.pop()[1].close()
        await until_open(port, 2)
        reader, writer = await connect(address)
        writer.write(GET)
        assert (await read_answer(reader)).startswith(b"HTTP/1.1 200 ")
        for _, each in [*silent, (reader, writer)]:
            each.close()
    lines = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert lines == ["turned a client away: 2 connections are open (max_connections)"]


async def test_a_client_too_many_can_read_that_after_its_handshake() -> None:
    """503 over TLS; its connection counts as well, for as long as it is there."""
    async with listening(max_connections=1) as (address, port, server):
        served = await connect(address)
        reader, writer = await connect(address)
        writer.write(GET)
        refused = parse_answer(await read_answer(reader), reset=False)
        assert (refused.status, refused.error["code"]) == (503, "too_many_connections")
        assert len(port) == 2
        beyond, beyond_writer = await asyncio.open_connection(*address)
        assert await read_to_end(beyond) == b""
        assert server.state.turned_away_count == 2
        for each in (writer, beyond_writer, served[1]):
            each.close()


@pytest.mark.parametrize("how", ["late", "garbage", "left", "reset", "unknown authority"])
async def test_a_handshake_that_fails_is_not_counted_any_more(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it does; the next client is served."""
    if how == "late":
        monkeypatch.setattr(tls_port, "HANDSHAKE_SECONDS", 0.2)
    async with listening(1) as (address, port, _):
        for _ in range(4):
            if how == "unknown authority":
                with pytest.raises(ssl.SSLError):
                    await asyncio.open_connection(*address, ssl=ssl.create_default_context())
            else:
                reader, writer = await asyncio.open_connection(*address)
                await until_open(port, 1)
                if how == "garbage":
                    writer.write(b"GET / HTTP/1.1\r\n\r\n" * 10)
                elif how == "left":
                    writer.close()
                elif how == "reset":
                    writer.transport.abort()
                if how in {"late", "garbage"}:
                    assert b"HTTP/" not in await read_to_end(reader)
                    writer.close()
            await until_open(port, 0)
        reader, writer = await connect(address)
        writer.write(GET)
        assert (await read_answer(reader)).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_what_is_read_ahead_is_as_much_as_for_a_plain_connection() -> None:
    """The buffer of asyncio's own is larger; the size of ours is what its code goes by."""
    async with listening() as (_, port, _):
        connection = port()
        assert isinstance(connection, _TlsConnection)
        assert len(connection.get_buffer(-1)) == READ_BYTES
        connection.connection_lost(None)
    assert SSLProtocol.max_size > READ_BYTES


def test_what_is_used_of_asyncio_and_not_documented_is_this() -> None:
    """Its arguments by these names, the size of its buffer, and no name that ours would hide."""
    parameters = list(inspect.signature(SSLProtocol).parameters)
    assert parameters[:3] == ["loop", "app_protocol", "sslcontext"]
    assert {"waiter", "server_side", "ssl_handshake_timeout"} <= set(parameters)
    ours = {"_port"}
    assert not ours & {name for c in SSLProtocol.__mro__ for name in vars(c)}
    assert not ours & set(SSLProtocol.__init__.__code__.co_names)
    own = {name for name in vars(_TlsConnection) if not name.startswith("__")}
    assert own <= {"max_size", "connection_made", "connection_lost"}
