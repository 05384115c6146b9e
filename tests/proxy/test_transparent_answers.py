"""R1 for answers: the client gets what the upstream sent.

See ``docs/contract/promises.md#what-may-differ``.
"""

from __future__ import annotations

import asyncio

import pytest

from telemetry.observing.exchange import Outcome
from tests.proxy.harness import ANSWER, CHAT, relaying, request_bytes
from tests.proxy.raw_client import join_chunks, read_answer, send_raw, split_answer
from tests.proxy.side_by_side import (
    CHAT_TARGET,
    FIELDS,
    HOP_BY_HOP,
    TARGETS,
    TRAILED,
    assert_same_answer,
    compare,
    exchange_raw,
    plain,
    post,
    replies,
)


@TARGETS
@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS.keys())
async def test_an_answer_head_arrives_as_it_was_sent(target: bytes, fields: bytes) -> None:
    """Names, case, order, duplicates and bytes are kept; no Server, Date or Content-Type added."""
    compared = await compare(post(target), replies(plain(fields)))
    assert_same_answer(compared)


STATUSES = [
    b"200 ",
    b"200 OK",
    b"200 all  is   well",
    b"200 caf\xc3\xa9",
    b"200 caf\xe9",
    b"201 Created",
    b"299 Odd",
    b"301 Moved",
    b"400 Bad Request",
    b"401 Unauthorized",
    b"418 I'm a teapot",
    b"429 Too Many Requests",
    b"500 Internal Server Error",
    b"529 Site is overloaded",
    b"599 Odd",
    b"600 Odd",
    b"999 Odd",
]


@TARGETS
@pytest.mark.parametrize("status", STATUSES)
async def test_status_and_reason_are_relayed(target: bytes, status: bytes) -> None:
    """Odd, empty and non-ASCII reasons too; errors come with their own bodies."""
    assert_same_answer(await compare(post(target), replies(plain(status=status, body=b"{}"))))


@pytest.mark.parametrize("status", [b"099 Odd", b"000 Odd"])
async def test_a_status_keeps_its_three_digits(status: bytes) -> None:
    """RFC 9112 section 4 knows no fewer, whatever they mean."""
    async with relaying(replies(plain(status=status, body=b"{}"))) as (_, running):
        answer = await send_raw(running.address, request_bytes(CHAT))
    assert answer.startswith(b"HTTP/1.1 %b\r\n" % status)
    assert answer.endswith(b"\r\n\r\n{}")


async def test_a_missing_reason_is_an_empty_one() -> None:
    """RFC 9112 section 4: the space belongs to the line; its absence is not relayed."""
    raw = b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n{}"
    compared = await compare(post(), replies(raw))
    assert compared.proxied.status.rstrip() == compared.direct.status == b"200"


ANSWERS = {
    "counted": plain(),
    "of length 0": plain(body=b""),
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\n\r\n"
    b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
    "chunked, of nothing": b"HTTP/1.1 200 OK\r\ntransfer-ENCODING: chunked\r\n\r\n0\r\n\r\n",
    "204": b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n",
    "304": b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n',
    "304 with a length": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 12\r\n\r\n",
    "two cookies": plain(b"Set-Cookie: a=1\r\nset-cookie: b=2\r\nSet-Cookie: a=1\r\n"),
    "digests": plain(b"Content-MD5: x\r\nDigest: y\r\nRepr-Digest: z\r\n"),
    "without a content type": plain(body=b"abc"),
    "two content types": plain(b"Content-Type: a/b\r\nContent-Type: c/d\r\n"),
}


@TARGETS
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
async def test_an_answer_of_any_framing_arrives_whole(target: bytes, answer: bytes) -> None:
    """Same status, fields and body; counted stays counted, chunked stays chunked.

    See ``docs/contract/sources.md#s4-26`` and ``docs/contract/sources.md#n2``.
    """
    assert_same_answer(await compare(post(target), replies(answer)))


@TARGETS
@pytest.mark.parametrize("framing", [b"Transfer-Encoding: chunked", b"Content-Length: 5"])
async def test_a_204_that_tells_of_a_body_loses_that(target: bytes, framing: bytes) -> None:
    """RFC 9112 section 6.1, RFC 9110 section 8.6; the next answer is not taken for its body."""
    no_content = b"HTTP/1.1 204 No Content\r\n%b\r\nX-A: 1\r\n\r\n" % framing
    compared = await compare(post(target), replies(no_content))
    assert compared.proxied.answer == b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n"


@TARGETS
async def test_a_coding_that_frames_nothing_is_kept_below_our_chunks(target: bytes) -> None:
    """Such a body ends with its connection; here, with its last chunk."""
    coded = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello"
    async with relaying(replies(coded, closes=True)) as (_, running):
        _, fields, body = split_answer(await exchange_raw(running.address, post(target)))
    assert fields == [(b"Transfer-Encoding", b"gzip"), (b"Transfer-Encoding", b"chunked")]
    assert join_chunks(body) == (b"hello", True)


_CHUNKED_ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
EXCESSIVE = {
    "more than its length": (plain(), b"garbage"),
    "more than nothing": (plain(body=b""), b"garbage"),
    "more than its chunks": (_CHUNKED_ANSWER + b"0\r\n\r\n", b"garbage"),
    "more than 304": (b"HTTP/1.1 304 Not Modified\r\n\r\n", b"garbage"),
    "another answer": (plain(), plain(body=b"no")),
}


@TARGETS
@pytest.mark.parametrize("interim", [b"", b"HTTP/1.1 100 Continue\r\n\r\n"], ids=["", "interim"])
@pytest.mark.parametrize(("answer", "excess"), EXCESSIVE.values(), ids=EXCESSIVE.keys())
async def test_what_an_upstream_sends_past_its_answer_takes_nothing_from_it(
    target: bytes, interim: bytes, answer: bytes, excess: bytes
) -> None:
    """The answer is what its framing says, and its connection is not used again."""
    script = replies(interim + answer + excess)
    async with relaying(script) as (upstream, running):
        for _ in range(2):
            assert await exchange_raw(running.address, post(target)) == answer
        assert upstream.connections == 2


@TARGETS
async def test_an_answer_that_breaks_in_the_read_of_its_head_arrives_as_far_as_it_came(
    target: bytes,
) -> None:
    """Head and bytes first, then its end, which is no clean one."""
    script = replies(_CHUNKED_ANSWER + b"zz\r\n")
    async with relaying(script) as (_, running):
        assert await send_raw(running.address, post(target)) == _CHUNKED_ANSWER


def _coded(codings: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: %b\r\n\r\n6\r\nsecret\r\n0\r\n\r\n" % codings


INVALID_ANSWERS = {
    "a zero in a value": plain(b"Set-Cookie: secret\x00\r\n"),
    "a return in a value": plain(b"Set-Cookie: secret\r2\r\n"),
    "a space before the colon": plain(b"secret : 1\r\n"),
    "two lengths": plain(b"Content-Length: %d\r\n" % len(ANSWER)),
    "length and chunks": plain(b"Transfer-Encoding: chunked\r\n"),
    "chunks, then another coding": _coded(b"chunked, identity"),
    "chunks, then another field": _coded(b"chunked\r\nTransfer-Encoding: gzip"),
    "chunks, then nothing": _coded(b"chunked,"),
    "chunks and a parameter": _coded(b"chunked;a=secret"),
    "nearly chunks": _coded(b"xchunked"),
    "a field over the limit": plain(b"X: %b\r\n" % (b"secret" * 12_000)),
    "too many fields": plain(b"X: secret\r\n" * 300),
    "an odd length": b"HTTP/1.1 200 OK\r\nContent-Length: secret\r\n\r\n",
    "an upgrade that nobody asked for": (
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: secret\r\n\r\n"
    ),
    "no HTTP": b"secret\r\n\r\n",
}


@TARGETS
@pytest.mark.parametrize("answer", INVALID_ANSWERS.values(), ids=INVALID_ANSWERS.keys())
async def test_an_answer_that_is_no_valid_http_is_not_relayed_or_quoted(
    target: bytes, answer: bytes
) -> None:
    """Passing it on would be passing on an ambiguity: a 502 that says what is wrong."""
    async with relaying(replies(answer)) as (_, running):
        got = await send_raw(running.address, post(target))
    assert got.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert b'"code": "upstream_invalid_response"' in got
    assert b"secret" not in got
    if target is CHAT_TARGET:
        [exchange] = running.sink.exchanges
        assert exchange.outcome is Outcome.UPSTREAM_ERROR
        assert exchange.error_type == "invalid_response"
        assert "secret" not in (exchange.error_message or "")


LENIENT = {
    "line feeds alone": (
        b"HTTP/1.1 200 OK\nX-A: 1\nContent-Length: 2\n\n{}",
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 2\r\n\r\n{}",
    ),
    "a folded field": (
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\n 2\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX-A: 1 2\r\nContent-Length: 2\r\n\r\n{}",
    ),
    "white space around a value": (
        b"HTTP/1.1 200 OK\r\nX-A: \t 1 \t\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 2\r\n\r\n{}",
    ),
}


@pytest.mark.parametrize(("answer", "relayed"), LENIENT.values(), ids=LENIENT.keys())
async def test_what_a_lenient_reader_forgives_in_an_answer_is_relayed_in_good_form(
    answer: bytes, relayed: bytes
) -> None:
    """RFC 9112 sections 2.2 and 5.2: line ends, folds and outer white space are no content."""
    async with relaying(replies(answer)) as (_, running):
        assert await exchange_raw(running.address, post()) == relayed


@TARGETS
@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
async def test_an_answer_that_ends_with_its_connection_is_relayed_in_chunks(
    target: bytes, version: bytes
) -> None:
    """Framing describes the hop: ours can end a body and keep the connection."""
    raw = b"%b 200 OK\r\nX-A: 1\r\n\r\nabc" % version
    compared = await compare(post(target), replies(raw, closes=True))
    assert compared.direct.fields == [(b"X-A", b"1")]
    assert compared.proxied.fields == [(b"X-A", b"1"), (b"Transfer-Encoding", b"chunked")]
    assert compared.proxied.body == compared.direct.body == b"abc"


@TARGETS
async def test_hop_by_hop_fields_of_an_answer_stay_here(target: bytes) -> None:
    """As those of a request; an upstream that closes does not make us close."""
    head = b"Connection: close, x-named\r\nconnection: X-Other\r\nUpgrade: h2\r\n" + HOP_BY_HOP
    compared = await compare(post(target), replies(plain(head)))
    assert compared.proxied.fields == [
        (b"X-Kept", b"2"),
        (b"Content-Length", b"%d" % len(ANSWER)),
    ]
    assert compared.proxied.body == ANSWER


@TARGETS
async def test_a_client_of_http_1_0_gets_an_answer_that_it_can_read(target: bytes) -> None:
    """No chunks and no kept connection unless it asked; the upstream is asked in HTTP/1.1."""
    raw = b"POST %b HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}" % target
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    async with relaying(replies(answer), propagate=False) as (upstream, running):
        status, fields, body = split_answer(await send_raw(running.address, raw))
    host = b"127.0.0.1:%d" % upstream.address[1]
    assert status.endswith(b" 200 OK")
    assert fields == [(b"X-A", b"1"), (b"Connection", b"close")]
    assert body == b"abc"
    assert upstream.last.request_line == b"POST %b HTTP/1.1" % target
    assert upstream.last.fields == [(b"Host", host), (b"Content-Length", b"2")]


async def test_a_client_of_http_1_0_may_keep_its_connection_where_a_length_is_known() -> None:
    """Two requests go over one connection, and we say so."""
    raw = b"GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    async with relaying(replies(plain())) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        for _ in range(2):
            writer.write(raw)
            _, fields, body = split_answer(await read_answer(reader))
            assert (b"Connection", b"keep-alive") in fields
            assert body == ANSWER
        writer.transport.abort()


@TARGETS
@pytest.mark.parametrize(
    "interim",
    [b"100 Continue\r\n\r\n", b"103 Early Hints\r\nLink: </x>\r\n\r\n", b"102 \r\nX: 1\r\n\r\n"],
)
async def test_interim_answers_are_not_relayed(target: bytes, interim: bytes) -> None:
    """One of the few things that do not cross (R1)."""
    compared = await compare(post(target), replies(b"HTTP/1.1 " + interim, plain(b"X-A: 1\r\n")))
    assert compared.proxied.answer == plain(b"X-A: 1\r\n")


@TARGETS
async def test_trailers_of_an_answer_are_dropped_without_harm(target: bytes) -> None:
    """The body arrives, and the next answer on the connection does not inherit them."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with relaying(replies(head + TRAILED)) as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        for _ in range(2):
            writer.write(post(target))
            assert await read_answer(reader) == head + b"3\r\nabc\r\n0\r\n\r\n"
        writer.transport.abort()
    assert upstream.connections == 1
