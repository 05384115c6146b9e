"""Tunnels: what is carried, by which way, how it ends, and what is known of it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from proxy.interception import leaf_contexts, state, tunnel
from proxy.interception.interception import Refusal, TunnelReason
from proxy.upstream import dialler
from proxy.upstream.client import MAX_TUNNEL_LOOKUPS
from tests.proxy.interception.intercepting import (
    HOST,
    OTHER_HOST,
    SECRET,
    all_names_lead_to,
    connect_bytes,
    intercepting,
    upstream_tls,
)
from tests.proxy.interception.test_opened import call_bytes, exchange
from tests.proxy.raw_client import ask, read_to_end, read_with_end, reset, send_raw, until
from tests.proxy.upstream.peers import closed_port, serving, tiny_proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.proxy.interception.intercepting import Intercepted, Streams


@contextlib.asynccontextmanager
async def tunnelling(serve: Any, **options: Any) -> AsyncIterator[tuple[Intercepted, Streams]]:
    """A client in a tunnel to a plain server."""
    async with intercepting(**options) as it, serving(serve) as port:
        with all_names_lead_to(("127.0.0.1", port)):
            yield it, await it.connect(f"{OTHER_HOST}:443")


async def test_a_host_that_is_not_listed_is_tunnelled() -> None:
    """The client sees the host's own certificate; host, count and bytes are all that is known."""
    async with intercepting() as it:
        for _ in range(2):
            streams = await it.secure(f"{OTHER_HOST}:443")
            answer = await exchange(streams, call_bytes(host=OTHER_HOST))
            assert answer.status == 200
            streams[1].close()
        assert it.running.sink.frames == []
        [row] = it.port.report().tunnelled
        assert (row.host, row.reason) == (OTHER_HOST, TunnelReason.NOT_LISTED)
        assert row.tunnel_count == 2
        assert row.total_bytes > 4000
        assert it.port.report().opened == {}


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (f"{HOST}:8443", TunnelReason.OTHER_PORT),
        (f"x.{HOST}:443", TunnelReason.NOT_LISTED),
        (f"x{HOST}:443", TunnelReason.NOT_LISTED),
        ("model.test:443", TunnelReason.NOT_LISTED),
        ("xn--pi-eia.model.test:443", TunnelReason.NOT_LISTED),
        ("127.0.0.2:{port}", TunnelReason.NOT_LISTED),
    ],
)
async def test_what_only_resembles_a_listed_host_is_tunnelled(
    target: str, reason: TunnelReason
) -> None:
    """Another port, a name below or above it, punycode, an address."""
    async with intercepting() as it:
        target = target.format(port=it.upstream.address[1])
        with all_names_lead_to(it.upstream.address):
            if target.startswith("127."):
                refused = await ask(it.address, connect_bytes(target))
                assert refused.status == 502  # nobody listens at that address
                assert it.port.report().opened == {}
                return
            _, writer = await it.connect(target)
        writer.close()
        [row] = it.port.report().tunnelled
        assert row.reason is reason
        assert row.host == target.removesuffix(":443")


@pytest.mark.parametrize("target", ["*.model.test:443", "api.model.tést:443", "a b:443", "@h:443"])
async def test_what_is_no_host_is_refused(target: str) -> None:
    async with intercepting() as it:
        answer = await ask(it.address, connect_bytes(target))
        assert answer.status == 400
        assert it.port.report().refused == {Refusal.BAD_CONNECT: 1}
        assert it.upstream.connections == 0


async def test_a_client_of_http_2_alone_is_tunnelled() -> None:
    """Its first message says so, and it gets the host's own handshake."""
    async with intercepting(alpn=("h2", "http/1.1")) as it:
        _, writer = await it.secure(tls=it.trust("h2"))
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        issuer = dict(x[0] for x in writer.get_extra_info("peercert")["issuer"])
        assert issuer["organizationName"] == "spantap"
        writer.close()
        [row] = it.port.report().tunnelled
        assert (row.host, row.reason) == (HOST, TunnelReason.HTTP2_ONLY)
        _, writer = await it.secure(tls=it.trust("h2", "http/1.1"))
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.close()
        await until(lambda: it.port.report().opened == {HOST: 1})


async def test_a_host_with_a_client_certificate_is_tunnelled() -> None:
    """From the start, if the caller says so."""
    async with intercepting(tunnelled={HOST: TunnelReason.CLIENT_CERTIFICATE}) as it:
        assert (await exchange(await it.secure(), call_bytes())).status == 200
        [row] = it.port.report().tunnelled
        assert row.reason is TunnelReason.CLIENT_CERTIFICATE
        assert it.running.sink.frames == []


async def test_when_the_authority_ends_all_hosts_are_tunnelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clients would refuse its certificates; an opened connection ends with its next answer."""
    async with intercepting() as it:
        streams = await it.secure()
        answer = await exchange(streams, call_bytes(close=False))
        assert answer.field(b"connection") != b"close"
        monkeypatch.setattr(leaf_contexts, "LAST_SECONDS", 31 * 86_400)
        answer = await exchange(streams, call_bytes(close=False))
        assert answer.field(b"connection") == b"close"
        assert (await exchange(await it.secure(), call_bytes())).status == 200
        [row] = it.port.report().tunnelled
        assert (row.host, row.reason) == (HOST, TunnelReason.ENDED)
        assert len(it.port.report().opened) == 1


async def test_a_listed_host_without_tls_is_tunnelled() -> None:
    """Port 443 can carry anything; what is not TLS cannot be opened."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(5))
        await reader.read()

    async with intercepting() as it, serving(echo) as port:
        with all_names_lead_to(("127.0.0.1", port)):
            reader, writer = await it.connect()
            writer.write(b"GET /")
            assert await reader.readexactly(5) == b"GET /"
            writer.close()
        [row] = it.port.report().tunnelled
        assert row.reason is TunnelReason.NO_TLS


async def test_a_tunnel_carries_one_direction_after_the_other_has_ended() -> None:
    """As a client that sends all and then reads all."""

    async def answer_at_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read()
        writer.write(b"got %d" % len(data))
        await writer.drain()
        writer.write_eof()
        await reader.read()

    async with tunnelling(answer_at_end) as (it, (reader, writer)):
        writer.write(b"x" * 100_000)
        writer.write_eof()
        assert await read_with_end(reader) == (b"got 100000", False)
        writer.close()
        await until(lambda: it.running.server.connection_count == 0)
        [row] = it.port.report().tunnelled
        assert row.total_bytes == 100_000 + len(b"got 100000")


async def test_the_end_of_the_host_is_passed_on_while_the_client_sends() -> None:
    received = bytearray()

    async def end_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"bye")
        writer.write_eof()
        received.extend(await reader.read())

    async with tunnelling(end_first) as (it, (reader, writer)):
        assert await read_to_end(reader) == b"bye"
        writer.write(b"still here")
        await writer.drain()
        writer.write_eof()
        await until(lambda: received == b"still here")
        writer.close()
        await until(lambda: it.running.server.connection_count == 0)


@pytest.mark.parametrize("side", ["client", "host"])
async def test_a_reset_stays_a_reset(side: str) -> None:
    ended = asyncio.get_running_loop().create_future()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        if side == "host":
            reset(writer)
            return
        ended.set_result((await read_with_end(reader))[1])

    async with tunnelling(take) as (it, (reader, writer)):
        writer.write(b"x")
        await writer.drain()
        if side == "host":
            assert (await read_with_end(reader))[1]
        else:
            await asyncio.sleep(0.05)
            reset(writer)
            assert await asyncio.wait_for(ended, 5)
        writer.close()
        await until(lambda: it.running.server.connection_count == 0)


@pytest.mark.parametrize("slow", ["client", "host"])
async def test_a_slow_side_holds_the_other_back(slow: str) -> None:
    """A tunnel buffers no more than a few reads, however much is sent."""
    size = 64 << 20
    written = 0
    may_continue = asyncio.Event()

    async def pour(writer: asyncio.StreamWriter) -> None:
        nonlocal written
        piece = bytes(1 << 16)
        while written < size:
            writer.write(piece)
            written += len(piece)
            await writer.drain()
        writer.write_eof()

    async def drink(reader: asyncio.StreamReader) -> int:
        await may_continue.wait()
        count = 0
        while data := await reader.read(1 << 20):
            count += len(data)
        return count

    got = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if slow == "client":
            await pour(writer)
            await reader.read()
        else:
            got.set_result(await drink(reader))

    async with tunnelling(serve) as (_, (reader, writer)):
        pouring = asyncio.ensure_future(asyncio.sleep(0) if slow == "client" else pour(writer))
        before = -1
        while before != written or not written:
            before = written
            await asyncio.sleep(0.3)
        assert written < 24 << 20  # most of that is the kernel's
        may_continue.set()
        if slow == "client":
            assert await drink(reader) == size
        else:
            assert await asyncio.wait_for(got, 20) == size
        await pouring
        writer.close()


async def test_a_tunnel_goes_by_the_forward_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So does a call: an opened connection leaves as calls of the traffic port do."""
    async with tiny_proxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        async with intercepting() as it:
            with all_names_lead_to(it.upstream.address):
                target = f"{OTHER_HOST}:443"
                assert (
                    await exchange(await it.secure(target), call_bytes(host=OTHER_HOST))
                ).status == 200
                assert (await exchange(await it.secure(), call_bytes())).status == 200
                await it.running.sink.wait_for()
    firsts = [head.split(b"\r\n")[0] for head in proxy.heads]
    assert firsts == [b"CONNECT %b:443 HTTP/1.1" % host.encode() for host in (OTHER_HOST, HOST)]
    assert SECRET.encode() not in b"".join(proxy.heads)


async def test_a_tunnel_goes_through_a_forward_proxy_that_speaks_tls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TLS to the proxy, and in it the client's own."""
    async with tiny_proxy(tls=upstream_tls()) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"https://{HOST}:{proxy.address[1]}")
        async with intercepting() as it:
            find = socket.getaddrinfo

            def find_here(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
                if host == OTHER_HOST:
                    port = it.upstream.address[1]
                return find("127.0.0.1", port, type=socket.SOCK_STREAM)

            monkeypatch.setattr(socket, "getaddrinfo", find_here)
            streams = await it.secure(f"{OTHER_HOST}:443")
            answer = await exchange(streams, call_bytes(host=OTHER_HOST))
            assert answer.status == 200
            streams[1].close()
            await until(lambda: it.running.server.connection_count == 0)
    assert [head.split(b"\r\n")[0] for head in proxy.heads] == [
        b"CONNECT %b:443 HTTP/1.1" % OTHER_HOST.encode()
    ]


async def test_no_proxy_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    async with tiny_proxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "other.test")
        async with intercepting() as it:
            _, writer = await it.secure(f"{OTHER_HOST}:443")
            writer.close()
        assert proxy.heads == []


async def test_a_host_that_cannot_be_reached_is_a_502(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the 200, so that a client can read why."""
    async with intercepting() as it:
        with closed_port() as port:
            answer = await ask(it.address, connect_bytes(f"127.0.0.1:{port}"))
        assert (answer.status, answer.error["code"]) == (502, "upstream_unreachable")
        assert str(port) in answer.error["message"]
        assert it.port.report().refused == {Refusal.UNREACHABLE: 1}
    async with tiny_proxy(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        async with intercepting() as it:
            answer = await ask(it.address, connect_bytes(f"{OTHER_HOST}:443"))
            assert (answer.status, answer.error["code"]) == (502, "forward_proxy_error")


async def test_no_tunnel_reaches_a_port_of_spantap() -> None:
    """The traffic port, the interception port and those that the caller names, by any name."""
    async with intercepting(own_ports=(("127.0.0.1", 4001),)) as it:
        ours = [it.address[1], it.running.address[1], 4001]
        for host in ("127.0.0.1", "localhost", "0.0.0.0", "LOCALHOST."):
            for port in ours:
                answer = await ask(it.address, connect_bytes(f"{host}:{port}"))
                assert (answer.status, answer.error["code"]) == (403, "own_port"), (host, port)
        # Other spellings are refused once their address is known.
        answer = await ask(it.address, connect_bytes(f"127.1:{it.address[1]}"))
        assert answer.status == 403
        with all_names_lead_to(it.running.address):
            answer = await ask(it.address, connect_bytes(f"rebound.test:{it.running.address[1]}"))
            assert (answer.status, answer.error["code"]) == (403, "own_port")
        assert it.port.report().refused == {Refusal.OWN_PORT: len(ours) * 4 + 2}


async def test_no_tunnel_reaches_the_port_of_another_run() -> None:
    """Opened before or later; a port that is closed is nobody's."""
    async with intercepting() as it:
        other = await it.running.proxy.intercept(
            msgspec.structs.replace(it.interception, secret="another")
        )
        for host in ("127.0.0.1", "127.1"):
            there = connect_bytes(f"{host}:{other.address[1]}")
            back = connect_bytes(f"{host}:{it.address[1]}", "another")
            assert (await ask(it.address, there)).status == 403
            assert (await ask(other.address, back)).status == 403
        await it.running.proxy.end_intercept(other)
        closed = connect_bytes(f"127.0.0.1:{other.address[1]}")
        assert (await ask(it.address, closed)).status == 502


async def test_tunnels_leave_half_of_the_connections_to_calls() -> None:
    """However few there may be."""

    async def wait(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with tunnelling(wait, max_connections=4) as (it, _), serving(wait) as port:
        target = f"127.0.0.1:{port}"
        await it.connect(target)
        answer = await ask(it.address, connect_bytes(target))
        assert (answer.status, answer.error["code"]) == (503, "too_many_tunnels")
        assert answer.error["message"].startswith("2 tunnels are open")
        with all_names_lead_to(it.upstream.address):
            assert (await exchange(await it.secure(), call_bytes())).status == 200
        await it.running.sink.wait_for()


async def test_a_fault_of_ours_ends_the_connection_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that is not read would wait for ever, and be counted for ever."""

    async def fail(*_: object) -> asyncio.Transport:
        raise RuntimeError("some fault")

    async with intercepting() as it:
        monkeypatch.setattr(it.port._state, "dial", fail)
        assert await send_raw(it.address, connect_bytes(f"{OTHER_HOST}:443")) == b""
        await until(lambda: it.running.server.connection_count == 0)
    [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.name == "spantap.interception"
    assert record.exc_info is not None
    caplog.clear()


async def test_idle_tunnels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In number, beside calls, and in time."""
    monkeypatch.setattr(state, "MAX_TUNNELS", 3)
    monkeypatch.setattr(tunnel, "IDLE_SECONDS", 0.5)

    async def wait(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with tunnelling(wait) as (it, first), serving(wait) as port:
        target = f"127.0.0.1:{port}"
        more = [await it.connect(target) for _ in range(2)]
        answer = await ask(it.address, connect_bytes(target))
        assert (answer.status, answer.error["code"]) == (503, "too_many_tunnels")
        assert it.port.report().refused == {Refusal.TOO_MANY: 1}
        for reader, writer in (first, *more):
            assert await read_to_end(reader) == b""
            writer.close()
        await until(lambda: it.running.server.connection_count == 0)
        _, writer = await it.connect(target)
        writer.close()


async def test_a_tunnel_that_carries_something_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel, "IDLE_SECONDS", 0.4)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(10):
            writer.write(data)

    async with tunnelling(echo) as (_, (reader, writer)):
        for _ in range(8):
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            await asyncio.sleep(0.1)
        writer.close()


@contextlib.contextmanager
def slow_names(*, exist: bool) -> Iterator[tuple[list[str], threading.Event]]:
    """Names that begin with "slow" are found, or are not, only after an event."""
    find = socket.getaddrinfo
    asked: list[str] = []
    go = threading.Event()

    def find_late(host: str, *where: Any, **kind: Any) -> list[Any]:
        if host.startswith("slow") and not kind.get("flags", 0) & socket.AI_NUMERICHOST:
            asked.append(host)
            go.wait(30)
            if not exist:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return find(host, *where, **kind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", find_late)
        try:
            yield asked, go
        finally:
            go.set()


async def test_a_client_that_leaves_while_its_host_is_dialled_leaves_nothing() -> None:
    async with intercepting() as it:
        with slow_names(exist=True) as (asked, go):
            _, writer = await asyncio.open_connection(*it.address)
            writer.write(connect_bytes("slow.test:443"))
            await until(lambda: asked)
            reset(writer)
            go.set()
            await until(lambda: it.running.server.connection_count == 0)
            await until(lambda: it.port._state.tunnel_count == 0)


@pytest.mark.parametrize("is_opened", [True, False])
async def test_a_lookup_that_fails_too_late_leaves_no_line_in_the_log(
    is_opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a task is gone, asyncio logs an error that nobody has looked at."""
    monkeypatch.setattr(dialler, "KEEP_NAME_SECONDS", 0)  # the second call looks up again

    async def call(it: Intercepted) -> tuple[int, str]:
        if is_opened:
            answer = await exchange(await it.secure("slow.test:443"), call_bytes(host="slow.test"))
        else:
            answer = await ask(it.address, connect_bytes("slow.test:80"))
        return answer.status, answer.error["code"]

    async with intercepting(hosts=("slow.test",), connect_timeout_seconds=0.1) as it:
        with slow_names(exist=False) as (_, go):
            assert await call(it) == (504, "upstream_connect_timeout")
            go.set()
            await asyncio.sleep(0.1)
            assert await call(it) == (502, "upstream_unreachable")
        gc.collect()


async def test_names_that_nobody_knows_do_not_delay_calls() -> None:
    """A lookup holds a thread, perhaps for half a minute; a program may ask for many names."""
    async with intercepting() as it:
        with slow_names(exist=False) as (asked, _):
            for number in range(40):
                _, writer = await asyncio.open_connection(*it.address)
                it.writers.append(writer)
                writer.write(connect_bytes(f"slow{number}.test:443"))
            await until(lambda: len(asked) == MAX_TUNNEL_LOOKUPS)
            async with asyncio.timeout(5):
                assert (await exchange(await it.secure(), call_bytes())).status == 200
            await it.running.sink.wait_for()


async def test_a_name_that_tls_says_and_connect_does_not_is_refused() -> None:
    """Another name would be another host behind the same permission."""
    async with intercepting(hosts=(HOST, OTHER_HOST)) as it:
        with pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"):
            await it.secure(f"{HOST}:443", name=OTHER_HOST)
        assert it.port.report().refused == {Refusal.SERVER_NAME: 1}
        assert it.upstream.connections == 0


async def test_tls_that_begins_with_something_else_is_refused() -> None:
    async with intercepting() as it:
        reader, writer = await it.connect()
        writer.write(b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00")
        assert await read_to_end(reader) == b"\x15\x03\x03\x00\x02\x02\x32"
        writer.close()
        assert it.port.report().refused == {Refusal.BAD_HELLO: 1}


async def test_names_past_the_limit_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command may reach any number of hosts."""
    monkeypatch.setattr("proxy.interception.tally.MAX_TUNNELLED_HOSTS", 2)
    async with intercepting() as it:
        with all_names_lead_to(it.upstream.address):
            for number in range(5):
                _, writer = await it.connect(f"h{number}.test:443")
                writer.close()
        counts = {row.host: row.tunnel_count for row in it.port.report().tunnelled}
        assert counts == {"h0.test": 1, "h1.test": 1, "other hosts": 3}
