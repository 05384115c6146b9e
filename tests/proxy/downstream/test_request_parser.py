"""Requests out of bytes: cut anywhere, valid ones first, trailers apart, faults without quotes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.downstream.request_faults import BadRequest
from proxy.downstream.request_parser import (
    MAX_EARLY_BYTES,
    MAX_PIECE_BYTES,
    MAX_WAITING_REQUESTS,
    Request,
    RequestParser,
)
from proxy.errors import GatewayError
from proxy.request_body import READ_AHEAD_PIECES


@dataclass
class Parsing:
    """A parser, what it gave, and what it told."""

    requests: list[Request] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parser = RequestParser(
            max_header_bytes=4096,
            body_idle_seconds=0,
            on_room=lambda: self.feed(b""),
            on_broken_body=self.broken.append,
        )

    def feed(self, data: bytes) -> None:
        """Feed a read, and take all that it gives."""
        self.parser.feed(data)
        while self.parser.waiting:
            request = self.parser.waiting.pop(0)
            assert not self.faults
            if isinstance(request, BadRequest):
                self.faults.append((request.status, request.message))
            else:
                self.requests.append(request)
            if not self.parser.waiting:
                self.parser.feed(b"")

    def feed_cut(self, data: bytes, cuts: list[int]) -> None:
        """Feed in pieces, as reads would bring them."""
        edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
        for begin, end in itertools.pairwise(edges):
            self.feed(data[begin:end])

    def results(self) -> list[tuple[str, tuple[tuple[bytes, bytes], ...], bytes]]:
        """Target, fields and body of each request."""
        results = []
        for request in self.requests:
            assert request.body.is_whole
            results.append((request.target, tuple(request.head), request.body.pop()))
        return results


H = b"Host: c\r\n"
STREAM = b"".join(
    (
        b"GET /1 HTTP/1.1\r\n" + H + b"\r\n",
        b"\r\n\r\nPOST /2 HTTP/1.1\r\n" + H + b"Content-Length: 10\r\n\r\n\r\n\r\nab\r\n\r\n",
        b"POST /3 HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n"
        b"4\r\n\r\n\r\n\r\n2;a=b\r\nhi\r\n0\r\n\r\n",
        b"POST /4 HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n"
        b"2\r\nhi\r\n0\r\nX-T: 1\r\nHost: evil\r\n\r\n",
        b"POST /5 HTTP/1.1\r\n" + H + b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
        b"Content-Length: 3\r\n\r\nabc",
        b"GET /6 HTTP/1.1\r\n" + H + b"A: b\r\n\r\n",
    )
)
HOST = (b"Host", b"c")
CHUNKED = (b"Transfer-Encoding", b"chunked")
RESULTS = [
    ("/1", (HOST,), b""),
    ("/2", (HOST, (b"Content-Length", b"10")), b"\r\n\r\nab\r\n\r\n"),
    ("/3", (HOST, CHUNKED), b"\r\n\r\nhi"),
    ("/4", (HOST, CHUNKED), b"hi"),
    (
        "/5",
        (HOST, (b"Connection", b"Upgrade"), (b"Upgrade", b"h2c"), (b"Content-Length", b"3")),
        b"abc",
    ),
    ("/6", (HOST, (b"A", b"b")), b""),
]
READ_BYTES = 256 * 1024
"""What asyncio reads at once."""

CUTS = st.lists(st.integers(0, 10_000), max_size=12)


@given(cuts=CUTS)
def test_requests_do_not_depend_on_how_their_bytes_are_cut(
    cuts: list[int],
) -> None:
    """And the trailers of the fourth reach neither it nor the fifth."""
    parsing = Parsing()
    parsing.feed_cut(STREAM, cuts)
    assert parsing.results() == RESULTS
    assert not parsing.faults
    assert not parsing.broken


def test_requests_that_come_byte_by_byte_are_the_same() -> None:
    """The finest cut of all, in which a blank line is never whole; no head seems to go on."""
    parsing = Parsing()
    parsing.feed_cut(STREAM, list(range(len(STREAM))))
    assert parsing.results() == RESULTS
    assert not parsing.parser.head_begun


@given(cuts=CUTS, fault=st.sampled_from([b"garbage\r\n\r\n", b"\x16\x03\x01", b"GET / HTTP/3\r\n"]))
def test_what_is_valid_comes_before_the_fault(cuts: list[int], fault: bytes) -> None:
    """Even where one read brings all of it; and after the fault comes nothing."""
    parsing = Parsing()
    parsing.feed_cut(STREAM + fault + STREAM, cuts)
    assert parsing.results() == RESULTS
    assert len(parsing.faults) == 1
    parsing.feed(STREAM)
    assert len(parsing.requests) == len(RESULTS)


@given(data=st.binary(max_size=300), cuts=CUTS, prefix=st.integers(0, len(STREAM)))
def test_no_bytes_make_it_raise(data: bytes, cuts: list[int], prefix: int) -> None:
    """A fault is a value, and there is at most one of each kind."""
    parsing = Parsing()
    parsing.feed_cut(STREAM[:prefix] + data, cuts)
    assert len(parsing.faults) + len(parsing.broken) <= 1


CHUNKED_HEAD = b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n"


async def test_a_body_that_breaks_fails_its_reader() -> None:
    """What came before it can be told from an end."""
    parsing = Parsing()
    parsing.feed(CHUNKED_HEAD)
    [request] = parsing.requests
    parsing.feed(b"2\r\nhi\r\nzz\r\n")
    with pytest.raises(GatewayError, match="Invalid character in chunk size"):
        await request.body.read()
    assert parsing.broken == ["Invalid character in chunk size."]
    assert parsing.faults == []


def test_a_body_that_breaks_in_the_read_of_its_head_is_no_request() -> None:
    """It is a fault instead, after the requests before it."""
    parsing = Parsing()
    parsing.feed(STREAM + CHUNKED_HEAD + b"zz\r\n")
    assert parsing.results() == RESULTS
    assert parsing.faults == [(400, "Invalid character in chunk size.")]
    assert parsing.broken == []


@pytest.mark.parametrize(
    "head",
    [b"POST / HTTP/1.1\r\nUpgrade: websocket\r\n", b"CONNECT h:1 HTTP/1.1\r\n"],
)
def test_nothing_is_parsed_after_a_change_of_protocol(head: bytes) -> None:
    """It is refused; what follows is no HTTP."""
    parsing = Parsing()
    parsing.feed(head + H + b"Connection: upgrade\r\n\r\n" + STREAM)
    parsing.feed(STREAM)
    assert len(parsing.faults) == 1
    assert parsing.requests == []


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_what_follows_the_handshake_of_a_websocket_is_kept_as_it_is(step: int) -> None:
    """Whoever answers the handshake takes it; until then not much more is wanted."""
    parsing = Parsing()
    head = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n" + H + b"\r\n"
    data = head + STREAM + STREAM
    for at in range(0, len(data), step):
        parsing.feed(data[at : at + step])
    [request] = parsing.requests
    assert (request.body.is_whole, request.keeps_alive) == (True, False)
    was_full = parsing.parser.is_full
    parsing.feed(bytes(MAX_EARLY_BYTES))
    assert (was_full, parsing.parser.is_full) == (False, True)  # so its end is noticed at first
    assert request.take_rest is not None
    assert request.take_rest() == STREAM + STREAM + bytes(MAX_EARLY_BYTES)
    assert parsing.faults == []


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (b"", b""),
        (b"Content-Length: 0\r\n", b""),
        (b"content-LENGTH: 2 \r\n", b"hi"),
        (b"Transfer-Encoding: Chunked\r\n", b"2\r\nhi\r\n0\r\nX-T: 1\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("step", [1, 1000])
def test_a_change_that_is_not_made_changes_no_framing(
    framing: bytes, body: bytes, step: int
) -> None:
    """The body is the request's, and what follows are the next ones."""
    parsing = Parsing()
    head = b"PUT / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\n" + H + framing + b"\r\n"
    data = head + body + STREAM
    parsing.feed_cut(data, list(range(0, len(data), step)))
    first, *others = parsing.results()
    assert first[2] == (b"hi" if body else b"")
    assert others == RESULTS


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET /", b"a"),
        (b"GET / HTTP/1.1\r\n", b"a"),
        (b"GET / HTTP/1.1\r\nA:", b" "),
        (b"GET / HTTP/1.1\r\nA: ", b"a"),
        (b"GET / HTTP/1.1\r\n", b"A: %b\r\n" % (b"a" * 1000)),
        (CHUNKED_HEAD, b"0"),
        (CHUNKED_HEAD + b"2;", b"a"),
        (CHUNKED_HEAD + b"0\r\n", b"a"),
        (CHUNKED_HEAD + b"0\r\nA: ", b"a"),
        (CHUNKED_HEAD + b"0\r\n", b"A: b\r\n"),
        (CHUNKED_HEAD + b"1\r\nx\r\n", b"1;%b\r\nx\r\n" % (b"a" * 1000)),
    ],
)
@pytest.mark.parametrize("size", [100, 10_000])
def test_bytes_that_frame_are_bounded(begin: bytes, more: bytes, size: int) -> None:
    """Whatever does not end, in small reads or in large ones."""
    parsing = Parsing()
    parsing.feed(begin)
    read = more * (size // len(more) + 1)
    total = 0
    while not (parsing.faults or parsing.broken):
        parsing.feed(read)
        total += len(read)
        assert total <= 4 * 4096 + MAX_PIECE_BYTES + len(read)


@pytest.mark.parametrize("chunk", [b"1;a=b\r\nx\r\n", b"0000001\r\nx\r\n"])
async def test_many_chunks_alone_are_not_too_much_framing(chunk: bytes) -> None:
    """What each of them needs does not add up."""
    parsing = Parsing()
    parsing.feed(CHUNKED_HEAD)
    [request] = parsing.requests
    read = b""
    for _ in range(100):
        parsing.feed(chunk * 300)
        read += await request.body.read()
    assert read == b"x" * 30_000


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"Content-Length: 1000000\r\n\r\n", b"x" * 1_000_000),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n"),
    ],
    ids=["counted", "tiny chunks"],
)
async def test_what_a_body_s_reader_does_not_want_yet_waits_unparsed(
    head: bytes, body: bytes
) -> None:
    """Little is parsed at a time, and the request after it once all was read (R2, R5)."""
    parsing = Parsing()
    wire = b"PUT / HTTP/1.1\r\n" + H + head + body + STREAM
    most = READ_AHEAD_PIECES + MAX_PIECE_BYTES if b"1\r\n" in body else READ_BYTES
    taken: list[int] = []
    while sum(taken) < body.count(b"x"):
        while wire and not parsing.parser.is_full:  # which a connection would not be read for
            parsing.feed(wire[:READ_BYTES])
            wire = wire[READ_BYTES:]
        taken.append(len(await parsing.requests[0].body.read()))
    assert max(taken) <= most
    parsing.feed(wire)
    assert parsing.requests[0].body.at_eof()
    assert len(parsing.requests) == 1 + len(RESULTS)


def test_requests_past_the_queue_wait_unparsed() -> None:
    """A read full of small requests does not become thousands of them (R5)."""
    request = b"GET / HTTP/1.1\r\n" + H + b"\r\n"
    parsing = Parsing()
    parsing.parser.feed(request * 10_000)
    waiting = len(parsing.parser.waiting)
    assert MAX_WAITING_REQUESTS <= waiting <= MAX_WAITING_REQUESTS + MAX_PIECE_BYTES / len(request)
    parsing.parser.feed(request)
    assert len(parsing.parser.waiting) == waiting
    parsing.feed(b"")
    assert len(parsing.requests) == 10_001


CHUNK_LINES = {
    b"2\r\n": True,
    b"002;a=%b\r\n" % (b"b" * 500): True,
    b"0" * 63 + b"2\r\n": True,
    b"0" * 9000 + b"2\r\n": False,
    b"2\n": False,
    b"2 \r\n": False,
    b"\r\n": False,
    b";a\r\n": False,
    b"2;\r\n": False,
    b"1\r\n": False,
    b"3\r\n": False,
    b"1\r\nx\r\n1\r\n": False,
}
"""Size line for two bytes: whether it is valid."""


@pytest.mark.parametrize(("size_line", "is_valid"), CHUNK_LINES.items())
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_chunked_body_ends_where_the_parser_says(
    size_line: bytes, is_valid: bool, step: int
) -> None:
    """Where the next request begins, or there is a fault."""
    parsing = Parsing()
    data = CHUNKED_HEAD + size_line + b"hi\r\n0;x\r\nX-Trailer: %b\r\n\r\n" % (b"t" * 300) + STREAM
    for begin in range(0, len(data), step):
        parsing.feed(data[begin : begin + step])
    if is_valid:
        assert parsing.results() == [("/", (HOST, CHUNKED), b"hi"), *RESULTS]
    else:
        assert len(parsing.broken) + len(parsing.faults) == 1
        assert len(parsing.requests) <= 1
