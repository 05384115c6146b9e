"""What a client sees of a fault of the handler's (``proxy.downstream.connection``)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from proxy.headers import Head
from tests.proxy.raw_client import send_raw, send_with_end, split_answer
from tests.proxy.serving import GET, GET_1_0, HEAD, serving

if TYPE_CHECKING:
    from proxy.downstream.downstream import Answered, Downstream


async def test_a_fault_before_the_answer_is_a_500_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """OpenAI-shaped, closed, not counted as the client's, and silent about the cause."""

    async def handler(client: Downstream) -> Answered:
        raise ValueError("secret")

    async with serving(handler) as (address, server):
        status, fields, body = split_answer(await send_raw(address, GET))
    assert status == b"HTTP/1.1 500 Internal Server Error"
    assert (b"Connection", b"close") in fields
    assert b'"code": "internal_error"' in body
    assert b"secret" not in body
    assert server.state.refused_count == 0
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


@pytest.mark.parametrize(
    ("fault", "status"), [(ValueError, b"500 "), (TimeoutError, b"504 ")], ids=["500", "504"]
)
async def test_an_interim_answer_of_ours_is_not_the_beginning_of_the_answer(
    fault: type[Exception], status: bytes
) -> None:
    """A fault after the 100 Continue is told like any other before the head."""

    async def handler(client: Downstream) -> Answered:
        client.continue_if_expected()
        raise fault

    request = b"PUT / HTTP/1.1\r\nHost: c\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    async with serving(handler) as (address, _):
        got = await send_raw(address, request)
    assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 " + status)
    assert b'"code": "internal_error"' in got


async def test_a_fault_in_answer_to_head_has_no_body() -> None:
    """RFC 9110 section 9.3.2."""

    async def handler(client: Downstream) -> Answered:
        raise ValueError

    async with serving(handler) as (address, _):
        answer = await send_raw(address, HEAD)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("fault", [ValueError, TimeoutError])
async def test_a_fault_in_the_middle_of_an_answer_is_a_reset(
    fault: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """Never a clean end, whatever the framing."""

    async def handler(client: Downstream) -> Answered:
        client.begin_answer(200, "OK", Head(), has_body=True)
        await client.flush()
        raise fault

    async with serving(handler) as (address, _):
        _, was_reset = await send_with_end(address, GET_1_0)
    assert was_reset
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_client_that_leaves_is_nobodys_fault(caplog: pytest.LogCaptureFixture) -> None:
    """A write that fails ends the connection without a log line."""
    done = asyncio.Event()

    async def handler(client: Downstream) -> Answered:
        try:
            raise ConnectionResetError
        finally:
            done.set()

    async with serving(handler) as (address, _):
        assert await send_raw(address, GET) == b""
        await done.wait()
    assert caplog.records == []


async def test_a_connection_serves_all_its_requests_in_one_task() -> None:
    """A task for each would cost two turns of the loop more."""
    tasks: list[asyncio.Task[None] | None] = []

    async def handler(client: Downstream) -> Answered:
        tasks.append(asyncio.current_task())
        client.begin_answer(200, "OK", Head(((b"Content-Length", b"0"),)), has_body=True)
        return await client.finish()

    async with serving(handler) as (address, server):
        await send_raw(address, GET + GET_1_0)
        assert server.state.requests_count == 2
    assert tasks[0] is tasks[1] is not None
