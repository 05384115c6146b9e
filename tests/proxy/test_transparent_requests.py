"""R1 for requests: the upstream gets what the client sent.

See ``docs/contract/promises.md#what-may-differ``.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.proxy.harness import ANSWER, CHAT, relaying
from tests.proxy.raw_client import read_answer, split_answer
from tests.proxy.side_by_side import (
    CHAT_TARGET,
    FIELDS,
    HOP_BY_HOP,
    TARGETS,
    TRAILED,
    assert_same_answer,
    assert_same_request,
    compare,
    exchange_raw,
    plain,
    post,
    replies,
)


@TARGETS
@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS.keys())
async def test_a_request_head_arrives_as_it_was_sent(target: bytes, fields: bytes) -> None:
    """Names, case, order, duplicates and bytes are kept (``docs/contract/sources.md#s4-26``)."""
    compared = await compare(post(target, fields), replies(plain()), propagate=False)
    assert_same_request(compared)


@TARGETS
async def test_host_names_the_upstream_in_the_place_where_the_client_had_it(target: bytes) -> None:
    """Neither does it move, nor does its name's case change."""
    raw = b"POST %b HTTP/1.1\r\nX-A: 1\r\nhOsT: c\r\nX-B: 2\r\nContent-Length: 2\r\n\r\n{}" % target
    async with relaying(replies(plain()), propagate=False) as (upstream, running):
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
    [
        *(b"/a/../v1/chat/completions", b"//chat/completions?api-version=1"),
        *(b"/%20;x/chat/completions", b"/v1/chat/completions/", b"/v1/chat/completions///?x=/"),
        *(b"/v1/messages//", b"/v1beta/models/m:generateContent/", b"/api/v1/images/"),
    ],
)
async def test_a_raw_target_of_an_observed_call_is_not_normalised(target: bytes) -> None:
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


async def test_fields_meant_for_spantap_do_not_leave_it() -> None:
    """``x-spantap-*`` is ours, and removed."""
    head = b"X-Spantap-Session: 1\r\nx-spantap-: 2\r\nX-Spantapped: 3\r\n"
    compared = await compare(post(head=head), replies(plain()), propagate=False)
    names = [name for name, _ in compared.proxied.request.fields]
    assert names == [b"Host", b"Content-Type", b"Content-Length", b"X-Spantapped"]


@pytest.mark.parametrize("name", [b"expect", b"Expect"])
@TARGETS
async def test_expect_100_continue_is_answered_by_us(target: bytes, name: bytes) -> None:
    """The client sends its body only then; the upstream sees field and body together."""
    head = b"%b: 100-continue\r\n" % name
    async with relaying(replies(plain()), propagate=False) as (upstream, running):
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
async def test_trailers_of_a_request_are_dropped_without_harm(target: bytes) -> None:
    """The body arrives, and the next request on the connection does not inherit them."""
    raw = b"POST %b HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n" % target
    async with relaying(replies(plain()), propagate=False) as (upstream, running):
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
async def test_pipelined_requests_are_answered_in_order(target: bytes) -> None:
    """More of them than are taken at once, in one write; each gets its own answer."""
    count = 100

    bodies = [b'{"n":%d}' % n for n in range(count)]
    async with relaying(lambda c: c.answer(c.body)) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(b"".join(post(target, body=body) for body in bodies))
        answers = [split_answer(await read_answer(reader))[2] for _ in range(count)]
        writer.transport.abort()
    assert answers == bodies
    assert len(running.sink.exchanges) == (count if target is CHAT_TARGET else 0)


async def test_an_offer_of_http_2_is_declined_silently() -> None:
    """Java's client offers h2c with its first request: relayed as HTTP/1.1, and so is the next."""
    head = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    async with relaying(replies(plain()), propagate=False) as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(post(head=head) + post(head=head))
        for _ in range(2):
            assert split_answer(await read_answer(reader))[2] == ANSWER
        writer.transport.abort()
    for request in upstream.requests:
        assert [name for name, _ in request.fields] == [b"Host", b"Content-Type", b"Content-Length"]
        assert request.body == CHAT
