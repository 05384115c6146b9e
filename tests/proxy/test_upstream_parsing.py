"""What our side of an upstream's connection makes of bytes is what aiohttp's makes of them."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from aiohttp.client_proto import ResponseHandler
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.upstream.connection import UpstreamProtocol
from tests.proxy.upstream.test_whole_chunks import PARAMETERS, FakeTransport

if TYPE_CHECKING:
    from collections.abc import Iterable

OK = b"HTTP/1.1 200 OK\r\n"
HEADS = [
    OK + b"Content-Length: 5\r\n\r\n",
    OK + b"Content-Length: 0\r\n\r\n",
    OK + b"\r\n",
    OK + b"Connection: close\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\n",
    OK + b"Content-Length: x\r\n\r\n",
    OK + b"A: " + b"x" * 80 + b"\r\n\r\n",
    b"HTTP/9\r\n\r\n",
]
CHUNKS = [b"5\r\nhello\r\n", b"5\r\nhelloXX", b"0\r\n\r\n"]
PIECES = st.sampled_from([*HEADS, *CHUNKS, b"hello", b"he", b"", b"\r\n"])


def hear(
    kind: type[ResponseHandler], reads: Iterable[bytes], *, head_only: bool
) -> tuple[list[tuple[int, bytes, bool]], str, bool]:
    """What came up to the answer that was asked for, the error, and whether it has to be closed."""
    loop = asyncio.get_running_loop()
    protocol = kind(loop)
    parameters: dict[str, Any] = {**PARAMETERS, "skip_payload": head_only}
    if isinstance(protocol, UpstreamProtocol):
        protocol.begin(stall_seconds=0, max_head_bytes=0, **parameters)
    else:
        protocol.set_response_params(**parameters)
    transport = FakeTransport()
    protocol.connection_made(transport)
    for read in reads:
        if not transport.is_closing():
            protocol.data_received(read)
    error = protocol.exception()
    answers: list[tuple[int, bytes, bool]] = []
    while protocol._buffer and not (answers and answers[-1][0] >= 200):
        (message, payload), _ = protocol._buffer.popleft()
        payload._exception = None  # which aiohttp's tells no reader of a body that breaks
        answers.append((message.code, payload.read_nowait(), payload.is_eof()))
    should_close = protocol.should_close
    protocol.connection_lost(None)
    return answers, "" if error is None else f"{type(error).__name__}", should_close


@settings(max_examples=400)
@given(st.lists(PIECES, max_size=5), st.booleans(), st.lists(st.integers(0, 500), max_size=4))
@example([HEADS[0], CHUNKS[2], HEADS[0], HEADS[0]], False, [])
def test_whatever_comes_in_whatever_reads_is_what_comes_byte_by_byte(
    pieces: list[bytes], head_only: bool, cuts: list[int]
) -> None:
    """Heads, bodies and faults; aiohttp's forgets a head only where more comes in its read.

    The example: a second answer, which nobody asked for and whose body breaks in its first read.
    """
    wire = b"".join(pieces)
    edges = [0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]
    reads = [wire[a:b] for a, b in itertools.pairwise(edges) if a < b]

    async def compare() -> None:
        bytewise = [wire[place : place + 1] for place in range(len(wire))]
        expected = hear(ResponseHandler, bytewise, head_only=head_only)
        assert hear(UpstreamProtocol, reads, head_only=head_only) == expected

    asyncio.run(compare())
