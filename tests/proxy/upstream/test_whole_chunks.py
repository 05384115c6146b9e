"""``proxy.upstream.whole_chunks``: what is taken past aiohttp's parser is what the parser gives."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp.client_proto import ResponseHandler
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.upstream import whole_chunks
from proxy.upstream.connection import UpstreamProtocol
from proxy.upstream.whole_chunks import WholeChunks

if TYPE_CHECKING:
    from collections.abc import Iterable

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PARAMETERS: dict[str, Any] = {
    "read_until_eof": True,
    "auto_decompress": False,
    "max_line_size": 64,
    "max_field_size": 64,
}


class FakeTransport(asyncio.Transport):
    """Keeps what comes while reading is paused, as the kernel does."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: ResponseHandler | None = None
        self.waiting: list[bytes] = []
        self.is_paused = False
        self.is_closed = False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def deliver(self) -> None:
        while self.waiting and not (self.is_paused or self.is_closed):
            assert self.protocol is not None
            self.protocol.data_received(self.waiting.pop(0))


def receive(
    protocol: ResponseHandler, reads: Iterable[bytes], looks: Iterable[bool]
) -> tuple[bytes, bool, str]:
    """What comes of a body: its bytes, whether it ended, and what was wrong with it.

    Args:
        protocol: one that waits for an answer.
        reads: of its body.
        looks: for each read, whether its reader looks after it.
    """
    transport = FakeTransport()
    transport.protocol = protocol
    protocol.connection_made(transport)
    protocol.data_received(HEAD)
    payload = protocol._payload
    assert payload is not None
    taken = b""

    def look() -> None:
        nonlocal taken
        if payload.exception() is None:
            taken += payload.read_nowait()

    for read, looks_now in zip(reads, looks, strict=True):
        transport.waiting.append(read)
        transport.deliver()
        if looks_now:
            look()
    while transport.waiting and not transport.is_closed:
        transport.deliver()
        look()
    for _ in range(50):  # whatever the parser holds back
        look()
    error = payload.exception() or protocol.exception()
    fault = "" if error is None else type(error).__name__
    protocol.connection_lost(None)
    payload._exception = None
    return taken + payload.read_nowait(), payload.is_eof(), fault


def make(kind: type[ResponseHandler]) -> ResponseHandler:
    """A protocol that waits for an answer."""
    protocol = kind(asyncio.get_running_loop())
    if isinstance(protocol, UpstreamProtocol):
        # So that the reader soon has enough.
        protocol.begin(stall_seconds=0, max_head_bytes=0, read_bufsize=32, **PARAMETERS)
    else:
        protocol.set_response_params(**PARAMETERS)
    return protocol


def chunk(size: str, body: bytes, end: bytes) -> bytes:
    return (size or f"{len(body):x}").encode() + b"\r\n" + body + end


ODD_SIZES = ["", "", "", "", "", "", "05", "000000005", "5;ext", "5 ", "", "z", "-1", "FFFFFFFFF"]
BODIES = st.one_of(st.binary(max_size=40), st.binary(min_size=5, max_size=5).map(bytes))
CHUNKS = st.lists(
    st.builds(chunk, st.sampled_from(ODD_SIZES), BODIES, st.sampled_from([b"\r\n"] * 9 + [b"x"])),
    max_size=8,
)
ENDS = st.sampled_from([b"0\r\n\r\n"] * 4 + [b"", b"0\r\nA: b\r\n\r\n", b"00\r\n\r\n", b"0\r\nx"])


@settings(max_examples=400, deadline=None)
@given(CHUNKS, ENDS, st.data())
def test_any_body_in_any_reads_is_what_the_parser_makes_of_it(
    chunks: list[bytes], end: bytes, data: st.DataObject
) -> None:
    """Valid or not, while the reader looks at any time: bytes, end and fault are those."""
    wire = b"".join(chunks) + end
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=6)))
    edges = [0, *cuts, len(wire)]
    reads = [wire[a:b] for a, b in itertools.pairwise(edges) if a < b]
    looks = data.draw(st.lists(st.booleans(), min_size=len(reads), max_size=len(reads)))

    async def compare() -> None:
        expected = receive(make(ResponseHandler), reads, looks)
        assert receive(make(UpstreamProtocol), reads, looks) == expected

    asyncio.run(compare())


async def test_rule_8_a_body_that_ends_behind_a_pause_ends() -> None:
    """Of ``proxy.upstream.connection``: nothing waits in the parser for a read that never comes."""
    wire = chunk("", b"x", b"\r\n") * 8 + b"0\r\n\r\n"
    reads = [wire[:13], wire[13:42], wire[42:]]  # its reader has enough where the second one ends
    assert receive(make(UpstreamProtocol), reads, [False] * 3) == (b"x" * 8, True, "")


@pytest.mark.parametrize(
    ("reads", "splits"),
    [
        # Rule 1.
        ([b"3\r\nabc\r\n2\r\nde\r\n"], [(0, b"abcde", 15)]),
        ([b"3;x\r\nabc\r\n3\r\nabc\r\n"], [(0, b"", 0)]),
        ([b"1\r\na\r\n0\r\n\r\n"], [(0, b"a", 6)]),
        ([b"1\r\na\r\n1\r\nbXX"], [(0, b"a", 6)]),
        ([b"5\r\nhelloXX"], [(0, b"", 0)]),
        # Rule 2: the rest of a chunk is known, a size that is cut is not.
        ([b"3\r\na", b"bc\r\n1\r\nd\r\n"], [(0, b"", 0), (4, b"d", 10)]),
        ([b"3\r\nabc", b"\r", b"\n1\r\nd\r\n"], [(0, b"", 0), (1, b"", 1), (1, b"d", 7)]),
        ([b"1", b"\r\na\r\n", b"1\r\na\r\n"], [(0, b"", 0), (5, b"", 5), (6, b"", 6)]),
    ],
)
def test_what_is_taken_is_beyond_doubt(
    reads: list[bytes], splits: list[tuple[int, bytes, int]]
) -> None:
    """By the rules of the module."""
    chunks = WholeChunks()
    assert [chunks.split(read) for read in reads] == splits


EVENTS = st.builds(
    lambda text, end: b"data: " + text + end,
    st.binary(max_size=12),
    st.sampled_from([b"\n\n"] * 8 + [b"\n", b"\r\n\r\n", b"\n\n\n", b"\n\ndata: x\n\n", b""]),
)
ROWS = st.lists(
    st.builds(
        chunk,
        st.sampled_from([""] * 12 + ["05", "00000000A", "8;ext", "z", "0", "+8", "1_0"]),
        EVENTS,
        st.sampled_from([b"\r\n"] * 12 + [b"\n\n", b"xx"]),
    ),
    max_size=12,
)


@settings(max_examples=500, deadline=None)
@given(ROWS, st.sampled_from([b"0\r\n\r\n", b"", b"0\r\nA: b\r\n\r\n"]), st.data())
def test_rule_3_a_row_is_what_its_chunks_are(
    chunks: list[bytes], end: bytes, data: st.DataObject
) -> None:
    """All at once or one by one, wherever the reads are cut."""
    wire = b"".join(chunks) + end
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=3)))
    reads = [wire[a:b] for a, b in itertools.pairwise([0, *cuts, len(wire)]) if a < b]
    in_rows, one_by_one = WholeChunks(), WholeChunks()
    one_by_one._has_rows = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_chunks, "_ROW_BYTES", 0)
        patch.setattr(whole_chunks, "_MAX_KNOWN_SIZES", 3)
        patch.setattr(whole_chunks, "_known_sizes", {})
        for read in reads:
            assert in_rows.split(read) == one_by_one.split(read)
        assert len(whole_chunks._known_sizes) <= 3


def test_rule_3_a_stream_is_taken_in_rows() -> None:
    """Where all chunks are of that form; once there was none, nothing more is looked for."""
    chunks = WholeChunks()
    event = b"data: " + b"x" * 40 + b"\n\n"
    row = chunk("", event, b"\r\n") * 40
    assert chunks._take_row(row, 0) == ([event[:-1], b"\n"] * 40, len(row))
    assert chunks._has_rows
    assert chunks.split(chunk("", b"two\nlines\n\n", b"\r\n") * 100)[1]
    assert not chunks._has_rows
