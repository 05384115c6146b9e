"""R1 for observed chats: what observing them changes, and that odd content changes nothing."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import brotli  # type: ignore[import-untyped]  # it has no stubs
import pytest

from telemetry.observing.exchange import Outcome
from tests.proxy.harness import (
    ANSWER,
    ASKING_CHAT,
    CHAT,
    DONE,
    STREAM,
    STREAMED_CHAT,
    USAGE_EVENT,
    USAGE_OPTION,
    Connection,
)
from tests.proxy.raw_client import join_chunks, split_answer
from tests.proxy.side_by_side import (
    CHAT_TARGET,
    TARGETS,
    assert_same_answer,
    assert_same_request,
    compare,
    plain,
    post,
    replies,
)
from tests.telemetry.observed import chat_answer, content
from tests.zstd import compress_zstd

# --- compression


ENCODERS = {
    b"gzip": lambda data: gzip.compress(data, mtime=0),
    b"deflate": zlib.compress,
    b"br": brotli.compress,
    b"zstd": compress_zstd,
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
        assert content(exchange) == "Hello"


@pytest.mark.parametrize("encoding", ENCODERS)
async def test_a_compressed_stream_crosses_untouched_and_is_observed_decoded(
    encoding: bytes,
) -> None:
    """An upstream that compresses although we asked it not to: nothing is stripped."""
    data = ENCODERS[encoding](b"".join([*STREAM, USAGE_EVENT, DONE]))
    head = b"Content-Type: text/event-stream\r\nDigest: x\r\nContent-Encoding: %b\r\n" % encoding
    compared = await compare(post(body=STREAMED_CHAT), replies(plain(head, data)))
    assert_same_answer(compared)
    [exchange] = compared.exchanges
    assert exchange.usage_event_not_stripped
    assert content(exchange) == "Hello"
    assert chat_answer(exchange).usage is not None


# --- what we change


@pytest.mark.parametrize("head", [b"", b"accept-ENCODING: gzip\r\nX-A: 1\r\n"], ids=["no", "yes"])
async def test_a_rewritten_chat_asks_for_no_compression(head: bytes) -> None:
    """The one time that Accept-Encoding differs; the body differs by what was spliced in."""
    compared = await compare(
        post(head=head, body=STREAMED_CHAT), lambda c: c.stream(*STREAM, DONE), propagate=False
    )
    assert compared.proxied.request.field(b"accept-encoding") == b"identity"
    assert compared.direct.request.body == STREAMED_CHAT
    assert compared.proxied.request.body.replace(USAGE_OPTION, b"", 1) == STREAMED_CHAT
    unchanged = (b"accept-encoding", b"content-length")
    for side in (compared.direct, compared.proxied):
        fields = [pair for pair in side.request_fields if pair[0].lower() not in unchanged]
        assert fields[:2] == [(b"Host", b"..."), (b"Content-Type", b"application/json")]
        assert fields[2:] == ([(b"X-A", b"1")] if head else [])
    assert_same_answer(compared)


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


_USAGE = b'{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}'
USAGE_EVENTS = {
    "a name": b"event: message\n" + USAGE_EVENT,
    "an id and a time": b"id: 9\nretry: 100\n" + USAGE_EVENT,
    "fields behind": USAGE_EVENT[:-1] + b"id\nevent:message\n\n",
    "comments": b": ping\n" + USAGE_EVENT[:-1] + b":\n\n",
    "two lines of data": USAGE_EVENT.replace(b'"usage"', b'\ndata: "usage"'),
    "no space": USAGE_EVENT.replace(b"data: ", b"data:"),
    "CRLF": USAGE_EVENT.replace(b"\n", b"\r\n"),
    "CR": USAGE_EVENT.replace(b"\n", b"\r"),
    "choices null": USAGE_EVENT.replace(b"[]", b"null"),
    "no choices": USAGE_EVENT.replace(b'"choices":[],', b""),
    "nothing but usage": b'data: {"usage":%b}\n\n' % _USAGE,
    "all of it": b': x\nid:1\ndata:{"usage":\ndata:%b,\nevent: x\ndata:"choices":null}\n\n'
    % _USAGE,
}
TEXT = b'data: {"object":"text_completion","choices":[{"index":0,"text":"Hello"%b}]}\n\n'
APIS = {
    CHAT_TARGET: (STREAMED_CHAT, STREAM),
    b"/v1/completions": (
        b'{"model":"m-1","stream":true,"prompt":"hi"}',
        [TEXT % b"", TEXT % b',"finish_reason":"stop"'],
    ),
}


@pytest.mark.parametrize("target", APIS)
@pytest.mark.parametrize("usage", USAGE_EVENTS.values(), ids=USAGE_EVENTS)
async def test_a_usage_event_that_we_caused_never_arrives(target: bytes, usage: bytes) -> None:
    """However it is written, and cut into reads: the client gets what a direct one gets."""
    body, events = APIS[target]

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(*events, end=False)
        if b"include_usage" in connection.body:
            for line in usage.splitlines(keepends=True):
                await connection.send_chunks(line, end=False)
                await asyncio.sleep(0.01)
        await connection.send_chunks(DONE)

    compared = await compare(post(target, body=body), script)
    assert_same_answer(compared)
    assert compared.proxied.body == b"".join([*events, DONE])
    [exchange] = compared.exchanges
    assert exchange.outcome is Outcome.COMPLETED
    assert not exchange.usage_event_not_stripped
    told = chat_answer(exchange)
    assert told.usage is not None
    assert (told.usage.prompt, told.usage.completion) == (3, 2)
    assert exchange.chunks is not None
    assert exchange.chunks.count == len(events)


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


# --- content that makes no sense


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
    body = ASKING_CHAT if asks else STREAMED_CHAT

    compared = await compare(post(body=body), lambda c: c.stream(*events))
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
    assert content(exchange) == "Hello"
