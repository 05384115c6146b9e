"""Upstreams that give no answer, or none that can be relayed.

See ``docs/contract/promises.md#endings``.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from telemetry.observing.exchange import Exchange, Outcome
from tests.proxy.harness import Connection, ScriptedUpstream, relaying, running_proxy
from tests.proxy.observed_ends import STREAMED, WHOLE, the_end
from tests.proxy.raw_client import Answer, ask


async def no_answer(url: str, **settings: Any) -> tuple[Answer, Exchange]:
    async with running_proxy(url, **settings) as running:
        answer = await ask(running.address, STREAMED)
        exchange = await the_end(running)
    assert answer.clean
    assert answer.field(b"content-type") == b"application/json"
    assert exchange.response_status is None
    assert exchange.response is None
    assert exchange.error_message == answer.error["message"]
    assert url in answer.error["message"]
    assert "'default'" in answer.error["message"]
    return answer, exchange


def unused_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def test_an_upstream_that_refuses_connections_is_a_502() -> None:
    """OpenAI-shaped, naming the upstream and the cause."""
    answer, exchange = await no_answer(f"http://127.0.0.1:{unused_port()}")
    assert answer.status == 502
    assert answer.error["code"] == "upstream_unreachable"
    assert "Connect call failed" in answer.error["message"] or (
        "refused" in answer.error["message"]
    )
    assert (exchange.outcome, exchange.error_type) == (Outcome.CONNECT_ERROR, "connection_error")


async def test_an_upstream_without_an_address_is_a_502() -> None:
    """A name that does not resolve says so."""
    answer, exchange = await no_answer("http://nowhere.invalid:81")
    assert answer.status == 502
    assert answer.error["code"] == "upstream_unreachable"
    assert "(" in answer.error["message"]
    assert exchange.error_type == "connection_error"


async def test_an_upstream_that_speaks_no_tls_is_a_502() -> None:
    """https:// in front of a plain server is the second most common mistake."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        answer, exchange = await no_answer(f"https://127.0.0.1:{port}")
    assert answer.status == 502
    assert answer.error["code"] == "upstream_tls_error"
    assert exchange.error_type == "connection_error"


async def test_an_answer_that_does_not_begin_in_time_is_a_504() -> None:
    """The first-byte timeout; the request is cancelled at the upstream."""
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def script(connection: Connection) -> None:
        gone.set_result(await connection.wait_closed_by_peer())

    async with ScriptedUpstream(script) as upstream:
        answer, exchange = await no_answer(upstream.url, first_byte_timeout_seconds=0.1)
        assert await gone < 1
    assert answer.status == 504
    assert answer.error["code"] == "upstream_timeout"
    assert (exchange.outcome, exchange.error_type) == (Outcome.TIMEOUT, "timeout")


# --- on a connection that was kept


@pytest.mark.parametrize("reset", [False, True], ids=["fin", "rst"])
async def test_a_kept_connection_that_drops_a_request_is_a_502_and_nothing_is_resent(
    *, reset: bool
) -> None:
    """A POST is never silently sent again: the upstream may have acted on it."""

    async def script(connection: Connection) -> None:
        if connection.number == 1:
            await connection.answer()
        elif reset:
            connection.reset()
        else:
            connection.writer.close()

    async with relaying(script) as (upstream, running):
        assert (await ask(running.address, WHOLE)).status == 200
        answer = await ask(running.address, WHOLE)
        exchange = await running.sink.wait_for(2)
    assert answer.status == 502
    assert answer.error["code"] == "upstream_closed_before_response"
    assert upstream.url in answer.error["message"]
    assert (exchange.outcome, exchange.error_type) == (Outcome.CONNECT_ERROR, "connection_error")
    assert len(upstream.requests) == 2
    assert upstream.connections == 1
