"""Errors keep a worker's loop no longer than other answers of their size (R2)."""

from __future__ import annotations

import asyncio
import gzip
import time

import pytest

from telemetry.frames.frame import MAX_ERROR_BYTES, Frame
from telemetry.in_process import FrameByFrame
from tests.proxy.harness import Connection, relaying, request_bytes
from tests.proxy.raw_client import ask

KEY = b"sk-SECRET/abc+def-canary"
HEAD = b"Authorization: Bearer %b\r\nX-Acme: %b\r\nCookie: a=%b\r\n" % (KEY, KEY[3:], KEY[5:])

CALLS = 5
"""Of each kind: the shortest of their longest turns is nobody else's work on this machine."""

MAX_TIMES = 8
"""How much longer a turn may take than with the same bytes as a success: three times where a key
follows the other. Masked in the worker, pages and escapes take thirty times as long."""


class Frames:
    """A sink that observes nothing: what is left is the worker's own work."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def open_exchange(self, number: int) -> FrameByFrame:
        del number
        return FrameByFrame(self.frames.append)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processor's time for each step of the loop, in nanoseconds."""
    spent: list[int] = []
    run = asyncio.Handle._run

    def measure(handle: asyncio.Handle) -> None:
        begun = time.thread_time_ns()
        run(handle)
        spent.append(time.thread_time_ns() - begun)

    monkeypatch.setattr(asyncio.Handle, "_run", measure)
    return spent


def repeat(words: bytes) -> bytes:
    return words * (MAX_ERROR_BYTES // len(words))


BODIES = {
    "a page": repeat(b"<p>no %b, nor that</p>" % KEY),
    "escapes": b'{"error":{"message":"%b"}}' % repeat(rb"\"\u002b\n"),
    "a key after the other": repeat(KEY + b" "),
    "compressed": gzip.compress(repeat(b"no %b" % KEY) * 20),
    "a list of words": b'{"detail":[%b0]}' % repeat(b'{"input":"abcdefgh12"},'),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("status", [b"400 Bad Request", b"502 Bad Gateway"])
async def test_an_error_keeps_the_loop_no_longer_than_a_success_of_its_size(
    turns: list[int], body: bytes, status: bytes
) -> None:
    """Whatever is in it, and whatever may be a credential in its request."""
    head = b"Content-Encoding: gzip\r\n" if body.startswith(b"\x1f\x8b") else b""

    async def script(connection: Connection) -> None:
        is_error = connection.field(b"x-error") is not None
        await connection.answer(body, status=status if is_error else b"200 OK", head=head)

    sink = Frames()
    longest: dict[bytes, list[int]] = {b"": [], b"x-error: 1\r\n": []}
    async with relaying(script, sink=sink) as (_, running):
        for _ in range(CALLS):
            for fields, found in longest.items():
                turns.clear()
                answer = await ask(running.address, request_bytes(head=HEAD + fields))
                assert answer.body == body
                found.append(max(turns))
    success, error = map(min, longest.values())
    assert sink.frames
    assert error <= MAX_TIMES * success
