"""A request to its one end (R3): what the client saw, how its stream ended, what was recorded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from telemetry.frames.frame import Begin, End
from tests.proxy.harness import (
    CHAT,
    STREAMED_CHAT,
    Connection,
    RunningProxy,
    ScriptedUpstream,
    frames_of,
    relaying,
    request_bytes,
)
from tests.proxy.raw_client import Answer, ask
from tests.telemetry.observed import chat_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from telemetry.observing.exchange import Exchange


STREAMED = request_bytes(STREAMED_CHAT)
WHOLE = request_bytes(CHAT)
# Close-delimited answers: HTTP/1.0 knows no chunks.
STREAMED_10 = STREAMED.replace(b"HTTP/1.1", b"HTTP/1.0")


class Observed(NamedTuple):
    answer: Answer
    exchange: Exchange
    upstream: ScriptedUpstream


async def the_end(running: RunningProxy) -> Exchange:
    """The one record, after a while in which a second end could have come."""
    exchange: Exchange = await running.sink.wait_for()
    await asyncio.sleep(0.01)
    assert len(frames_of(running, Begin)) == 1
    assert len(frames_of(running, End)) == 1
    assert len(running.sink.exchanges) == 1
    assert len(running.proxy.open_exchanges) == 0
    return exchange


async def observe(
    script: Callable[[Connection], Awaitable[object]], request: bytes = STREAMED, **settings: Any
) -> Observed:
    """One request through the proxy, to its end on both sides."""
    async with relaying(script, **settings) as (upstream, running):
        answer = await ask(running.address, request)
        return Observed(answer, await the_end(running), upstream)


def total_of(exchange: Exchange) -> int | None:
    """All tokens that the provider reported, ``None`` where it reported none."""
    usage = chat_answer(exchange).usage
    return None if usage is None else usage.total


def assert_nothing_invented(exchange: Exchange) -> None:
    """No usage and no finish reason that did not come (R6)."""
    response = chat_answer(exchange)
    assert response.usage is None
    assert all(choice.finish_reason is None for choice in response.choices)
