"""R1 over raw sockets: what both ends see through the proxy, next to a direct connection.

Each test sends the same bytes to the same scripted upstream twice, directly and through the
proxy. What may differ is the closed list of ``design.md`` section 1, and each entry of it has a
test of its own here.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import zlib
from typing import TYPE_CHECKING

import brotli  # type: ignore[import-untyped]  # it has no stubs
import pytest
import zstandard

from telemetry.exchange import Outcome
from tests.proxy.harness import (
    ANSWER,
    CHAT,
    DONE,
    STREAM,
    STREAMED_CHAT,
    USAGE_EVENT,
    Compared,
    Connection,
    ScriptedUpstream,
    compare,
    exchange_raw,
    join_chunks,
    read_answer,
    request_bytes,
    running_proxy,
    send_raw,
    split_answer,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

CHAT_TARGET = b"/v1/chat/completions"
OTHER_TARGET = b"/v1/models"
TARGETS = pytest.mark.parametrize("target", [CHAT_TARGET, OTHER_TARGET], ids=["chat", "other"])


def replies(*data: bytes, closes: bool = False) -> Callable[[Connection], Awaitable[None]]:
    """A script that sends bytes."""

    async def script(connection: Connection) -> None:
        await connection.send(*data)
        if closes:
            connection.writer.close()

    return script


def plain(head: bytes = b"", body: bytes = ANSWER, status: bytes = b"200 OK") -> bytes:
    """A counted answer."""
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, head, len(body), body)


def post(target: bytes = CHAT_TARGET, head: bytes = b"", body: bytes = CHAT) -> bytes:
    """A counted request on a connection that is kept."""
    return request_bytes(body, target=target, head=head, close=False)


def assert_same_request(compared: Compared) -> None:
    """The upstream got the same request, but for the value of ``Host``."""
    assert compared.proxied.request.request_line == compared.direct.request.request_line
    assert compared.proxied.request_fields == compared.direct.request_fields
    assert compared.proxied.request.body == compared.direct.request.body


def assert_same_answer(compared: Compared) -> None:
    """The client got the same answer, chunk boundaries aside."""
    assert compared.proxied.status == compared.direct.status
    assert compared.proxied.fields == compared.direct.fields
    assert compared.proxied.body == compared.direct.body


FIELDS = {
    "none": b"",
    "case": b"x-lower: 1\r\nX-UPPER: 2\r\naCCept: text/x\r\n",
    "order": b"Z: 1\r\nA: 2\r\nM: 3\r\nB: 4\r\n",
    "duplicates": b"X-A: 1\r\nX-B: 2\r\nX-A: 3\r\n",
    "duplicates that differ in case": b"X-A: 1\r\nx-a: 2\r\nX-a: 1\r\n",
    "values that are no UTF-8": b"X-A: \xff\xfe caf\xe9\r\nX-B: caf\xc3\xa9\r\n",
    "empty values": b"X-A:\r\nX-B: \r\n",
    "white space inside": b"X-A: a  b\tc\r\n",
    "longer than 8,190 bytes": b"X-Long: %b\r\n" % (b"a" * 20_000),
    "nearly 64 KiB": b"X-Long: %b\r\n" % (b"a" * 65_500),
    "two hundred": b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(200)),
    "every character of names": b"!#$%&'*+-.^_`|~09azAZ: 1\r\n",
    "what libraries like to touch": (
        b"user-agent: x\r\nAccept-Encoding: gzip, br\r\nAuthorization: Bearer k\r\n"
        b"Cookie: a=1\r\nCookie: b=2\r\nDate: now\r\nServer: s\r\nVia: 1.1 v\r\n"
    ),
    "a trace of the client's own": (
        b"traceparent: 00-%b-%b-01\r\nTraceState: a=1\r\n" % (b"1" * 32, b"2" * 16)
    ),
}


@TARGETS
@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS.keys())
async def test_a_request_head_arrives_as_it_was_sent(target: bytes, fields: bytes) -> None:
    """S4.26: names, case, order, duplicates and bytes are kept, and nothing is added."""
    compared = await compare(post(target, fields), replies(plain()), propagate=False)
    assert_same_request(compared)


@TARGETS
@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS.keys())
async def test_an_answer_head_arrives_as_it_was_sent(target: bytes, fields: bytes) -> None:
    """Names, case, order, duplicates and bytes are kept; no Server, Date or Content-Type added."""
    compared = await compare(post(target), replies(plain(fields)))
    assert_same_answer(compared)


@TARGETS
async def test_host_names_the_upstream_in_the_place_where_the_client_had_it(target: bytes) -> None:
    """Neither does it move, nor does its name's case change."""
    raw = b"POST %b HTTP/1.1\r\nX-A: 1\r\nhOsT: c\r\nX-B: 2\r\nContent-Length: 2\r\n\r\n{}" % target
    async with ScriptedUpstream(replies(plain())) as upstream:
        async with running_proxy(upstream.url, propagate=False) as running:
            await exchange_raw(running.address, raw)
        port = upstream.address[1]
    assert upstream.last.fields == [
        (b"X-A", b"1"),
        (b"hOsT", b"127.0.0.1:%d" % port),
        (b"X-B", b"2"),
        (b"Content-Length", b"2"),
    ]


RAW_TARGETS = [
    b"/",
    b"//",
    b"//a//b/",
    b"/a/../b/./c/..",
    b"/a/%2e%2E/%2f%5C%00",
    b"/%zz%",
    b"/%C3%A9%ff",
    b"/a;b=c;d",
    b"/a?",
    b"/a??b=&&=c#",
    b"/a?x=a+b%20c&x=/../",
    b"/a:b@c!$'()*,~",
    b'/a?"<>|{}`^[]\\',
    b"/" + b"a" * 20_000,
]


@pytest.mark.parametrize("target", RAW_TARGETS, ids=range(len(RAW_TARGETS)))
@pytest.mark.parametrize("prefix", [b"", b"/x/chat/completions?y="], ids=["other", "chat"])
async def test_a_raw_target_is_not_normalised(prefix: bytes, target: bytes) -> None:
    """Escapes, dot segments, empty segments, parameters and empty queries stay as they are."""
    assert_same_request(await compare(post(prefix + target), replies(plain()), propagate=False))


@pytest.mark.parametrize(
    "target",
    [b"/a/../v1/chat/completions", b"//chat/completions?api-version=1", b"/%20;x/chat/completions"],
)
async def test_a_raw_target_of_a_chat_is_not_normalised(target: bytes) -> None:
    """An odd path to an observed endpoint is observed, and stays as it is."""
    compared = await compare(post(target), replies(plain()), propagate=False)
    assert_same_request(compared)
    assert len(compared.exchanges) == 1


_CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
REQUESTS = {
    "GET": b"GET /v1/models HTTP/1.1\r\nHost: c\r\n\r\n",
    "GET with a body": b"GET /x HTTP/1.1\r\nHost: c\r\nContent-Length: 3\r\n\r\nabc",
    "HEAD": b"HEAD /v1/models HTTP/1.1\r\nHost: c\r\n\r\n",
    "OPTIONS": b"OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: c\r\nOrigin: o\r\n\r\n",
    "OPTIONS *": b"OPTIONS * HTTP/1.1\r\nHost: c\r\n\r\n",
    "DELETE": b"DELETE /v1/files/1 HTTP/1.1\r\nHost: c\r\n\r\n",
    "DELETE with a body": b"DELETE /x HTTP/1.1\r\nHost: c\r\nContent-Length: 3\r\n\r\nabc",
    "PATCH": b"PATCH /x HTTP/1.1\r\nHost: c\r\nContent-Length: 3\r\n\r\nabc",
    "PROPFIND": b"PROPFIND /x HTTP/1.1\r\nHost: c\r\n\r\n",
    "TRACE": b"TRACE /x HTTP/1.1\r\nHost: c\r\n\r\n",
    "PUT in chunks": b"PUT /x HTTP/1.1\r\nHost: c\r\n%b3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" % _CHUNKED,
    "chunks with extensions": b"PUT /x HTTP/1.1\r\nHost: c\r\n%b3;a=b\r\nabc\r\n0\r\n\r\n"
    % _CHUNKED,
    "no chunk": b"PUT /x HTTP/1.1\r\nHost: c\r\n%b0\r\n\r\n" % _CHUNKED,
    "POST of nothing": b"POST /x HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n",
    "POST without a length": b"POST /x HTTP/1.1\r\nHost: c\r\n\r\n",
    "a chat in chunks": b"POST /chat/completions HTTP/1.1\r\nHost: c\r\n%b%x\r\n%b\r\n0\r\n\r\n"
    % (_CHUNKED, len(CHAT), CHAT),
    "a chat of nothing": b"POST /chat/completions HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n",
    "a chat without a length": b"POST /chat/completions HTTP/1.1\r\nHost: c\r\n\r\n",
    "a body of a megabyte": b"PUT /x HTTP/1.1\r\nHost: c\r\nContent-Length: 1048576\r\n\r\n"
    + b"\r\n\r\n\r\nab" * (1 << 17),
    "a chat of a megabyte": b"POST /chat/completions HTTP/1.1\r\nHost: c\r\n"
    b"Content-Length: 1048576\r\n\r\n" + b"\r\n\r\n\r\nab" * (1 << 17),
    "a chunk of a megabyte": b"PUT /x HTTP/1.1\r\nHost: c\r\n%b100000\r\n%b\r\n0\r\n\r\n"
    % (_CHUNKED, b"\r\n\r\n\r\nab" * (1 << 17)),
}


@pytest.mark.parametrize("raw", REQUESTS.values(), ids=REQUESTS.keys())
async def test_a_request_of_any_method_and_framing_arrives_whole(raw: bytes) -> None:
    """Same line, fields and body; counted stays counted, chunked stays chunked."""
    compared = await compare(raw, replies(plain(b"Allow: GET\r\n")), propagate=False)
    assert_same_request(compared)
    if not raw.startswith(b"HEAD"):
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
]


@TARGETS
@pytest.mark.parametrize("status", STATUSES)
async def test_status_and_reason_are_relayed(target: bytes, status: bytes) -> None:
    """Odd, empty and non-ASCII reasons too; errors come with their own bodies."""
    assert_same_answer(await compare(post(target), replies(plain(status=status, body=b"{}"))))


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
    """S4.26, N2: same status, fields and body; counted stays counted, chunked stays chunked."""
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
    async with (
        ScriptedUpstream(replies(coded, closes=True)) as upstream,
        running_proxy(upstream.url) as running,
    ):
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
    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        for _ in range(2):
            assert await exchange_raw(running.address, post(target)) == answer
        assert upstream.connections == 2


@TARGETS
async def test_an_answer_that_breaks_in_the_read_of_its_head_arrives_as_far_as_it_came(
    target: bytes,
) -> None:
    """Head and bytes first, then its end, which is no clean one."""
    script = replies(_CHUNKED_ANSWER + b"zz\r\n")
    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
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
    "no HTTP": b"secret\r\n\r\n",
}


@TARGETS
@pytest.mark.parametrize("answer", INVALID_ANSWERS.values(), ids=INVALID_ANSWERS.keys())
async def test_an_answer_that_is_no_valid_http_is_not_relayed_or_quoted(
    target: bytes, answer: bytes
) -> None:
    """Passing it on would be passing on an ambiguity: a 502 that says what is wrong."""
    script = replies(answer)
    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        got = await send_raw(running.address, post(target))
    assert got.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert b'"code": "upstream_invalid_response"' in got
    assert b"secret" not in got
    if target is CHAT_TARGET:
        [exchange] = running.sink.exchanges
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
    async with (
        ScriptedUpstream(replies(answer)) as upstream,
        running_proxy(upstream.url) as running,
    ):
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


async def test_head_is_answered_with_the_length_of_a_body_that_does_not_come() -> None:
    """The connection can be used again at once, on both sides."""
    raw = b"HEAD /x HTTP/1.1\r\nHost: c\r\n\r\n"

    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nX-A: 1\r\n\r\n")

    compared = await compare(raw, script)
    assert_same_answer(compared)
    assert (b"Content-Length", b"1234") in compared.proxied.fields
    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        reader, writer = await asyncio.open_connection(*running.address)
        for _ in range(2):
            writer.write(raw)
            await read_answer(reader, b"HEAD")
        writer.transport.abort()
        assert upstream.connections == 1


HOP_BY_HOP = (
    b"Keep-Alive: timeout=5\r\nproxy-authenticate: Basic\r\nProxy-Authorization: Basic x\r\n"
    b"Proxy-Connection: keep-alive\r\nTE: trailers\r\nTrailer: X-T\r\nX-Named: 1\r\nX-Kept: 2\r\n"
    b"x-other: 3\r\n"
)


@TARGETS
async def test_hop_by_hop_fields_of_a_request_stay_here(target: bytes) -> None:
    """The fixed ones and those that Connection names, but none that frames or routes."""
    head = b"Connection: x-named, Host, Content-Length\r\nconnection: X-Other\r\n" + HOP_BY_HOP
    compared = await compare(post(target, head), replies(plain()), propagate=False)
    assert compared.proxied.request_fields == [
        (b"Host", b"..."),
        (b"Content-Type", b"application/json"),
        (b"Content-Length", b"%d" % len(CHAT)),
        (b"X-Kept", b"2"),
    ]
    assert compared.proxied.request.body == CHAT


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


async def test_fields_meant_for_spantap_do_not_leave_it() -> None:
    """``x-spantap-*`` is ours, and removed."""
    head = b"X-Spantap-Session: 1\r\nx-spantap-: 2\r\nX-Spantapped: 3\r\n"
    compared = await compare(post(head=head), replies(plain()), propagate=False)
    names = [name for name, _ in compared.proxied.request.fields]
    assert names == [b"Host", b"Content-Type", b"Content-Length", b"X-Spantapped"]


@TARGETS
async def test_a_client_of_http_1_0_gets_an_answer_that_it_can_read(target: bytes) -> None:
    """No chunks and no kept connection unless it asked; the upstream is asked in HTTP/1.1."""
    raw = b"POST %b HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}" % target
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    async with ScriptedUpstream(replies(answer)) as upstream:
        async with running_proxy(upstream.url, propagate=False) as running:
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
    async with (
        ScriptedUpstream(replies(plain())) as upstream,
        running_proxy(upstream.url) as running,
    ):
        reader, writer = await asyncio.open_connection(*running.address)
        for _ in range(2):
            writer.write(raw)
            _, fields, body = split_answer(await read_answer(reader))
            assert (b"Connection", b"keep-alive") in fields
            assert body == ANSWER
        writer.transport.abort()


ENCODERS = {
    b"gzip": lambda data: gzip.compress(data, mtime=0),
    b"deflate": zlib.compress,
    b"br": brotli.compress,
    b"zstd": zstandard.ZstdCompressor().compress,
}


@TARGETS
@pytest.mark.parametrize("encoding", ENCODERS)
async def test_compressed_bodies_cross_untouched_and_are_observed_decoded(
    target: bytes, encoding: bytes
) -> None:
    """Up and down; the observer undoes the coding in its own copy."""
    head = b"Content-Encoding: %b\r\n" % encoding
    request, answer = ENCODERS[encoding](CHAT), ENCODERS[encoding](ANSWER)
    compared = await compare(
        post(target, head, request), replies(plain(head, answer)), propagate=False
    )
    assert_same_request(compared)
    assert_same_answer(compared)
    assert compared.proxied.request.body == request
    assert compared.proxied.body == answer
    if target is CHAT_TARGET:
        [exchange] = compared.exchanges
        assert exchange.request is not None
        assert exchange.request.model == "m-1"
        assert exchange.response is not None
        assert exchange.response.choices[0].message.content == "Hello"


@pytest.mark.parametrize("encoding", ENCODERS)
async def test_a_compressed_stream_crosses_untouched_and_is_observed_decoded(
    encoding: bytes,
) -> None:
    """An upstream that compresses although we asked it not to: nothing is stripped."""
    data = ENCODERS[encoding](b"".join([*STREAM, USAGE_EVENT, DONE]))

    async def script(connection: Connection) -> None:
        await connection.begin_stream(b"Content-Encoding: %b\r\n" % encoding)
        await connection.send_chunks(data[:7], data[7:])

    compared = await compare(post(body=STREAMED_CHAT), script)
    assert_same_answer(compared)
    [exchange] = compared.exchanges
    assert exchange.usage_event_not_stripped
    assert exchange.response is not None
    assert exchange.response.choices[0].message.content == "Hello"


SPLICED = b',"stream_options":{"include_usage":true}'


@pytest.mark.parametrize("head", [b"", b"accept-ENCODING: gzip\r\nX-A: 1\r\n"], ids=["no", "yes"])
async def test_a_rewritten_chat_asks_for_no_compression(head: bytes) -> None:
    """The one time that Accept-Encoding differs; the body differs by what was spliced in."""

    async def script(connection: Connection) -> None:
        await connection.stream(*STREAM, DONE)

    compared = await compare(post(head=head, body=STREAMED_CHAT), script, propagate=False)
    assert compared.proxied.request.field(b"accept-encoding") == b"identity"
    assert compared.direct.request.body == STREAMED_CHAT
    assert compared.proxied.request.body.replace(SPLICED, b"", 1) == STREAMED_CHAT
    unchanged = (b"accept-encoding", b"content-length")
    for side in (compared.direct, compared.proxied):
        fields = [pair for pair in side.request_fields if pair[0].lower() not in unchanged]
        assert fields[:2] == [(b"Host", b"..."), (b"Content-Type", b"application/json")]
        assert fields[2:] == ([(b"X-A", b"1")] if head else [])
    assert_same_answer(compared)


TRACED = b"traceparent: 00-%b-%b-01\r\nX-A: 1\r\ntracestate: a=1\r\nTraceState: b=2\r\n" % (
    b"1" * 32,
    b"2" * 16,
)


async def test_the_trace_context_of_a_chat_becomes_that_of_our_span() -> None:
    """In the place where the client had it; the state is handed on."""
    compared = await compare(post(head=TRACED), replies(plain()))
    [exchange] = compared.exchanges
    value = compared.proxied.request.field(b"traceparent")
    assert value == b"00-%b-%b-01" % (b"1" * 32, exchange.identity.span_id.encode())
    names = [name for name, _ in compared.proxied.request.fields]
    assert names[3:] == [b"traceparent", b"X-A", b"tracestate"]
    assert compared.proxied.request.field(b"tracestate") == b"a=1,b=2"


async def test_a_chat_without_a_trace_gets_one() -> None:
    """At the end of the head."""
    compared = await compare(post(), replies(plain()))
    [exchange] = compared.exchanges
    assert compared.proxied.request.fields[3:] == [
        (b"traceparent", exchange.identity.traceparent.encode())
    ]


@pytest.mark.parametrize("name", [b"expect", b"Expect"])
@TARGETS
async def test_expect_100_continue_is_answered_by_us(target: bytes, name: bytes) -> None:
    """The client sends its body only then; the upstream sees field and body together."""
    head = b"%b: 100-continue\r\n" % name
    async with (
        ScriptedUpstream(replies(plain())) as upstream,
        running_proxy(upstream.url, propagate=False) as running,
    ):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(post(target, head, b"abc").removesuffix(b"abc"))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"abc")
        status, _, body = split_answer(await read_answer(reader))
        writer.transport.abort()
    assert (status, body) == (b"HTTP/1.1 200 OK", ANSWER)
    assert upstream.last.body == b"abc"
    assert upstream.last.field(b"expect") == b"100-continue"


@TARGETS
@pytest.mark.parametrize(
    "interim",
    [b"100 Continue\r\n\r\n", b"103 Early Hints\r\nLink: </x>\r\n\r\n", b"102 \r\nX: 1\r\n\r\n"],
)
async def test_interim_answers_are_not_relayed(target: bytes, interim: bytes) -> None:
    """One of the few things that do not cross (R1)."""
    compared = await compare(post(target), replies(b"HTTP/1.1 " + interim, plain(b"X-A: 1\r\n")))
    assert compared.proxied.answer == plain(b"X-A: 1\r\n")


TRAILED = b"3\r\nabc\r\n0\r\nX-Trailer: evil\r\nHost: evil\r\n\r\n"


@TARGETS
async def test_trailers_of_a_request_are_dropped_without_harm(target: bytes) -> None:
    """The body arrives, and the next request on the connection does not inherit them."""
    raw = b"POST %b HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n" % target
    async with (
        ScriptedUpstream(replies(plain())) as upstream,
        running_proxy(upstream.url, propagate=False) as running,
    ):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(raw + TRAILED + b"GET /2 HTTP/1.1\r\nHost: c\r\n\r\n")
        await read_answer(reader)
        await read_answer(reader)
        writer.write(raw + TRAILED[:20])
        await asyncio.sleep(0.01)
        writer.write(TRAILED[20:-1])
        await asyncio.sleep(0.01)
        writer.write(TRAILED[-1:] + b"GET /4 HTTP/1.1\r\nHost: c\r\n\r\n")
        await read_answer(reader)
        await read_answer(reader)
        writer.transport.abort()
    assert [r.body for r in upstream.requests] == [b"abc", b"", b"abc", b""]
    for n, request in enumerate(upstream.requests):
        names = [name for name, _ in request.fields]
        assert names == ([b"Host"] if n % 2 else [b"Host", b"Transfer-Encoding"])


@TARGETS
async def test_trailers_of_an_answer_are_dropped_without_harm(target: bytes) -> None:
    """The body arrives, and the next answer on the connection does not inherit them."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with ScriptedUpstream(replies(head + TRAILED)) as upstream:
        async with running_proxy(upstream.url) as running:
            reader, writer = await asyncio.open_connection(*running.address)
            for _ in range(2):
                writer.write(post(target))
                assert await read_answer(reader) == head + b"3\r\nabc\r\n0\r\n\r\n"
            writer.transport.abort()
        assert upstream.connections == 1


@TARGETS
async def test_pipelined_requests_are_answered_in_order(target: bytes) -> None:
    """More of them than are taken at once, in one write; each gets its own answer."""
    count = 100

    async def script(connection: Connection) -> None:
        await connection.answer(connection.body)

    bodies = [b'{"n":%d}' % n for n in range(count)]
    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(b"".join(post(target, body=body) for body in bodies))
        answers = [split_answer(await read_answer(reader))[2] for _ in range(count)]
        writer.transport.abort()
    assert answers == bodies
    assert len(running.sink.exchanges) == (count if target is CHAT_TARGET else 0)


async def test_an_offer_of_http_2_is_declined_silently() -> None:
    """Java's client offers h2c with its first request: relayed as HTTP/1.1, and so is the next."""
    head = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    async with (
        ScriptedUpstream(replies(plain())) as upstream,
        running_proxy(upstream.url, propagate=False) as running,
    ):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(post(head=head) + post(head=head))
        for _ in range(2):
            assert split_answer(await read_answer(reader))[2] == ANSWER
        writer.transport.abort()
    for request in upstream.requests:
        assert [name for name, _ in request.fields] == [b"Host", b"Content-Type", b"Content-Length"]
        assert request.body == CHAT


BAD_BODIES = {
    "empty": b"",
    "no JSON": b"hello",
    "cut JSON": CHAT[:-10],
    "JSON and more": CHAT + b"}]",
    "a list": b"[1,2]",
    "a number": b"12",
    "null": b"null",
    "stream is a string": b'{"model":"m-1","stream":"true"}',
    "stream is a number": b'{"model":"m-1","stream":1}',
    "stream is null": b'{"model":"m-1","stream":null}',
    "stream twice": b'{"stream":true,"model":"m-1","stream":true}',
    "messages of a wrong type": b'{"model":7,"messages":{"role":1},"tools":"x"}',
    "no UTF-8": b'{"model":"\xff\xfe","stream":true}',
    "UTF-16": '{"stream":true}'.encode("utf-16"),
    "deep": b"[" * 100_000,
    "lone surrogate": b'{"model":"\\ud800","messages":[{"content":"\\udc00"}]}',
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
async def test_a_chat_body_that_makes_no_sense_is_relayed_and_recorded_once(body: bytes) -> None:
    """What it is worth is the upstream's to say, and its answer arrives."""
    answer = plain(b"Content-Type: application/json\r\n", b'{"error":{"message":"no"}}', b"400 No")
    compared = await compare(post(body=body), replies(answer), propagate=False)
    assert_same_request(compared)
    assert_same_answer(compared)
    [exchange] = compared.exchanges
    assert exchange.outcome is Outcome.UPSTREAM_ERROR


GIANT = b'data: {"x":"%b"}\n\n' % (b"a" * 3_000_000)
BAD_STREAMS = {
    "nothing": [],
    "a giant line": [STREAM[0], GIANT, *STREAM[1:], DONE],
    "a giant line without an end": [STREAM[0], GIANT[:-3]],
    "an event never finished": [*STREAM, b'data: {"choices":['],
    "an event without its blank line": [*STREAM, DONE[:-2]],
    "garbage between events": [STREAM[0], b"\xff\xfe\x00garbage\n\n<html>\n\n", *STREAM[1:], DONE],
    "broken JSON": [STREAM[0], b"data: {\n\n", b"data: [1\n\n", b"data: 7\n\n", *STREAM[1:], DONE],
    "other line ends": [b"".join([*STREAM, DONE]).replace(b"\n", b"\r\n")],
    "lone carriage returns": [b"".join([*STREAM, DONE]).replace(b"\n", b"\r")],
    "a byte order mark": [b"\xef\xbb\xbf", *STREAM, DONE],
    "comments and fields": [b": ping\n\nevent: x\nid: 1\nretry: 5\n\n", *STREAM, DONE],
    "a usage event cut short": [*STREAM, USAGE_EVENT[:-5]],
    "a usage event with a taste of more": [
        *STREAM,
        USAGE_EVENT.replace(b'"usage"', b'"error":{"message":"x"},"usage"'),
        DONE,
    ],
    "binary": [bytes(range(256)) * 100],
    "JSON after all": [ANSWER],
}


@pytest.mark.parametrize("asks", [False, True], ids=["asked by us", "asked by the client"])
@pytest.mark.parametrize("events", BAD_STREAMS.values(), ids=BAD_STREAMS.keys())
async def test_a_stream_that_makes_no_sense_is_relayed_and_recorded_once(
    events: list[bytes], asks: bool
) -> None:
    """Every byte of it, also where we look for a usage event to take out."""
    body = STREAMED_CHAT[:-1] + SPLICED + b"}" if asks else STREAMED_CHAT

    async def script(connection: Connection) -> None:
        await connection.stream(*events)

    compared = await compare(post(body=body), script)
    assert_same_answer(compared)
    assert len(compared.exchanges) == 1


@pytest.mark.parametrize(
    "kind", [b"", b"text/html", b"application/octet-stream", b"\xff/x", b"multipart/mixed; a=b"]
)
@pytest.mark.parametrize("body", [CHAT, STREAMED_CHAT], ids=["plain", "streamed"])
async def test_an_answer_of_unknown_content_type_is_relayed_and_recorded_once(
    kind: bytes, body: bytes
) -> None:
    """The type is kept, and the record goes by the shape."""
    raw = plain(b"Content-Type: %b\r\n" % kind)
    compared = await compare(post(body=body), replies(raw), usage="never")
    assert_same_answer(compared)
    [exchange] = compared.exchanges
    assert exchange.response is not None
    assert exchange.response.choices[0].message.content == "Hello"


@TARGETS
@pytest.mark.parametrize(
    "raw",
    [b"Content-Length: 100\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\n10\r\n{}"],
    ids=["counted", "chunked"],
)
async def test_a_request_that_is_cut_short_has_no_answer(target: bytes, raw: bytes) -> None:
    """As directly; a chat is not sent on, and recorded once; other uploads end broken."""
    raw = b"POST %b HTTP/1.1\r\nHost: c\r\n%b" % (target, raw)
    async with ScriptedUpstream(replies(plain())) as upstream:
        for proxied in (False, True):
            async with running_proxy(upstream.url) as running:
                address = running.address if proxied else upstream.address
                reader, writer = await asyncio.open_connection(*address)
                writer.write(raw)
                await asyncio.sleep(0.05)
                writer.write_eof()
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
                writer.transport.abort()
                if proxied and target is CHAT_TARGET:
                    exchange = await running.sink.wait_for()
                    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
        assert all(request.body == b"" for request in upstream.requests)
        assert len(upstream.requests) == (1 if target is CHAT_TARGET else 2)


async def test_the_one_event_that_we_caused_is_all_that_a_client_does_not_get() -> None:
    """Length and digests of a counted stream go with it, as they no longer hold."""
    data = b"".join([*STREAM, USAGE_EVENT, DONE])
    head = b"Content-Type: text/event-stream\r\nDigest: x\r\nX-A: 1\r\n"
    compared = await compare(post(body=STREAMED_CHAT), replies(plain(head, data)))
    assert compared.proxied.fields == [
        (b"Content-Type", b"text/event-stream"),
        (b"X-A", b"1"),
        (b"Transfer-Encoding", b"chunked"),
    ]
    assert compared.proxied.body == b"".join([*STREAM, DONE])
    assert join_chunks(split_answer(compared.proxied.answer)[2])[1]
