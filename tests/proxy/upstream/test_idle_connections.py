"""Connections to upstreams between two exchanges: used again, looked at, ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.upstream import idle_connections
from tests.proxy.harness import ANSWER, Connection, ScriptedUpstream
from tests.proxy.upstream.test_client import get, open_client, read_all

if TYPE_CHECKING:
    import pytest


async def test_rule_1_whoever_waits_too_long_is_ended_without_being_asked_for(
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
        [dialler] = client._diallers.values()
        assert len(dialler.idle._waiting) == 2
        await both.wait()
        assert ended == [1, 2]
        assert not dialler.idle._waiting


async def test_rule_3_the_one_that_was_used_last_is_used_next() -> None:
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
        [dialler] = client._diallers.values()
        next(reversed(dialler.idle._waiting)).transport.abort()
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
            [dialler] = client._diallers.values()
            [timer] = dialler.idle._waiting.values()
        await closed.wait()
        assert not dialler.idle._waiting
        assert timer.cancelled()
