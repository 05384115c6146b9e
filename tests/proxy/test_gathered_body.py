"""Bodies that come in many reads: the same as in one, and no copy of a long one is made."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.chat.rewrite import REQUEST_MEMBERS, rewrite_request
from codec.text.blocks import Blocks
from codec.text.scan import MAX_WHOLE_BYTES, scan_request
from codec.usage_option import UsagePolicy
from proxy.errors import GatewayError, late_request_body
from proxy.headers import Head
from proxy.request_body import BLOCK_BYTES, GatheredBody
from proxy.upstream.sending import TURN_BYTES
from tests.proxy.harness import DONE, STREAM, STREAMED_CHAT, Connection, relaying, request_bytes
from tests.proxy.raw_client import ask
from tests.proxy.relay.test_exchange import FakeDownstream, FakeOpenExchange, make_exchange

BODY = b'{"messages":"%b","stream":true,"model":"m"}' % (b"x" * 3 * BLOCK_BYTES)
CUTS = st.lists(st.integers(0, len(BODY)), max_size=12)


def cut(cuts: list[int]) -> list[bytes]:
    """The body in reads, none of them empty."""
    edges = sorted({0, len(BODY), *cuts})
    return [BODY[start:end] for start, end in pairwise(edges)]


def gather(reads: list[bytes]) -> GatheredBody:
    body = GatheredBody()
    for data in reads:
        body.feed(data)
    return body


@given(CUTS)
def test_a_short_body_is_one_object_however_it_was_cut(cuts: list[int]) -> None:
    """As if it had come in one read."""
    body = gather(cut(cuts))
    assert len(body) == len(BODY)
    assert body.pop() == BODY


@given(st.lists(st.sampled_from([1, 7, BLOCK_BYTES - 1, BLOCK_BYTES, MAX_WHOLE_BYTES + 1])))
def test_a_long_body_stays_in_blocks(sizes: list[int]) -> None:
    """Large reads are blocks themselves; small ones become blocks, so that none costs an object."""
    reads = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    taken = gather(reads).pop()
    assert taken[:] == b"".join(reads)
    assert isinstance(taken, bytes) == (sum(sizes) <= MAX_WHOLE_BYTES)
    if not isinstance(taken, bytes):
        large = [read for read in reads if len(read) >= BLOCK_BYTES]
        assert {*map(id, large)} <= {*map(id, taken.blocks)}
        assert len(taken.blocks) <= 2 * len(large) + sum(sizes) // BLOCK_BYTES + 1


def test_a_body_of_no_reads_is_empty() -> None:
    """As a request without one has it."""
    assert gather([]).pop() == b""


# --- the exchange that reads it


class Reads:
    """A request's body in these reads; the last ``whole`` of them come at once."""

    def __init__(self, reads: list[bytes], *, whole: int = 0, breaks: bool = False) -> None:
        at = len(reads) - whole
        self.reads = [*reads[:at], b"".join(reads[at:])] if whole else reads[:]
        self.whole = bool(whole)
        self.breaks = breaks

    def at_eof(self) -> bool:
        return not (self.reads or self.breaks)

    def pop(self) -> bytes:
        return self.reads.pop(0) if self.whole and len(self.reads) == 1 else b""

    async def read(self) -> bytes:
        if not self.reads:
            raise late_request_body()
        return self.reads.pop(0)


class Tap:
    def __init__(self) -> None:
        self.bodies: list[tuple[bytes | Blocks | None, int]] = []

    def request_body(self, data: bytes | Blocks | None, size_bytes: int) -> None:
        self.bodies.append((data, size_bytes))


def make(reads: Any, headers: Head | None = None) -> tuple[Any, Tap]:
    downstream: Any = FakeDownstream()
    downstream.body = reads
    downstream.headers = headers or Head()
    exchange: Any = make_exchange(downstream, FakeOpenExchange())
    exchange.tap = Tap()
    return exchange, exchange.tap


@given(CUTS, st.integers(0, 12))
def test_however_a_body_comes_it_is_read_recorded_and_scanned_as_in_one_piece(
    cuts: list[int], whole: int
) -> None:
    """One record of it, with all its bytes."""
    reads = cut(cuts)
    exchange, tap = make(Reads(reads, whole=min(whole, len(reads))))
    body, rest, scan = asyncio.run(exchange._read_body())
    assert (body, rest, scan) == (BODY, None, scan_request(BODY, REQUEST_MEMBERS))
    assert tap.bodies == [(BODY, len(BODY))]
    assert exchange.share._held_bytes == len(BODY)


@pytest.mark.parametrize("whole", [0, 1])
@pytest.mark.parametrize("limit", [len(BODY) - 1, len(BODY)])
async def test_a_body_over_a_limit_is_left_out_however_it_came(limit: int, whole: int) -> None:
    """The limit itself is within it; what was read is relayed, and the reader has the rest."""
    for name in ("max_body_bytes", "room"):
        exchange, tap = make(Reads([BODY], whole=whole))
        if name == "room":
            exchange.share._budget._max_bytes = limit
        else:
            object.__setattr__(exchange.rules, name, limit)
        body, rest, scan = await exchange._read_body()
        assert body == BODY
        is_within = limit == len(BODY)
        assert (rest is None) is (scan is not None) is is_within
        assert tap.bodies == [(BODY if is_within else None, len(BODY))]


async def test_what_came_of_a_body_that_breaks_is_recorded() -> None:
    """The client's fault is what the caller gets."""
    exchange, tap = make(Reads([BODY, b" "], breaks=True))
    with pytest.raises(GatewayError):
        await exchange._read_body()
    assert tap.bodies == [(BODY + b" ", len(BODY) + 1)]


async def test_a_long_body_is_scanned_and_recorded_in_blocks() -> None:
    """All of it, and none of it twice."""
    reads = [BODY[:-1], *[b" " * BLOCK_BYTES] * 20, b"}"]
    exchange, tap = make(Reads(reads))
    body, rest, scan = await exchange._read_body()
    assert isinstance(body, Blocks)
    assert (body[:], rest, scan) == (
        b"".join(reads),
        None,
        scan_request(b"".join(reads), REQUEST_MEMBERS),
    )
    assert tap.bodies == [(body, len(body))]


# --- over sockets


@pytest.mark.parametrize("learned", [False, True])
async def test_a_large_chat_is_rewritten_and_taken_back_as_a_small_one_is(*, learned: bool) -> None:
    """The splice is the only difference; after a rejection the client's own bytes are sent."""
    body = STREAMED_CHAT[:-1] + b" " * (4 * TURN_BYTES) + b"}"

    async def script(connection: Connection) -> None:
        if learned or b"include_usage" not in connection.body:
            await connection.stream(*STREAM, DONE)
        else:
            error = b'{"error":{"message":"Unknown: stream_options"}}'
            await connection.answer(error, status=b"400 Bad Request")

    async with relaying(script) as (upstream, running):
        answer = await ask(running.address, request_bytes(body))
        exchange = await running.sink.wait_for()
    expected = rewrite_request(body, scan_request(body, REQUEST_MEMBERS), UsagePolicy.ALWAYS)
    sent = [request.body for request in upstream.requests]
    assert sent == [b"".join(expected.more), *([] if learned else [body])]
    assert answer.status == 200
    assert exchange.request_body == body
    assert exchange.resend_count == (not learned)
