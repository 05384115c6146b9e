"""A web page of another site cannot spend a key that the proxy holds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import pytest

from proxy.settings.tables import UpstreamConfig
from tests.proxy.harness import ANSWER, relaying, running_proxy
from tests.proxy.raw_client import ask
from tests.proxy.relay.test_web_socket import SWITCH, handshake, read_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.proxy.harness import Connection, RunningProxy, ScriptedUpstream

FOREIGN = [
    b"https://evil.example",
    b"http://evil.example:4000",
    b"https://localhost.evil.example",
    b"https://127.0.0.1.evil.example",
    b"https://xlocalhost",
    b"http://192.168.0.7:3000",
    b"HTTPS://EVIL.EXAMPLE",
    b"null",
    b"http://[",
]
OWN = [
    b"http://localhost:3000",
    b"https://127.0.0.1",
    b"http://[::1]:8080",
    b"http://tauri.localhost",
    b"http://0.0.0.0:8000",
    b"vscode-webview://0a1b",
    b"chrome-extension://abcdefgh",
    b"app://obsidian.md",
]


@contextlib.asynccontextmanager
async def holding(
    monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[tuple[ScriptedUpstream, RunningProxy]]:
    """A proxy that holds its upstream's key."""
    monkeypatch.setenv("HELD", "held-key-1")

    async def serve(connection: Connection) -> None:
        if b"upgrade: websocket" in connection.head.lower():
            await connection.send(SWITCH)
            await connection.wait_closed_by_peer()
        else:
            await connection.answer(ANSWER)

    async with relaying(serve) as (upstream, _):
        table = UpstreamConfig(name="a", url=upstream.url, prefix="/", api_key_env="HELD")
        async with running_proxy(None, upstreams=(table,), **settings) as running:
            yield upstream, running


def post(origin: bytes, method: bytes = b"POST") -> bytes:
    """What a page can send without asking: text, which is JSON."""
    return (
        b"%b /v1/chat/completions HTTP/1.1\r\nHost: localhost:4000\r\nOrigin: %b\r\n"
        b"Content-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    ) % (method, origin)


@pytest.mark.parametrize("origin", FOREIGN)
async def test_a_foreign_page_is_refused(
    origin: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its WebSockets, its calls, and its questions whether it may call; the upstream sees none."""
    caplog.set_level(logging.INFO, "spantap")
    async with holding(monkeypatch) as (upstream, running):
        for request in (handshake(b"Origin: " + origin), post(origin), post(origin, b"OPTIONS")):
            reader, writer = await asyncio.open_connection(*running.address)
            writer.write(request)
            answer = await read_all(reader)
            writer.close()
            assert answer.startswith(b"HTTP/1.1 403 ")
            assert b'"foreign_page"' in answer
            assert b"access-control-" not in answer.lower()
    assert upstream.connections == 0
    assert running.server.state.refused_count == 3
    assert [record.getMessage() for record in caplog.records] == [
        "refused a request: a web page of another site would spend a key that spantap holds"
    ]


@pytest.mark.parametrize("origin", OWN)
async def test_pages_of_this_machine_and_of_applications_may(
    origin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the user's own; their origin goes up as it came."""
    async with holding(monkeypatch) as (upstream, running):
        assert (await ask(running.address, post(origin))).status == 200
        assert upstream.last.field(b"origin") == origin
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(handshake(b"Origin: " + origin))
        assert await reader.readuntil(b"\r\n\r\n") == SWITCH
        assert upstream.last.field(b"origin") == origin
        assert upstream.last.field(b"authorization") == b"Bearer held-key-1"
        writer.transport.abort()


async def test_a_foreign_page_with_an_inbound_key_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever knows the key was given it."""
    async with holding(monkeypatch, inbound_keys=("our-inbound-key-1",)) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        protocol = b"Sec-WebSocket-Protocol: openai-insecure-api-key.our-inbound-key-1"
        writer.write(handshake(b"Origin: https://app.example", protocol))
        assert await reader.readuntil(b"\r\n\r\n") == SWITCH
        writer.transport.abort()


async def test_a_foreign_page_spends_its_own_key() -> None:
    """Where the proxy holds none, it gains nothing."""

    async def switch(connection: Connection) -> None:
        await connection.send(SWITCH)
        await connection.wait_closed_by_peer()

    async with relaying(switch) as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(handshake(b"Origin: https://evil.example"))
        assert await reader.readuntil(b"\r\n\r\n") == SWITCH
        assert upstream.last.field(b"origin") == b"https://evil.example"
        writer.transport.abort()
