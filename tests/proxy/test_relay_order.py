"""What reaches a client that was slow for a moment: every byte, in the order of its coming."""

from __future__ import annotations

import asyncio
from typing import Any

from proxy.clock import SystemClock
from proxy.downstream.client_stream import ClientStream
from proxy.downstream.downstream import Downstream
from proxy.downstream.port_state import PortState
from proxy.downstream.request_parser import Request
from proxy.headers import Head
from proxy.relay.tap import TapSource
from proxy.relay.tee import relay_answer
from proxy.request_body import RequestBody
from proxy.tasks import spawn
from tests.proxy.harness import ObservingSink
from tests.proxy.upstream.fed import HEAD, FedConnection, chunk

EVENTS = [b"data: {%d}\n\n" % number for number in range(4)]


class Client(asyncio.Transport):
    """A client's connection: what was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0


async def test_an_event_that_comes_as_the_client_reads_on_does_not_overtake_the_one_before() -> (
    None
):
    """The relay holds an event that waits for the client; the next comes before it has its turn."""
    upstream = FedConnection()
    upstream.deliver(HEAD)
    response = await upstream.answer()
    client = Client()
    state = PortState(max_header_bytes=8192)
    stream = ClientStream(client, state)
    body = RequestBody(idle_seconds=0, on_room=lambda: None)
    downstream = Downstream(stream, Request("POST", "/", "1.1", True, Head(), body))
    tap = TapSource(ObservingSink(), SystemClock()).open(observed=False)
    relay = spawn(relay_answer(response, downstream, tap), name="relay")
    await asyncio.sleep(0.01)

    def arrive(event: bytes) -> None:
        upstream.deliver(chunk(event))

    arrive(EVENTS[0])
    stream.pause()
    arrive(EVENTS[1])
    await asyncio.sleep(0.01)  # the relay has it, and waits
    stream.resume()
    arrive(EVENTS[2])
    arrive(EVENTS[3])
    upstream.deliver(b"0\r\n\r\n")
    await relay
    framed = b"".join(client.written).partition(b"\r\n\r\n")[2]
    assert framed.replace(b"\r\n", b"").count(b"data") == len(EVENTS)
    assert list(map(framed.find, EVENTS)) == sorted(map(framed.find, EVENTS))
