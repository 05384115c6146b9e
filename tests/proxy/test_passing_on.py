"""What is relayed where it arrives and what waits to be read are one body, in its order."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.upstream.response import UpstreamResponse
from tests.proxy.harness import Connection as UpstreamEnd
from tests.proxy.harness import relaying, request_bytes
from tests.proxy.raw_client import ask
from tests.proxy.upstream.fed import HEAD, FedConnection, chunk

if TYPE_CHECKING:
    import pytest


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=30), max_size=12), st.data())
def test_however_a_taker_feels_the_body_is_the_same(
    bodies: list[bytes], data: st.DataObject
) -> None:
    """It takes some reads and declines others, and its reader has its turns now and then."""
    wire = b"".join(chunk(body) for body in bodies) + b"0\r\n\r\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=10)))
    reads = [wire[a:b] for a, b in itertools.pairwise([0, *cuts, len(wire)]) if a < b]
    moods = data.draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=len(reads)))
    relayed: list[bytes] = []
    willing = False

    def take(body: bytes) -> bool:
        if willing:
            relayed.append(body)
        return willing

    async def relay() -> None:
        nonlocal willing
        upstream = FedConnection()
        upstream.deliver(HEAD)
        response = await upstream.answer()

        async def read_on() -> None:
            while body := await response.read(take):
                await asyncio.sleep(0)  # it is in hand: what comes now is behind it
                relayed.append(body)

        reading = asyncio.ensure_future(read_on())
        for read, (is_willing, has_turns) in zip(reads, moods, strict=False):
            willing = is_willing
            upstream.deliver(read)
            for _ in range(4 * has_turns):
                await asyncio.sleep(0)
        while not reading.done():
            upstream.deliver()
            await asyncio.sleep(0)

    asyncio.run(relay())
    assert b"".join(relayed) == b"".join(bodies)


async def test_events_of_a_stream_wake_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is with the client before the next turn of the loop, and all are there in the end."""
    events = [b"data: {%b}\n\n" % str(number).encode() for number in range(50)]

    async def script(connection: UpstreamEnd) -> None:
        await connection.send(HEAD)
        for event in events:
            await connection.send(chunk(event))
            await asyncio.sleep(0.001)
        await connection.send(b"0\r\n\r\n")
        await connection.wait_closed_by_peer()

    async with relaying(script) as (_, proxy):
        reads = 0
        read = UpstreamResponse.read

        async def counted(self: UpstreamResponse, taker: Any = None) -> bytes:
            nonlocal reads
            reads += 1
            return await read(self, taker)

        monkeypatch.setattr(UpstreamResponse, "read", counted)
        answer = await ask(proxy.address, request_bytes())
    assert answer.body == b"".join(events)
    assert reads < 10
