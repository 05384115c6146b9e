"""What reaches a client that was slow for a moment: every byte, in the order of its coming."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from aiohttp.http import HttpVersion11

from proxy.clock import SystemClock
from proxy.downstream.downstream import Downstream
from proxy.headers import Head
from proxy.relay.tap import TapSource
from proxy.relay.tee import relay_answer
from proxy.tasks import spawn
from tests.proxy.harness import ObservingSink
from tests.proxy.upstream.fed import HEAD, FedConnection, chunk

EVENTS = [b"data: {%d}\n\n" % number for number in range(4)]


class SlowClient(asyncio.Transport):
    """A client's connection: what was written to it, and whether more has to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.transport = self
        self.closing = self.writing_paused = False
        self.written: list[bytes] = []
        self._drained = asyncio.Event()

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return False

    async def drain(self) -> None:
        await self._drained.wait()

    def pause(self) -> None:
        self.writing_paused = True
        self._drained.clear()

    def resume(self) -> None:
        self.writing_paused = False
        self._drained.set()


async def test_an_event_that_comes_as_the_client_reads_on_does_not_overtake_the_one_before() -> (
    None
):
    """The relay holds an event that waits for the client; the next comes before it has its turn."""
    upstream = FedConnection()
    upstream.deliver(HEAD)
    response = await upstream.answer()
    client: Any = SlowClient()
    message: Any = SimpleNamespace(
        should_close=False, version=HttpVersion11, method="POST", path="/"
    )
    body: Any = None
    downstream = Downstream(client, message, body, Head(), body_idle_seconds=0)
    tap = TapSource(ObservingSink(), SystemClock()).open(observed=False)
    relay = spawn(relay_answer(response, downstream, tap), name="relay")
    await asyncio.sleep(0.01)

    def arrive(event: bytes) -> None:
        upstream.deliver(chunk(event))

    arrive(EVENTS[0])
    client.pause()
    arrive(EVENTS[1])
    await asyncio.sleep(0.01)  # the relay has it, and waits
    client.resume()
    arrive(EVENTS[2])
    arrive(EVENTS[3])
    upstream.deliver(b"0\r\n\r\n")
    await relay
    framed = b"".join(client.written).partition(b"\r\n\r\n")[2]
    assert framed.replace(b"\r\n", b"").count(b"data") == len(EVENTS)
    assert list(map(framed.find, EVENTS)) == sorted(map(framed.find, EVENTS))
