"""What is made of the bytes of an answer, however they are cut."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.upstream.answer_parser import MAX_INTERIM_ANSWERS, AnswerParser
from proxy.upstream.errors import UpstreamError
from proxy.upstream.response import UpstreamBroken
from tests.proxy.upstream.fed import FedConnection, chunk

if TYPE_CHECKING:
    from collections.abc import Iterable

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
HEADS = [
    CHUNKED,
    OK + b"Content-Length: 5\r\n\r\n",
    OK + b"Content-Length: 0\r\n\r\n",
    OK + b"\r\n",
    OK + b"Connection: close\r\nContent-Length: 5\r\n\r\n",
    OK + b"Empty:\r\nFolded: a\r\n b\r\nSpaced: \t c \t\r\n\r\n",
    OK + b"Transfer-Encoding: chunked, gzip\r\n\r\n",
    OK + b"Transfer-Encoding: gzip\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 099 \xe9\xff odd\nContent-Length: 5\n\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    EARLY,
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 199 Odd\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    OK + b"Content-Length: x\r\n\r\n",
    OK + b"A: " + b"x" * 80 + b"\r\n\r\n",
    b"HTTP/9\r\n\r\n",
]
BODIES = [
    *map(chunk, [b"hello", b"data: {}\n\n", b"x"]),
    b"5;ext=1\r\nhello\r\n",
    b"5 \r\nhello\r\n",
    b"5\r\nhelloXX",
    b"-1\r\n",
    b"FFFFFFFFFFFFFFFFF\r\n",
    b"0\r\n\r\n",
    b"0\r\nTrailer: x\r\n\r\n",
    b"0\r\nx",
    b"hello",
    b"he",
]
WIRES = st.builds(
    lambda blank, heads, bodies, rest: b"".join([blank, *heads, *bodies, *rest]),
    st.sampled_from([b"", b"", b"\r\n\r\n"]),
    st.lists(st.sampled_from(HEADS), min_size=1, max_size=2),
    st.lists(st.sampled_from(BODIES), max_size=4),
    st.lists(st.sampled_from([*HEADS, *BODIES]), max_size=1),
)


async def hear(reads: Iterable[bytes], *, head_only: bool) -> tuple[object, ...]:
    """What comes of an answer that comes in these reads, after which the upstream closes."""
    fed = FedConnection(head_only=head_only, max_header_bytes=64)
    fed.deliver(*reads)
    is_kept = not fed.is_closing()
    fed.connection.connection_lost(None)
    try:
        answer = await fed.answer()
    except UpstreamError as error:
        return type(error), str(error)
    body, broken = b"", ""
    try:
        while data := await answer.read():
            body += data
    except UpstreamBroken as error:
        broken = str(error)
    keeps = is_kept and fed.connection._keeps
    return answer.status, answer.reason, tuple(answer.headers), body, broken, keeps


@given(WIRES, st.booleans(), st.lists(st.integers(0, 500), max_size=6))
@example(HEADS[1] + b"0\r\n\r\n" + HEADS[1], False, [])
def test_whatever_comes_in_whatever_reads_is_what_comes_byte_by_byte(
    wire: bytes, head_only: bool, cuts: list[int]
) -> None:
    """Heads, bodies, faults, and whether the connection is of use.

    The example: a second answer, which nobody asked for and whose body breaks in its first read.
    """
    edges = [0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]
    reads = [wire[a:b] for a, b in itertools.pairwise(edges) if a < b]

    async def compare() -> None:
        bytewise = [wire[place : place + 1] for place in range(len(wire))]
        expected = await hear(bytewise, head_only=head_only)
        assert await hear(reads, head_only=head_only) == expected

    asyncio.run(compare())


def parse(*reads: bytes, head_only: bool = False) -> tuple[AnswerParser, bytes]:
    parser = AnswerParser(64, head_only=head_only)
    return parser, b"".join(map(parser.feed, reads))


def test_what_came_before_a_fault_counts() -> None:
    """Head, body and fault in one read."""
    parser, body = parse(CHUNKED + chunk(b"hello") + b"no size\r\n")
    assert parser.head is not None
    assert (parser.head.status, body, parser.is_over) == (200, b"hello", False)
    assert parser.fault is not None


def test_interim_answers_are_passed_over_with_what_is_in_them() -> None:
    """So many and no more; a body of one is not the answer's."""
    interim = b"HTTP/1.1 199 Odd\r\nX: y\r\nContent-Length: 5\r\n\r\nhello"
    counted = OK + b"Content-Length: 2\r\n\r\nok"
    parser, body = parse(interim * MAX_INTERIM_ANSWERS + counted)
    assert parser.head is not None
    assert (parser.head.headers, body) == (((b"Content-Length", b"2"),), b"ok")
    assert parser.keeps_connection
    parser, _ = parse(EARLY * (MAX_INTERIM_ANSWERS + 1))
    assert str(parser.fault) == "too many interim answers"


@pytest.mark.parametrize(
    "head",
    [
        OK + b"A: %b\r\n\r\n" % (b"x" * 64),
        b"HTTP/1.1 200 %b\r\n\r\n" % (b"x" * 65),
        OK + b"A: x\r\n" * 257,
        OK + b"A: %b\r\n" % (b"x" * 50) * 5 + b"\r\n",
        b"\r\n" * 200,
    ],
    ids=["field", "reason", "number", "all", "blank lines"],
)
def test_a_head_is_bounded(head: bytes) -> None:
    """Whether it comes whole or is never finished."""
    assert parse(head)[0].fault is not None
    parser = AnswerParser(64, head_only=False)
    for place in range(len(head)):
        if parser.fault is None:
            parser.feed(head[place : place + 1])
    assert parser.fault is not None


@pytest.mark.parametrize("endless", [b"1;", b"1\r\na\r\n0\r\nTrailer: "])
def test_bytes_outside_the_body_are_bounded(endless: bytes) -> None:
    """An extension of a chunk, and a trailer, that never end."""
    parser, _ = parse(CHUNKED + endless, *[b"x" * 50] * 5)
    assert parser.fault is None
    parser.feed(b"x" * 50)
    assert str(parser.fault) == "too much that is not in its body"


@pytest.mark.parametrize("codings", [b"chunked, gzip", b"xchunked", b"chunked;q=1"])
def test_chunks_are_the_last_coding(codings: bytes) -> None:
    """Or nobody can tell which bytes are the body."""
    parser, _ = parse(OK + b"Transfer-Encoding: %b\r\n\r\nhello" % codings)
    assert parser.head is None
    assert str(parser.fault) == "chunks are not its last transfer coding"


@pytest.mark.parametrize(
    ("answer", "head_only"),
    [
        (OK + b"Content-Length: 2\r\n\r\nok", False),
        (CHUNKED + chunk(b"ok") + b"0\r\n\r\n", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", False),
        (OK + b"Content-Length: 9\r\n\r\n", True),
    ],
)
@pytest.mark.parametrize("surplus", [OK + b"\r\n", b"x", b"0"])
def test_surplus_ends_the_connection_and_not_the_answer(
    answer: bytes, head_only: bool, surplus: bytes
) -> None:
    """Whatever it looks like."""
    parser, body = parse(answer, head_only=head_only)
    assert (parser.is_over, parser.keeps_connection, parser.fault) == (True, True, None)
    parser, same = parse(answer + surplus, head_only=head_only)
    assert (parser.is_over, parser.keeps_connection, parser.fault) == (True, False, None)
    assert same == body


def test_a_closed_parser_is_freed_at_once() -> None:
    """It and llhttp know each other, which would be left to the garbage collector."""
    parser, _ = parse(OK + b"Content-Length: 0\r\n\r\n")
    known = weakref.ref(parser)
    parser.close()
    del parser
    assert known() is None
