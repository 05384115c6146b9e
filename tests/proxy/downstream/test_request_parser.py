"""Requests out of bytes: cut anywhere, valid ones first, trailers apart, faults without quotes."""

from __future__ import annotations

import asyncio
import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import MAX_MSG_QUEUE_SIZE, RequestPayloadError
from hypothesis import given
from hypothesis import strategies as st

from proxy.downstream.request_parser import MAX_PIECE_CHUNKS, RequestParser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aiohttp.http_parser import HttpParser
    from aiohttp.streams import StreamReader


class Protocol(BaseProtocol):
    """A connection that hands back to the test what it wants."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.wants_more: Callable[[], None] = lambda: None

    def data_received(self, data: bytes) -> None:
        assert data == b""
        self.wants_more()


@dataclass
class Parsing:
    """A parser, what it gave, and what it told."""

    loop: asyncio.AbstractEventLoop
    requests: list[tuple[RawRequestMessage, StreamReader]] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.protocol = Protocol(self.loop)
        self.parser = RequestParser(
            self.protocol,
            self.loop,
            max_header_bytes=4096,
            max_fields=20,
            read_buffer_bytes=1024,
            on_broken_body=self.broken.append,
        )
        self.protocol._parser = cast("HttpParser[RawRequestMessage]", self.parser)

    def feed(self, data: bytes) -> None:
        messages, upgraded, tail = self.parser.feed_data(data)
        assert (upgraded, tail) == (False, b"")
        for message, body in messages:
            if isinstance(message, RawRequestMessage):
                assert not self.faults
                self.requests.append((message, body))
            else:
                self.faults.append((message.status, message.message))

    def feed_cut(self, data: bytes, cuts: list[int]) -> None:
        """Feed in pieces, as reads would bring them, taking each request at once."""
        ends = [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
        begin = 0
        for end in ends:
            before = len(self.requests)
            self.feed(data[begin:end])
            for _ in self.requests[before:]:
                self.parser.message_consumed()
            begin = end
        before = -1
        while len(self.requests) != before:
            before = len(self.requests)
            self.feed(b"")
            for _ in self.requests[before:]:
                self.parser.message_consumed()

    def results(self) -> list[tuple[str, tuple[tuple[bytes, bytes], ...], bytes]]:
        """Target, fields and body of each request."""
        results = []
        for message, body in self.requests:
            assert body.is_eof()
            results.append((message.path, message.raw_headers, body.read_nowait()))
        return results


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that readers refer to; nothing runs on it."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


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
CUTS = st.lists(st.integers(0, 10_000), max_size=12)


@given(cuts=CUTS)
def test_rule_1_requests_do_not_depend_on_how_their_bytes_are_cut(
    loop: asyncio.AbstractEventLoop, cuts: list[int]
) -> None:
    """Rule 2 as well: the trailers of the fourth reach neither it nor the fifth."""
    parsing = Parsing(loop)
    parsing.feed_cut(STREAM, cuts)
    assert parsing.results() == RESULTS
    assert not parsing.faults
    assert not parsing.broken


def test_rule_1_each_head_and_each_body_in_a_read_of_its_own(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """As clients write them: the long way takes over where the short one has taken a head."""
    head_or_body = rb"(?:\r\n)*[A-Z]+ /\d HTTP/1.1.*?\r\n\r\n|.+?(?=[A-Z]+ /\d |$)"
    parts = re.findall(head_or_body, STREAM, re.DOTALL)
    assert b"".join(parts) == STREAM
    assert len(parts) == 2 * len(RESULTS) - 2  # all but two have a body
    cuts = list(itertools.accumulate(map(len, parts)))
    for chosen in (cuts, cuts[::2], cuts[1::2]):
        parsing = Parsing(loop)
        parsing.feed_cut(STREAM, chosen)
        assert parsing.results() == RESULTS


def test_rule_1_byte_by_byte(loop: asyncio.AbstractEventLoop) -> None:
    """The finest cut of all, in which a blank line is never whole; no head seems to go on."""
    parsing = Parsing(loop)
    parsing.feed_cut(STREAM, list(range(len(STREAM))))
    assert parsing.results() == RESULTS
    assert not parsing.parser.head_begun


@given(cuts=CUTS, fault=st.sampled_from([b"garbage\r\n\r\n", b"\x16\x03\x01", b"GET / HTTP/3\r\n"]))
def test_rule_1_what_is_valid_comes_before_the_fault(
    loop: asyncio.AbstractEventLoop, cuts: list[int], fault: bytes
) -> None:
    """Even where one read brings all of it; and after the fault comes nothing (rule 4)."""
    parsing = Parsing(loop)
    parsing.feed_cut(STREAM + fault + STREAM, cuts)
    assert parsing.results() == RESULTS
    assert len(parsing.faults) == 1
    parsing.feed(STREAM)
    assert len(parsing.requests) == len(RESULTS)


@given(data=st.binary(max_size=300), cuts=CUTS, prefix=st.integers(0, len(STREAM)))
def test_no_bytes_make_it_raise(
    loop: asyncio.AbstractEventLoop, data: bytes, cuts: list[int], prefix: int
) -> None:
    """A fault is a value, and there is at most one of each kind."""
    parsing = Parsing(loop)
    parsing.feed_cut(STREAM[:prefix] + data, cuts)
    assert len(parsing.faults) + len(parsing.broken) <= 1


WHOLE = [
    b"GET /1 HTTP/1.1\r\n" + H + b"\r\n",
    b"POST /2 HTTP/1.1\r\n" + H + b"Content-Length: 6\r\n\r\n\r\n\r\nab",
    b"POST /3 HTTP/1.1\r\n" + H + b"Content-Length: 0\r\n\r\n",
    b"POST /4 HTTP/1.1\r\n" + H + b"Content-Length: 3000\r\n\r\n" + b"x" * 3000,
    b"POST /5 HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nA: b\r\n\r\n",
    b"\r\nGET /6 HTTP/1.1\r\n" + H + b"\r\n",
    b"\r\n",
    b"GET /7 HTTP/1.1\r\n" + H + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"POST /8 HTTP/1.1\r\n" + H + b"Content-Length: x\r\n\r\nabc",
    b"POST /9 HTTP/1.1\r\n\r\n",
    b"GET /10 HTTP/1.1\r\n" + H + (b"A: %b\r\n" % (b"x" * 4000)) * 5 + b"\r\n",
    b"GET /11 HTTP/1.1\r\n" + H + b"A: b\r\n" * 30 + b"\r\n",
    b"garbage",
]


@given(st.lists(st.sampled_from(WHOLE), max_size=6), st.booleans(), st.lists(st.booleans()))
def test_a_request_that_comes_in_one_read_is_what_the_long_way_makes_of_it(
    loop: asyncio.AbstractEventLoop, wire: list[bytes], together: bool, joins: list[bool]
) -> None:
    """The short way beside the long one: requests, bodies, faults, and what waits."""
    reads = [b"".join(wire)] if together else list(wire)
    for place, joined in zip(range(1, len(reads)), joins, strict=False):
        if joined:  # a read ends within a request
            reads[place - 1] += reads[place][:20]
            reads[place] = reads[place][20:]
    short, long = Parsing(loop), Parsing(loop)
    for read in reads:
        short.feed_cut(read, [])
        long.parser._is_between = False  # as far as the short way knows
        long.feed_cut(read, [])
    assert short.results() == long.results()
    assert short.faults == long.faults
    assert short.parser.head_begun == long.parser.head_begun


CHUNKED_HEAD = b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n"


async def test_rule_3_a_body_that_breaks_fails_its_reader() -> None:
    """What came before it can be told from an end."""
    parsing = Parsing(asyncio.get_running_loop())
    parsing.feed(CHUNKED_HEAD)
    [(_, body)] = parsing.requests
    parsing.feed(b"2\r\nhi\r\nzz\r\n")
    with pytest.raises(RequestPayloadError):
        await body.readany()
    assert parsing.broken == ["Invalid character in chunk size."]
    assert parsing.faults == []


def test_rule_3_a_body_that_breaks_in_the_read_of_its_head_is_no_request(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """It is a fault instead, after the requests before it."""
    parsing = Parsing(loop)
    parsing.feed(STREAM + CHUNKED_HEAD + b"zz\r\n")
    assert parsing.results() == RESULTS
    assert parsing.faults == [(400, "Invalid character in chunk size.")]
    assert parsing.broken == []


@pytest.mark.parametrize(
    "head", [b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n", b"CONNECT h:1 HTTP/1.1\r\n"]
)
def test_rule_4_nothing_is_parsed_after_a_change_of_protocol(
    loop: asyncio.AbstractEventLoop, head: bytes
) -> None:
    """The request is handed out, to be refused; what follows is no HTTP."""
    parsing = Parsing(loop)
    parsing.feed(head + H + b"Connection: upgrade\r\n\r\n" + STREAM)
    parsing.feed(STREAM)
    assert len(parsing.requests) == 1
    assert parsing.faults == []


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
    """And the request after it arrives once it was read (R5)."""
    parsing = Parsing(asyncio.get_running_loop())
    parsing.protocol.wants_more = lambda: parsing.feed(b"")
    parsing.feed(b"PUT / HTTP/1.1\r\n" + H + head + body + STREAM)
    [(_, reader)] = parsing.requests
    assert reader.total_bytes < 200_000
    read = 0
    while data := await reader.readany():
        read += len(data)
    assert read == body.count(b"x")
    assert len(parsing.requests) == 1 + len(RESULTS)


@pytest.mark.parametrize("chunk", [b"1\r\nx\r\n", b"1;a=b\r\nx\r\n", b"0001\r\nx\r\n"])
async def test_of_tiny_chunks_few_are_taken_at_a_time(chunk: bytes) -> None:
    """Each costs as much as a kilobyte: whoever sends nothing else delays nobody by it (R2)."""
    parsing = Parsing(asyncio.get_running_loop())
    parsing.protocol.wants_more = lambda: parsing.feed(b"")
    head = b"PUT / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n"
    parsing.feed(head + chunk * 20_000 + b"0\r\n\r\n")
    [(_, reader)] = parsing.requests
    taken = [0, reader.total_bytes]
    while await reader.readany():
        taken.append(reader.total_bytes)
    assert taken[-1] == 20_000
    assert max(now - before for before, now in itertools.pairwise(taken)) <= 2 * MAX_PIECE_CHUNKS


def test_requests_past_the_queue_wait_unparsed(loop: asyncio.AbstractEventLoop) -> None:
    """A read full of small requests does not become thousands of them (R5)."""
    parsing = Parsing(loop)
    parsing.feed((b"GET / HTTP/1.1\r\n" + H + b"\r\n") * 100)
    assert len(parsing.requests) == MAX_MSG_QUEUE_SIZE
    for _ in range(10):
        parsing.parser.message_consumed()
    parsing.feed(b"")
    assert len(parsing.requests) == MAX_MSG_QUEUE_SIZE + 10


def test_requests_past_the_queue_wait_in_a_read_of_their_own_too(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Until one is handled."""
    parsing = Parsing(loop)
    for _ in range(MAX_MSG_QUEUE_SIZE + 1):
        parsing.feed(WHOLE[1])
    assert len(parsing.requests) == MAX_MSG_QUEUE_SIZE
    parsing.parser.message_consumed()
    parsing.feed(b"")
    assert len(parsing.requests) == MAX_MSG_QUEUE_SIZE + 1


CHUNK_LINES = {
    b"2\r\n": True,
    b"002;a=%b\r\n" % (b"b" * 500): True,
    b"0" * 63 + b"2\r\n": True,
    b"0" * 64 + b"2\r\n": False,
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
def test_rule_2_a_chunked_body_ends_where_the_parser_says(
    loop: asyncio.AbstractEventLoop, size_line: bytes, is_valid: bool, step: int
) -> None:
    """What tells where to cut never disagrees: either both know the end, or there is a fault."""
    parsing = Parsing(loop)
    data = CHUNKED_HEAD + size_line + b"hi\r\n0;x\r\nX-Trailer: %b\r\n\r\n" % (b"t" * 300) + STREAM
    for begin in range(0, len(data), step):
        parsing.feed(data[begin : begin + step])
    if is_valid:
        assert parsing.results() == [("/", (HOST, CHUNKED), b"hi"), *RESULTS]
    else:
        assert len(parsing.broken) + len(parsing.faults) == 1
        assert len(parsing.requests) <= 1


@pytest.mark.parametrize(
    "data", [b"\r\n" * 100_000, CHUNKED_HEAD + b"30d40\r\n" + b"\r\n" * 100_000]
)
def test_rule_1_blank_lines_alone_are_no_work(
    loop: asyncio.AbstractEventLoop, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither before a request nor in a chunk does each make a piece."""
    parsing = Parsing(loop)
    pieces: list[bytes] = []
    parse_piece = parsing.parser._parse_piece

    def note(piece: bytes, parsed: list[Any]) -> None:
        pieces.append(piece)
        parse_piece(piece, parsed)

    monkeypatch.setattr(parsing.parser, "_parse_piece", note)
    parsing.feed(data)
    assert len(pieces) <= 5
    assert data.startswith(b"".join(pieces))
