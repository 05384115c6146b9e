"""WebSockets through the relay: handshakes, bytes both ways, ends of every kind."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

from proxy.relay.frame_ends import MAX_FRAMES, FrameEnds, Passed, encode_close
from proxy.relay.web_socket import WebSocket
from proxy.settings.tables import UpstreamConfig
from proxy.sockets import reset
from proxy.upstream_entry import WebSocketPolicy
from tests.proxy.harness import Connection, relaying, running_proxy
from tests.proxy.upstream.peers import server_tls, tiny_proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from websockets.asyncio.server import ServerConnection

    from proxy.splice import SplicedEnd
    from tests.proxy.harness import RunningProxy, ScriptedUpstream
    from tests.proxy.raw_client import Address

SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nX-Other: 1\r\n\r\n"
)
HELLO = b"\x81\x05Hello"
MASKED_HELLO = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"


@pytest.fixture(name="authority", scope="module")
def _authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(name="ca_file")
def _ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


def handshake(*fields: bytes, target: bytes = b"/v1/realtime?model=m") -> bytes:
    """A client's handshake on the wire."""
    lines = (
        b"GET %b HTTP/1.1" % target,
        b"Host: client.example",
        b"Upgrade: websocket",
        b"Connection: keep-alive, Upgrade",
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        b"Sec-WebSocket-Version: 13",
        b"Sec-WebSocket-Extensions: permessage-deflate",
        *fields,
    )
    return b"\r\n".join((*lines, b"", b""))


async def echo(server: ServerConnection) -> None:
    """Send each message back."""
    with contextlib.suppress(ConnectionClosed):
        async for message in server:
            await server.send(message)


@contextlib.asynccontextmanager
async def echoing(**settings: Any) -> AsyncIterator[tuple[Any, str, RunningProxy]]:
    """A server of others that echoes, and a proxy in front of it."""
    settings.setdefault("websockets", "relay")
    async with (
        serve(echo, "127.0.0.1", 0, max_size=None) as server,
        running_proxy("http://127.0.0.1:{1}".format(*_address(server)), **settings) as running,
    ):
        yield server, "ws://{}:{}/v1/live".format(*running.address), running


def _address(server: Any) -> Address:
    address: Address = server.sockets[0].getsockname()
    return address


@contextlib.asynccontextmanager
async def joined(
    **settings: Any,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, Connection, RunningProxy]]:
    """A raw client whose upstream has switched, with both ends in our hands."""
    switched = asyncio.Event()
    over = asyncio.Event()

    async def switch(connection: Connection) -> None:
        await connection.send(SWITCH)
        switched.set()
        await over.wait()
        connection.writer.transport.abort()

    settings.setdefault("websockets", "relay")
    async with relaying(switch, **settings) as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(handshake())
        assert await reader.readuntil(b"\r\n\r\n") == SWITCH
        await switched.wait()
        try:
            yield reader, writer, upstream.last, running
        finally:
            over.set()
            writer.transport.abort()


def reset_client(writer: asyncio.StreamWriter) -> None:
    """End a client's connection by a reset."""
    assert isinstance(writer.transport, asyncio.Transport)
    reset(writer.transport)


async def wait_until_none(running: RunningProxy) -> None:
    """Until the proxy has no connection and no exchange any more."""
    async with asyncio.timeout(5):
        while running.server.connections or len(running.proxy.open_exchanges):
            await asyncio.sleep(0.005)


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """What comes until the end."""
    async with asyncio.timeout(10):
        return await reader.read()


@pytest.mark.parametrize("compression", [None, "deflate"])
async def test_messages_pass_both_ways(compression: str | None) -> None:
    """Texts, bytes, fragments, pings, and a close with its status and reason."""
    async with echoing() as (_, url, running):
        async with connect(url, compression=compression, max_size=None) as client:
            for message in ("Hello", b"\0\1", "", "x" * 300_000, b"y" * 70_000):
                await client.send(message)
                assert await client.recv() == message
            await client.send(["frag", "men", "ts"])
            assert await client.recv() == "fragments"
            await (await client.ping(b"there?"))
            await client.close(4001, "done")
            assert (client.close_code, client.close_reason) == (4001, "done")
        assert running.sink.frames == []
        await wait_until_none(running)


def read_counts(running: RunningProxy) -> dict[str, dict[str, float]]:
    """The metrics of WebSockets, by name and direction."""
    return {
        name.removeprefix("spantap.websockets."): {
            str(one.labels[0]) if one.labels else "": one.value for one in series
        }
        for name, series in running.proxy.metrics.snapshot().numbers.items()
        if name.startswith("spantap.websockets.")
    }


async def test_what_passes_is_counted() -> None:
    """Messages whole or in fragments, and all bytes; pings and closes are no messages."""
    async with echoing() as (_, url, running):
        assert read_counts(running)["open"] == {"": 0}
        async with connect(url, compression=None) as client, connect(url):
            for _ in range(2):
                await client.send("Hello")
                assert await client.recv() == "Hello"
            await client.send(["frag", "men", "ts"])
            assert await client.recv() == "fragments"
            await (await client.ping(b"there?"))
            counts = read_counts(running)
        heads = 2 + 4  # of a short frame from a client, with its mask
        assert counts == {
            "open": {"": 2},
            "messages": {"to_upstream": 3, "to_client": 3},
            # "websockets" ends fragments with an empty frame.
            "relayed": {
                "to_upstream": 2 * (heads + 5) + 4 * heads + 9 + heads + 6,
                "to_client": 2 * (2 + 5) + 2 + 9 + 2 + 6,
            },
        }
        await wait_until_none(running)
        assert read_counts(running)["open"] == {"": 0}


async def test_many_connections_at_once_do_not_mix() -> None:
    """Each gets its own messages."""
    async with echoing() as (_, url, running):

        async def ask(number: int) -> None:
            async with connect(url) as client:
                for count in range(20):
                    await client.send(f"{number}:{count}")
                    assert await client.recv() == f"{number}:{count}"

        await asyncio.gather(*map(ask, range(50)))
        await wait_until_none(running)


async def test_the_handshake_arrives_as_it_was_sent() -> None:
    """Its fields, their letters and their order; and the answer's fields likewise."""
    async with joined() as (_, _, upstream, _):
        assert upstream.request_line == b"GET /v1/realtime?model=m HTTP/1.1"
        sent = handshake().split(b"\r\n")[1:-2]
        host = b"Host: 127.0.0.1:"
        assert upstream.head.split(b"\r\n")[2:-2] == sent[1:]
        assert upstream.head.split(b"\r\n")[1].startswith(host)


async def test_what_comes_with_the_handshake_is_not_lost() -> None:
    """A frame in the segment of the 101, and one right behind the client's head."""

    async def switch(connection: Connection) -> None:
        await connection.send(SWITCH + HELLO)
        assert await connection.reader.readexactly(len(MASKED_HELLO)) == MASKED_HELLO
        await connection.send(HELLO)
        connection.writer.close()

    async with relaying(switch, websockets="relay") as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(handshake() + MASKED_HELLO)
        assert await read_all(reader) == SWITCH + HELLO + HELLO
        writer.close()


async def test_an_upstream_that_refuses_answers_through_us() -> None:
    """What follows such a handshake is never taken for a request: the connection ends."""
    answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nX-Why: 1\r\n\r\nno"

    async def refuse(connection: Connection) -> None:
        await connection.send(answer)

    async with relaying(refuse, websockets="relay") as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(handshake() + b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
        told = await read_all(reader)
        assert told.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert told.endswith(b"\r\n\r\nno")
        assert b"\r\nConnection: close\r\n" in told
        assert [one.request_line for one in upstream.requests] == [
            b"GET /v1/realtime?model=m HTTP/1.1"
        ]
        writer.close()


async def test_an_answer_that_switches_unasked_is_no_answer() -> None:
    """A 101 to a plain request is a fault of the upstream."""

    async def switch(connection: Connection) -> None:
        await connection.send(SWITCH + HELLO)

    async with relaying(switch, websockets="relay") as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(b"GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert (await read_all(reader)).startswith(b"HTTP/1.1 502 ")
        writer.close()


@pytest.mark.parametrize(
    "head",
    [
        handshake(b"Content-Length: 5") + b"GET /",
        handshake(b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
        handshake().replace(b"GET ", b"POST "),
        handshake().replace(b"Upgrade: websocket", b"Upgrade: websocket, h2c"),
        handshake().replace(b"keep-alive, Upgrade", b"keep-alive"),
        handshake().replace(b" HTTP/1.1", b" HTTP/1.0"),
    ],
)
async def test_what_is_no_clear_handshake_is_refused(head: bytes) -> None:
    """It could be read in two ways."""
    async with relaying(websockets="relay") as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(head)
        assert (await read_all(reader)).startswith(b"HTTP/1.1 426 ")
        assert upstream.requests == []
        writer.close()


async def test_sockets_are_refused_unless_they_are_wanted() -> None:
    """By default, and at an upstream that says so."""
    async with echoing(websockets="refuse") as (_, url, _):
        with pytest.raises(InvalidStatus) as caught:
            await connect(url)
        assert caught.value.response.status_code == 426
    async with serve(echo, "127.0.0.1", 0) as server:
        base = "http://127.0.0.1:{1}".format(*_address(server))
        tables = (
            UpstreamConfig(name="a", url=base, prefix="/a", websockets=WebSocketPolicy.RELAY),
            UpstreamConfig(name="b", url=base, prefix="/b", websockets=WebSocketPolicy.REFUSE),
        )
        async with running_proxy(None, upstreams=tables) as running:
            url = "ws://{}:{}".format(*running.address)
            async with connect(f"{url}/a/v1/realtime") as client:
                await client.send("Hello")
                assert await client.recv() == "Hello"
            with pytest.raises(InvalidStatus):
                await connect(f"{url}/b/v1/realtime")


async def test_an_inbound_key_lets_in_and_goes_no_further() -> None:
    """In a header, or as a subprotocol, as browsers send it; the others stay."""
    async with joined_with_key() as (upstream, running):
        told: tuple[tuple[tuple[bytes, ...], bytes | None], ...] = (
            ((b"x-spantap-key: our-inbound-key-1",), None),
            ((b"Authorization: Bearer our-inbound-key-1",), None),
            (
                (b"Sec-WebSocket-Protocol: a, openai-insecure-api-key.our-inbound-key-1, beta",),
                b"a, beta",
            ),
            (
                (
                    b"Sec-WebSocket-Protocol: openai-insecure-api-key.our-inbound-key-1, ",
                    b"X: 1",
                    b"Sec-WebSocket-Protocol: a, beta",
                ),
                b"a, beta",
            ),
            (
                (
                    b"Sec-WebSocket-Protocol: realtime",
                    b"sec-websocket-protocol:a,openai-insecure-api-key.our-inbound-key-1,b",
                ),
                b"realtime",
            ),
            ((b"Sec-WebSocket-Protocol: openai-insecure-api-key.our-inbound-key-1",), None),
        )
        for fields, left in told:
            reader, writer = await asyncio.open_connection(*running.address)
            writer.write(handshake(*fields))
            assert (await reader.readuntil(b"\r\n\r\n")) == SWITCH
            assert b"our-inbound-key-1" not in upstream.last.head
            assert upstream.last.field(b"sec-websocket-protocol") == left
            writer.transport.abort()
        for fields in (
            (b"X: 1",),
            (b"Sec-WebSocket-Protocol: a, openai-insecure-api-key.no",),
        ):
            reader, writer = await asyncio.open_connection(*running.address)
            writer.write(handshake(*fields))
            assert (await read_all(reader)).startswith(b"HTTP/1.1 401 ")
            writer.close()


@contextlib.asynccontextmanager
async def joined_with_key(
    **settings: Any,
) -> AsyncIterator[tuple[ScriptedUpstream, RunningProxy]]:
    """A proxy with an inbound key, whose upstream switches."""

    async def switch(connection: Connection) -> None:
        await connection.send(SWITCH)
        await connection.wait_closed_by_peer()

    async with relaying(
        switch, websockets="relay", inbound_keys=("our-inbound-key-1",), **settings
    ) as both:
        yield both


async def test_a_key_that_we_hold_takes_the_place_of_the_client_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wherever the client has put its own."""
    monkeypatch.setenv("HELD", "held-key-1")

    async def switch(connection: Connection) -> None:
        await connection.send(SWITCH)
        await connection.wait_closed_by_peer()

    async with relaying(switch, websockets="relay") as (upstream, _):
        table = UpstreamConfig(name="a", url=upstream.url, prefix="/", api_key_env="HELD")
        async with running_proxy(None, upstreams=(table,), websockets="relay") as running:
            reader, writer = await asyncio.open_connection(*running.address)
            protocol = b"Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.sk-client"
            writer.write(handshake(protocol, b"Authorization: Bearer sk-client"))
            assert (await reader.readuntil(b"\r\n\r\n")) == SWITCH
            assert upstream.last.field(b"authorization") == b"Bearer held-key-1"
            assert upstream.last.field(b"sec-websocket-protocol") == b"realtime"
            assert b"sk-client" not in upstream.last.head
            writer.transport.abort()


@pytest.mark.parametrize("has_tls", [False, True])
@pytest.mark.parametrize("is_proxy_tls", [False, True])
async def test_a_forward_proxy_is_asked_for_a_tunnel(
    authority: trustme.CA,
    ca_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_tls: bool,
    is_proxy_tls: bool,
) -> None:
    """Without TLS, too: a request in absolute form would lose its ``Upgrade`` there."""
    tls = server_tls(authority) if has_tls else None
    async with (
        tiny_proxy(tls=server_tls(authority) if is_proxy_tls else None) as tiny,
        serve(echo, "127.0.0.1", 0, ssl=tls, max_size=None) as server,
    ):
        proxy = tiny.url.replace("//", "//me:secret@")
        proxy = proxy.replace("http:", "https:") if is_proxy_tls else proxy
        monkeypatch.setenv("HTTPS_PROXY" if has_tls else "HTTP_PROXY", proxy)
        port = _address(server)[1]
        upstream = f"http{'s' * has_tls}://127.0.0.1:{port}"
        async with running_proxy(upstream, websockets="relay", ca_file=ca_file) as running:
            url = "ws://{}:{}/v1/realtime".format(*running.address)
            async with connect(url, proxy=None) as client:
                for message in ("Hello", "x" * 300_000):
                    await client.send(message)
                    assert await client.recv() == message
            await wait_until_none(running)
        [head] = tiny.heads
        assert head.startswith(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % port)
        assert b"\r\nProxy-Authorization: Basic " in head


async def test_a_forward_proxy_that_refuses_the_tunnel_is_a_502(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As for HTTP over TLS."""
    async with tiny_proxy(reply=b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n") as tiny:
        monkeypatch.setenv("HTTP_PROXY", tiny.url)
        async with running_proxy("http://upstream.invalid", websockets="relay") as running:
            with pytest.raises(InvalidStatus) as caught:
                await connect("ws://{}:{}/v1/realtime".format(*running.address), proxy=None)
            assert caught.value.response.status_code == 502


async def test_a_slow_reader_makes_its_upstream_wait() -> None:
    """What waits for it is bounded, in each direction."""
    piece = b"\x82\x7e\xff\xff" + bytes(65535)
    async with joined(send_buffer_bytes=65536) as (_, writer, upstream, running):
        for sender in (upstream.writer, writer):
            sent = 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    while sent < 1000 * len(piece):
                        sender.write(piece)
                        await sender.drain()
                        sent += len(piece)
            assert sent < 1000 * len(piece)
        assert running.server.connections


async def test_an_end_that_reads_nothing_is_cut() -> None:
    """By the limits for stalls; the other end sees that it broke."""
    piece = b"\x82\x7e\xff\xff" + bytes(65535)
    async with joined(client_stall_timeout_seconds=0.4, upstream_stall_timeout_seconds=0.4) as (
        _,
        _,
        upstream,
        running,
    ):

        async def flood() -> None:
            while True:
                upstream.writer.write(piece)
                await upstream.writer.drain()

        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(20):
                await flood()
        await wait_until_none(running)


async def test_a_quiet_connection_is_not_ended() -> None:
    """Limits of HTTP's exchanges do not hold."""
    async with joined(
        idle_timeout_seconds=0.2,
        first_byte_timeout_seconds=0.2,
        header_timeout_seconds=0.2,
        client_idle_timeout_seconds=0.2,
    ) as (reader, writer, upstream, _):
        await asyncio.sleep(1)
        await upstream.send(HELLO)
        assert await reader.readexactly(len(HELLO)) == HELLO
        writer.write(MASKED_HELLO)
        assert await upstream.reader.readexactly(len(MASKED_HELLO)) == MASKED_HELLO


async def test_a_half_closed_end_may_still_read() -> None:
    """Each direction ends by itself."""
    async with joined() as (reader, writer, upstream, running):
        writer.write_eof()
        assert await upstream.reader.read() == b""
        await upstream.send(HELLO)
        assert await reader.readexactly(len(HELLO)) == HELLO
        upstream.writer.write_eof()
        assert await read_all(reader) == b""
        await wait_until_none(running)


async def test_a_reset_stays_a_reset() -> None:
    """In both directions."""
    async with joined() as (reader, _, upstream, _):
        upstream.reset()
        with pytest.raises(ConnectionResetError):
            await read_all(reader)
    async with joined() as (_, writer, upstream, _):
        reset_client(writer)
        with pytest.raises(ConnectionResetError):
            await read_all(upstream.reader)


@pytest.mark.parametrize("is_half", [False, True])
async def test_an_end_over_tls_ends_with_the_other(
    authority: trustme.CA, ca_file: Path, *, is_half: bool
) -> None:
    """TLS cannot end one direction alone, and must not stay open for a client that is gone."""
    switched = asyncio.Event()

    async def switch(connection: Connection) -> None:
        await connection.send(SWITCH)
        switched.set()
        await connection.wait_closed_by_peer(30)

    tls = server_tls(authority)
    async with relaying(switch, websockets="relay", tls=tls, ca_file=ca_file) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(handshake())
        assert await reader.readuntil(b"\r\n\r\n") == SWITCH
        await switched.wait()
        if is_half:
            writer.write_eof()
            assert await read_all(reader) == b""
        writer.close()
        await wait_until_none(running)


async def test_a_client_over_tls_learns_that_its_upstream_is_gone(
    authority: trustme.CA, tmp_path: Path
) -> None:
    """As above, in the other direction."""

    async def switch(connection: Connection) -> None:
        await connection.send(SWITCH + HELLO)
        connection.writer.close()

    cert = tmp_path / "both.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(cert)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with relaying(switch, websockets="relay", tls_cert=cert) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address, ssl=trusting)
        writer.write(handshake())
        assert await read_all(reader) == SWITCH + HELLO
        writer.close()
        await wait_until_none(running)


async def test_an_upstream_loses_a_client_that_leaves_in_the_handshake() -> None:
    """At once, though no answer has come."""
    asked, left = asyncio.Event(), asyncio.Event()

    async def wait(connection: Connection) -> None:
        asked.set()
        await connection.wait_closed_by_peer(20)
        left.set()

    async with relaying(wait, websockets="relay") as (_, running):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(handshake() + MASKED_HELLO)
        await asked.wait()
        writer.close()
        async with asyncio.timeout(10):
            await left.wait()
        await wait_until_none(running)


async def test_what_floods_behind_a_handshake_waits() -> None:
    """Bytes that come before the answer are bounded."""
    asked, over = asyncio.Event(), asyncio.Event()

    async def wait(_: Connection) -> None:
        asked.set()
        await over.wait()

    async with relaying(wait, websockets="relay") as (_, running):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(handshake())
        await asked.wait()
        sent = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                while sent < 1000 * 65536:
                    writer.write(bytes(65536))
                    await writer.drain()
                    sent += 65536
        assert sent < 1000 * 65536
        writer.transport.abort()
        over.set()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nX: 1\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        SWITCH.replace(b": websocket", b": h2c"),
        SWITCH.replace(b": Upgrade", b": close"),
    ],
)
async def test_a_101_to_something_else_is_no_answer(answer: bytes) -> None:
    """What follows it could be read in two ways."""

    async def switch(connection: Connection) -> None:
        await connection.send(answer + HELLO)

    async with relaying(switch, websockets="relay") as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(handshake())
        assert (await read_all(reader)).startswith(b"HTTP/1.1 502 ")
        writer.close()


async def test_a_buffer_that_is_full_at_the_switch_is_bounded() -> None:
    """That it is full is said once, and the protocol before has heard it."""
    rest, most = 60_000, 0
    piece = b"\x82\x7e\xff\xff" + bytes(65535)

    async def fill_and_switch(connection: Connection) -> None:
        if connection.number == 1:
            await connection.begin_stream()
            while waiting() < rest:
                await connection.send_chunks(bytes(2000), end=False)
                await asyncio.sleep(0.001)
            await connection.send_chunks()
            return
        await connection.send(SWITCH[:-2] + b"X: %b\r\n\r\n" % (b"x" * 20_000))
        async with asyncio.timeout(2):
            while True:
                await connection.send(piece)

    async with relaying(fill_and_switch, websockets="relay", send_buffer_bytes=4096) as both:
        _, running = both

        def waiting() -> int:
            nonlocal most
            size = sum(
                connection.stream.transport.get_write_buffer_size()
                for connection in running.server.connections
            )
            most = max(most, size)
            return size

        _, writer = await asyncio.open_connection(*running.address)
        writer.write(b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n" + handshake())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3):
                while True:
                    waiting()
                    await asyncio.sleep(0.01)
        writer.transport.abort()
        assert rest <= most < 10 * 65536


async def test_what_comes_with_the_101_may_fill_the_client_s_buffer() -> None:
    """Then the upstream is not read until the client has read some of it."""
    most = 0

    async def flood(connection: Connection) -> None:
        data = SWITCH + bytes(250_000)
        async with asyncio.timeout(2):
            while True:
                await connection.send(data)
                data = bytes(250_000)

    async with relaying(flood, websockets="relay", send_buffer_bytes=4096) as (_, running):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(handshake())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                while True:
                    for connection in running.server.connections:
                        waiting = connection.stream.transport.get_write_buffer_size()
                        most = max(most, waiting)
                    await asyncio.sleep(0.01)
        assert 0 < most < 16 * 65536
        writer.transport.abort()


async def test_an_end_with_a_little_to_read_is_cut_too() -> None:
    """When the other one is gone: its buffer will never be full."""
    async with joined(send_buffer_bytes=4096, client_stall_timeout_seconds=0.4) as (
        _,
        _,
        upstream,
        running,
    ):
        [connection] = running.server.connections
        waited = 0
        while waited < 20:  # until the kernel takes no more
            await asyncio.sleep(0.01)
            waited += 1
            if connection.stream.transport.get_write_buffer_size() < 30_000:
                upstream.writer.write(bytes(2000))
                waited = 0
        upstream.writer.close()
        await wait_until_none(running)


async def test_a_shutdown_says_goodbye_to_both_ends() -> None:
    """By a close 1001 between two frames, masked for the upstream."""
    async with joined() as (reader, writer, upstream, running):
        draining = asyncio.ensure_future(running.proxy.drain(0.1))
        async with asyncio.timeout(5):
            assert await reader.readexactly(4) == b"\x88\x02\x03\xe9"
            close = await upstream.reader.readexactly(8)
        assert close[:2] == b"\x88\x82"
        assert bytes(a ^ b for a, b in zip(close[6:], close[2:], strict=False)) == b"\x03\xe9"
        writer.close()
        upstream.writer.close()
        await draining
        assert len(running.proxy.open_exchanges) == 0


async def test_a_shutdown_within_a_frame_just_ends_the_connection() -> None:
    """A close would be taken for a part of the frame."""
    async with joined() as (reader, writer, upstream, running):
        await upstream.send(b"\x81\x05Hel")
        assert await reader.readexactly(5) == b"\x81\x05Hel"
        draining = asyncio.ensure_future(running.proxy.drain(0.1))
        assert await read_all(reader) == b""
        assert (await upstream.reader.readexactly(8))[:2] == b"\x88\x82"
        for each in (writer, upstream.writer):
            each.close()
        await draining


async def test_a_shutdown_ends_what_is_half_closed(caplog: pytest.LogCaptureFixture) -> None:
    """The end that has said that it sends nothing more still gets its goodbye; the other none."""
    async with joined() as (reader, writer, upstream, running):
        writer.write_eof()
        assert await upstream.reader.read() == b""
        draining = asyncio.ensure_future(running.proxy.drain(0.1))
        assert await read_all(reader) == b"\x88\x02\x03\xe9"
        upstream.writer.close()
        await draining
        assert len(running.proxy.open_exchanges) == 0
    assert "Traceback" not in caplog.text


async def test_two_shutdowns_in_a_row_say_goodbye_once() -> None:
    """The second one ends what the first one still waits for."""
    async with joined() as (reader, writer, upstream, running):
        draining = [asyncio.ensure_future(running.proxy.drain(0.1)) for _ in range(2)]
        async with asyncio.timeout(5):
            assert await reader.readexactly(4) == b"\x88\x02\x03\xe9"
            assert (await upstream.reader.readexactly(8))[:2] == b"\x88\x82"
        await running.proxy.drain(0)
        for each, ended in ((writer, reader), (upstream.writer, upstream.reader)):
            assert await read_all(ended) == b""
            each.close()
        await asyncio.gather(*draining)
        assert len(running.proxy.open_exchanges) == 0


async def test_a_client_learns_1001_from_a_shutdown() -> None:
    """As a real client sees it."""
    async with echoing(drain_seconds=0.1) as (_, url, running), connect(url) as client:
        await client.send("Hello")
        assert await client.recv() == "Hello"
        draining = asyncio.ensure_future(running.proxy.drain(0.1))
        with pytest.raises(ConnectionClosed):
            await client.recv()
        assert client.close_code == 1001
        await draining


async def test_a_shutdown_in_the_turn_in_which_a_client_leaves_ends_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two reasons to end the task are one cancellation."""
    lose = WebSocket.lose
    async with joined() as (_, writer, _, running):

        def lose_and_cut(self: WebSocket, end: SplicedEnd, exc: Exception | None) -> None:
            lose(self, end, exc)
            if end is self.near:
                running.proxy.open_exchanges.cut_all()

        monkeypatch.setattr(WebSocket, "lose", lose_and_cut)
        reset_client(writer)
        await wait_until_none(running)


async def test_one_connection_too_many_is_a_503() -> None:
    """WebSockets count as all others."""
    async with echoing(max_connections=2) as (_, url, running), connect(url), connect(url):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(handshake())
        assert (await reader.readline()).startswith(b"HTTP/1.1 503 ")
        writer.close()


async def test_an_upstream_that_is_not_there_is_a_502() -> None:
    """As for any request."""
    async with running_proxy("http://127.0.0.1:9", websockets="relay") as running:
        with pytest.raises(InvalidStatus) as caught:
            await connect("ws://{}:{}/v1/realtime".format(*running.address))
        assert caught.value.response.status_code == 502


@pytest.mark.parametrize("length", [0, 1, 125, 126, 65535, 65536])
@pytest.mark.parametrize("is_masked", [False, True])
def test_ends_of_frames_are_found_wherever_reads_cut_them(length: int, *, is_masked: bool) -> None:
    """By each byte of a head, and in between."""
    if length < 126:
        head = bytes([length])
    elif length < 65536:
        head = bytes([126]) + length.to_bytes(2)
    else:
        head = bytes([127]) + length.to_bytes(8)
    if is_masked:
        head = bytes([head[0] | 0x80]) + head[1:] + b"mask"
    frame = b"\x82" + head + bytes(length)
    whole = frame + b"\x8a\x00" + frame
    ends = {len(frame), len(frame) + 2, len(whole)}
    for cut in {*range(20), len(frame) - 1, len(frame), len(frame) + 1, len(frame) + 2}:
        if 0 < cut < len(whole):
            passed = Passed()
            follower = FrameEnds(passed)
            follower.feed(whole[:cut])
            assert follower.at_end == (cut in ends), cut
            follower.feed(whole[cut:])
            assert follower.at_end, cut
            assert (passed.messages, passed.bytes) == (2, len(whole)), cut


def test_frames_too_many_to_follow_are_given_up() -> None:
    """A read of nothing but the shortest ones must not delay other calls."""
    follower = FrameEnds(Passed())
    found = []
    for count in (MAX_FRAMES, MAX_FRAMES + 1, 1):
        follower.feed(b"\x89\0" * count)
        found.append(follower.at_end)
    assert found == [True, False, False]


def test_a_close_is_a_frame() -> None:
    """Of two or six bytes of head, with its status."""
    assert encode_close(1001, is_masked=False) == b"\x88\x02\x03\xe9"
    assert len(encode_close(1001, is_masked=True)) == 8
    assert base64.b64encode(encode_close(1000, is_masked=False)) == b"iAID6A=="
