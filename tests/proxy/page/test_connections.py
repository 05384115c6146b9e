"""The page's connections: how many, and for how long."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

from aiohttp import web

from proxy.page import connections as module
from proxy.page.connections import Connections
from proxy.page.guard import HEADERS
from proxy.page.page_settings import PageSettings
from proxy.page.serving import serve_page
from proxy.page_access.digests import digest_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

_GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextlib.asynccontextmanager
async def _serving(app: web.Application) -> AsyncIterator[tuple[Connections, int]]:
    served = Connections(app)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    await served.serve(listener)
    try:
        yield served, listener.getsockname()[1]
    finally:
        await served.close()


def _make_app(began: asyncio.Event | None = None) -> web.Application:
    async def answer(_: web.Request) -> web.Response:
        if began is not None:
            began.set()
            await asyncio.sleep(3600)
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/", answer)
    return app


async def test_one_too_many_ends_the_one_that_waits_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who only sits there keeps nobody out."""
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 3)
    async with _serving(_make_app()) as (_, port):
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        await asyncio.sleep(0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_GET)
        assert b"200" in await reader.readline()
        with contextlib.suppress(ConnectionResetError):
            assert await opened[0][0].read() == b""
        opened[1][1].write(_GET)
        assert b"200" in await opened[1][0].readline()
        for _, each in (*opened, (reader, writer)):
            each.close()


async def test_one_too_many_is_refused_where_all_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What somebody watches is not cut for another."""
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 1)
    began = asyncio.Event()
    async with _serving(_make_app(began)) as (served, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_GET)
        await began.wait()
        assert served.is_watched
        other, other_writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionResetError):
            assert await other.read() == b""
        assert served.is_watched
        writer.close()
        other_writer.close()


async def test_who_holds_back_a_body_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes no token, so it must not be taken for a page that is watched."""
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 3)

    async def take(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(text="ok")

    app = _make_app()
    app.router.add_post("/", take)
    async with _serving(app) as (served, port):
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for _, writer in held:
            writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf")
        await asyncio.sleep(0.1)
        assert not served.is_watched
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_GET)
        assert b"200" in await reader.readline()
        for _, each in (*held, (reader, writer)):
            each.close()


async def test_a_head_that_does_not_come_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Byte by byte is no faster; one that was answered and is not used again goes, too."""
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.2)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    async with _serving(_make_app()) as (_, port):
        slow, slow_writer = await asyncio.open_connection("127.0.0.1", port)
        used, used_writer = await asyncio.open_connection("127.0.0.1", port)
        used_writer.write(_GET)
        assert b"200" in await used.readline()
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionError):
                for byte in _GET[:-1] * 20:
                    slow_writer.write(bytes([byte]))
                    await slow_writer.drain()
                    await asyncio.sleep(0.02)
                    if slow.at_eof():
                        break
            with contextlib.suppress(ConnectionError):
                await used.read()
        slow_writer.close()
        used_writer.close()


async def test_an_answer_that_nobody_takes_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that sleeps; one that takes slowly is not cut."""
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    size = 32 * 1024 * 1024

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * size)

    app = web.Application()
    app.router.add_get("/", answer)
    async with _serving(app) as (served, port):
        _, asleep_writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        asleep_writer.write(_GET)
        slow, slow_writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        slow_writer.write(_GET)
        taken = 0
        async with asyncio.timeout(20):
            while taken < size:
                taken += len(data := await slow.read(1024 * 1024))
                assert data, taken
                await asyncio.sleep(0.01)
            while served.is_watched:
                await asyncio.sleep(0.05)
        slow_writer.close()
        asleep_writer.transport.abort()


async def test_a_body_that_breaks_is_no_defect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that is not what it says, or whose client goes; it takes no token to send it."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    token = f"sha256:{digest_token('a-token-of-this-test').hex()}"
    head = b"POST /api/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
    async with serve_page(PageSettings(store=tmp_path / "traces.db", page_token=token), listener):
        address = listener.getsockname()[:2]
        reader, writer = await asyncio.open_connection(*address)
        writer.write(head + b"Content-Encoding: gzip\r\n\r\nnot gzip.")
        assert b" 400 " in await reader.readline()
        writer.close()
        for _ in range(3):
            _, writer = await asyncio.open_connection(*address)
            writer.write(head + b"\r\nhalf")
            await asyncio.sleep(0.05)
            writer.transport.abort()
        await asyncio.sleep(0.2)
    assert not caplog.records


async def test_what_is_no_http_is_answered_as_all_else_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the headers of safety, and without a word in the log."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    token = f"sha256:{digest_token('a-token-of-this-test').hex()}"
    async with serve_page(PageSettings(store=tmp_path / "traces.db", page_token=token), listener):
        for sent in (b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n"):
            reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
            writer.write(sent)
            answer = (await reader.read()).decode()
            assert answer.splitlines()[0].endswith(" 400 Bad Request")
            for name, value in HEADERS.items():
                assert f"{name}: {value}\r\n" in answer
            assert '"code":"parameter"' in answer
            writer.close()
    assert not caplog.records
