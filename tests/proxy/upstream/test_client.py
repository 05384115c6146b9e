"""The upstream client: connections that are kept, requests that are written once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from yarl import URL

from proxy.errors import GatewayError
from proxy.upstream.client import UpstreamClient
from proxy.upstream.errors import UpstreamUnreachableError
from proxy.upstream.forward_proxy import ForwardProxy
from proxy.upstream.request import UpstreamRequest, UpstreamTimeouts
from proxy.upstream.routes import Upstream
from proxy.upstream.sending import TURN_BYTES, WRITE_BYTES, Sending
from tests.proxy.harness import (
    ANSWER,
    Connection,
    ScriptedUpstream,
    relaying,
    request_bytes,
    running_proxy,
)
from tests.proxy.raw_client import ask
from tests.proxy.turns import count_turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from proxy.upstream.response import UpstreamResponse


@contextlib.asynccontextmanager
async def open_client(**timeouts: float) -> AsyncIterator[UpstreamClient]:
    client = UpstreamClient(
        tls=ssl.create_default_context(),
        timeouts=UpstreamTimeouts(**timeouts),
        forward_proxy=ForwardProxy(),
        max_header_bytes=65536,
    )
    try:
        yield client
    finally:
        await client.close()


def get(url: str, *, method: str = "GET", body: bytes = b"") -> UpstreamRequest:
    upstream = Upstream(name="test", origin=URL(url))
    headers = [(b"Host", upstream.host_header)]
    if body:
        headers.append((b"Content-Length", b"%d" % len(body)))
    return UpstreamRequest(upstream=upstream, method=method, target="/", headers=headers, body=body)


async def read_all(response: UpstreamResponse) -> bytes:
    pieces = []
    while data := await response.read():
        pieces.append(data)
    response.close()
    return b"".join(pieces)


class ThreadedServer:
    """A server beside the event loop: it acts while the loop is blocked."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.accepted: list[socket.socket] = []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                self.accepted.append(sock)
                sock.recv(65536)
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for sock in self.accepted:
            sock.close()


@pytest.fixture
def threaded() -> Iterator[ThreadedServer]:
    server = ThreadedServer()
    yield server
    server.close()


async def test_an_idle_connection_is_looked_at_before_use(threaded: ThreadedServer) -> None:
    """A FIN that the loop has not seen yet is seen: the request goes out on a new connection."""
    async with open_client() as client:
        assert await read_all(await client.send(get(threaded.url))) == b"ok"
        threaded.accepted[0].close()
        time.sleep(0.05)  # noqa: ASYNC251 - the loop must not see the FIN by itself
        assert await read_all(await client.send(get(threaded.url))) == b"ok"
    assert len(threaded.accepted) == 2


async def test_a_connection_is_kept_for_four_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by a loop that had no time to end it."""
    async with ScriptedUpstream(lambda c: c.answer()) as upstream, open_client() as client:
        await read_all(await client.send(get(upstream.url)))
        await read_all(await client.send(get(upstream.url)))
        assert upstream.connections == 1
        [dialler] = client._diallers.values()
        now = asyncio.get_running_loop().time
        loop: Any = SimpleNamespace(time=lambda: now() + 4.1)
        monkeypatch.setattr(dialler.idle, "_loop", loop)
        response = await client.send(get(upstream.url))
        assert upstream.connections == 2
        monkeypatch.undo()
        await read_all(response)


@pytest.mark.parametrize("head", [b"Connection: close\r\n", b""])
async def test_a_connection_that_the_upstream_ends_is_not_kept(head: bytes) -> None:
    """Neither where it says so nor where it just does after the answer."""

    async def script(connection: Connection) -> None:
        await connection.answer(head=head)
        if not head:
            connection.writer.close()

    async with ScriptedUpstream(script) as upstream, open_client() as client:
        for _ in range(2):
            assert await read_all(await client.send(get(upstream.url))) == ANSWER
            await asyncio.sleep(0.01)
    assert upstream.connections == 2


async def test_a_connection_whose_answer_was_not_read_whole_is_dropped() -> None:
    """What is left of it must not be the next answer's beginning."""
    async with ScriptedUpstream(lambda c: c.answer(b"x" * 500_000)) as upstream:
        async with open_client() as client:
            response = await client.send(get(upstream.url))
            assert await response.read()
            response.close()
            assert len(await read_all(await client.send(get(upstream.url)))) == 500_000
        assert upstream.connections == 2


async def test_what_was_peeked_at_is_read_all_the_same() -> None:
    """Once, in order, and again after a second look."""
    body = b"0123456789" * 20_000
    async with ScriptedUpstream(lambda c: c.answer(body)) as upstream, open_client() as client:
        response = await client.send(get(upstream.url))
        assert await response.peek(5) == b"01234"
        assert await response.peek(12) == b"012345678901"
        assert await read_all(response) == body


async def test_what_was_peeked_at_comes_before_what_came_since() -> None:
    """To whoever takes what is there, too."""
    peeked = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc")
        await peeked.wait()
        await connection.send(b"def")

    async with ScriptedUpstream(script) as upstream, open_client() as client:
        response = await client.send(get(upstream.url))
        assert await response.peek(1) == b"a"
        peeked.set()
        async with asyncio.timeout(5):
            while response._size_bytes < 6:
                await asyncio.sleep(0.01)
        assert response.pop() == b"abc"
        assert response.pop() == b"def"
        assert await read_all(response) == b""


async def test_a_body_longer_than_one_piece_is_written_beside_the_answer() -> None:
    """An upstream may refuse it half-way; its answer is read, and the rest is not sent."""

    async def script(connection: Connection) -> None:
        await connection.answer(b"too long", status=b"413 Content Too Large")
        await connection.wait_closed_by_peer()

    async with ScriptedUpstream(script, reads_body=False) as upstream, open_client() as client:
        body = b"x" * 50_000_000
        response = await client.send(get(upstream.url, method="POST", body=body))
        assert response.status == 413
        assert await read_all(response) == b"too long"
        [dialler] = client._diallers.values()
        assert not dialler.idle._waiting  # half a request went over it


@pytest.mark.parametrize("size", [WRITE_BYTES, WRITE_BYTES + 1, 3_000_000])
async def test_bodies_of_any_length_arrive_whole(size: int) -> None:
    """And their connection serves the next request."""
    async with ScriptedUpstream(lambda c: c.answer()) as upstream, open_client() as client:
        body = bytes(range(256)) * (size // 256 + 1)
        for _ in range(2):
            request = get(upstream.url, method="POST", body=body[:size])
            await read_all(await client.send(request))
            assert upstream.last.body == body[:size]
        assert upstream.connections == 1


@pytest.mark.parametrize(
    ("method", "head"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5000\r\n\r\n"),
    ],
)
async def test_answers_without_a_body_end_with_their_head(method: bytes, head: bytes) -> None:
    """Whatever length they tell of; the connection is kept."""
    async with relaying(lambda connection: connection.send(head)) as (upstream, running):
        for _ in range(2):
            data = b"%b /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % method
            answer = await ask(running.address, data)
            assert answer.raw.split(b"\r\n")[0] == head.split(b"\r\n")[0]
            assert answer.raw.endswith(b"\r\n\r\n")
            length = b"5000" if b"5000" in head else None
            assert answer.field(b"content-length") == length
    assert upstream.connections == 1


async def test_nothing_is_added_to_a_request() -> None:
    """No ``User-Agent``, no ``Accept``: what the proxy wrote is what arrives."""
    async with ScriptedUpstream(lambda c: c.answer()) as upstream, open_client() as client:
        await read_all(await client.send(get(upstream.url)))
        host, port = upstream.address
        assert upstream.last.head == f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()


async def test_what_is_not_observed_fails_as_plainly() -> None:
    """The same 502 for a file upload, and no record."""
    async with running_proxy("http://127.0.0.1:1") as running:
        answer = await ask(running.address, request_bytes(target=b"/v1/files"))
    assert answer.status == 502
    assert answer.error["code"] == "upstream_unreachable"
    assert not running.sink.frames


async def test_what_is_not_observed_breaks_off_as_plainly() -> None:
    """A download that is cut off is never a whole one."""

    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        connection.writer.close()

    async with relaying(script) as (_, running):
        answer = await ask(running.address, request_bytes(target=b"/v1/files"))
    assert (answer.body, answer.clean) == (b"half", False)
    assert not running.sink.frames


async def test_failures_are_counted_and_told_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    """One line per upstream in ten seconds, whatever the number of requests."""
    async with open_client() as client:
        for _ in range(3):
            with pytest.raises(GatewayError) as caught:
                await client.send(get("http://127.0.0.1:1"))
            assert isinstance(caught.value.__cause__, UpstreamUnreachableError)
        assert client.failure_count == 3
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "Upstream 'test' (http://127.0.0.1:1): no connection" in record.getMessage()


def test_others_have_their_turn_while_a_large_body_is_written() -> None:
    """Though the upstream takes all of it at once; its parts arrive as one body."""
    written: list[bytes] = []

    class Connection:
        async def write(self, data: bytes) -> None:
            written.append(bytes(data))

    large = bytes(range(256)) * (TURN_BYTES // 64)
    parts = (b"a", memoryview(large)[1:], b"b")
    request = msgspec.structs.replace(get("http://a", body=large), more=parts)
    connection: Any = Connection()
    sending = Sending(connection, request, UpstreamTimeouts(), None)
    turns = count_turns(sending._write_body())
    assert turns == (2 * len(large) - 1) // TURN_BYTES
    assert b"".join(written[1:]) == b"".join((large, *parts))
    assert max(map(len, written)) == WRITE_BYTES


async def test_a_body_in_parts_arrives_whole() -> None:
    """However small they are."""
    async with ScriptedUpstream(Connection.answer) as upstream, open_client() as client:
        request = msgspec.structs.replace(get(upstream.url, body=b"abcde"), body=b"a")
        response = await client.send(msgspec.structs.replace(request, more=(b"bc", b"", b"de")))
        assert await read_all(response) == ANSWER
        assert upstream.last.body == b"abcde"
