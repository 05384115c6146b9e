"""Usage on every stream: asked for, and its event taken out again.

See ``docs/contract/promises.md#usage``.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from telemetry.observing.exchange import Outcome
from telemetry.spans.metadata import build_metadata
from tests.proxy.harness import (
    ANSWER,
    ASKING_CHAT,
    DONE,
    STREAM,
    STREAMED_CHAT,
    USAGE_EVENT,
    USAGE_OPTION,
    Connection,
    chunk_event,
    relaying,
    request_bytes,
)
from tests.proxy.observed_ends import observe, total_of
from tests.proxy.raw_client import ask
from tests.proxy.side_by_side import plain, replies

USAGE = "stream_options.include_usage"
WITH_USAGE = b"".join([*STREAM, USAGE_EVENT, DONE])
WITHOUT = b"".join([*STREAM, DONE])


def body_with(members: bytes) -> bytes:
    """A chat whose keys, numbers and spaces no serialiser would write again."""
    return b'{ "model" : "m-1" ,"t":1.0e+0,"stream":true%b ,"messages":[]}' % members


class Form(NamedTuple):
    """A form of the request, and what becomes of it under ``always`` and ``if-absent``."""

    sent: bytes
    always: bytes | None = None
    if_absent: bytes | None = None


FORMS = {
    "absent": Form(body_with(b""), body_with(USAGE_OPTION), body_with(USAGE_OPTION)),
    "null": Form(body_with(b',"stream_options":null'), body_with(USAGE_OPTION)),
    "empty": Form(body_with(b',"stream_options":{}'), body_with(USAGE_OPTION)),
    "other options": Form(
        body_with(b',"stream_options":{ "chunk_size":1.50 }'),
        body_with(b',"stream_options":{"include_usage":true, "chunk_size":1.50 }'),
    ),
    "false": Form(
        body_with(b',"stream_options":{"a":{"include_usage":1},"include_usage": false}'),
        body_with(b',"stream_options":{"a":{"include_usage":1},"include_usage": true}'),
    ),
    "usage null": Form(
        body_with(b',"stream_options":{"include_usage":null}'), body_with(USAGE_OPTION), None
    ),
    "true": Form(body_with(USAGE_OPTION)),
    "text": Form(body_with(b',"stream_options":"include_usage"')),
    "list": Form(body_with(b',"stream_options":[]')),
    "duplicate options": Form(body_with(b',"stream_options":null,"stream_options":{}')),
    "duplicate stream": Form(body_with(b',"stream":true')),
    "data_sources": Form(body_with(b',"data_sources":[]')),
    "stream false": Form(b'{"model":"m-1","stream":false}'),
    "stream text": Form(b'{"model":"m-1","stream":"true"}'),
    "stream number": Form(b'{"model":"m-1","stream":1}'),
    "stream null": Form(b'{"model":"m-1","stream":null}'),
    "no stream": Form(b'{"model":"m-1","nested":{"stream":true}}'),
    "no json": Form(b'{"model":"m-1","stream":true'),
    "no utf-8": Form(b'{"model":"\xff","stream":true}'),
    "no object": Form(b"[true]"),
    "empty body": Form(b""),
}


@pytest.mark.parametrize("policy", ["always", "if-absent", "never"])
@pytest.mark.parametrize("form", FORMS)
async def test_what_is_asked_and_hidden_follows_the_policy(form: str, policy: str) -> None:
    """What the upstream receives, what the client receives, and what the record holds."""
    sent, always, if_absent = FORMS[form]
    rewritten = {"always": always, "if-absent": if_absent, "never": None}[policy]
    answer, exchange, upstream = await observe(
        lambda connection: connection.stream(*STREAM, USAGE_EVENT, DONE),
        request_bytes(sent, head=b"Accept-Encoding: gzip, br\r\n"),
        usage=policy,
    )
    seen = upstream.last
    if rewritten is None:
        assert seen.body == sent
        assert answer.body == WITH_USAGE
        assert seen.field(b"accept-encoding") == b"gzip, br"
        assert exchange.rewrites == ()
    else:
        assert seen.body == rewritten
        assert answer.body == WITHOUT
        assert seen.field(b"accept-encoding") == b"identity"
        assert exchange.rewrites == (USAGE,)
    assert seen.field(b"content-length") == b"%d" % len(seen.body)
    assert answer.clean
    # The record holds the client's own request, and the usage in any case.
    assert exchange.request_body == sent
    assert exchange.outcome is Outcome.COMPLETED
    assert total_of(exchange) == 5


@pytest.mark.parametrize("coding", [b"gzip", b"identity", b"Identity, gzip", b""])
async def test_a_request_that_says_it_is_compressed_is_not_looked_into(coding: bytes) -> None:
    """Its bytes say nothing: what looks like JSON in them would be an accident."""
    answer, exchange, upstream = await observe(
        lambda connection: connection.stream(*STREAM, USAGE_EVENT, DONE),
        request_bytes(STREAMED_CHAT, head=b"Content-Encoding: %b\r\n" % coding),
    )
    if coding in {b"identity", b""}:
        assert exchange.rewrites == (USAGE,)
        assert answer.body == WITHOUT
    else:
        assert upstream.last.body == STREAMED_CHAT
        assert exchange.rewrites == ()
        assert answer.body == WITH_USAGE


# --- taking the event out


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
async def test_the_event_is_taken_out_wherever_the_stream_is_cut(line_end: bytes) -> None:
    """Split at every byte around the usage event, the client sees the same stream."""
    whole = WITH_USAGE.replace(b"\n", line_end)
    expected = WITHOUT.replace(b"\n", line_end)
    start = whole.index(USAGE_EVENT.replace(b"\n", line_end)) - 3
    cuts = iter(range(start, len(whole)))

    async def script(connection: Connection) -> None:
        cut = next(cuts)
        await connection.begin_stream()
        await connection.send_chunks(whole[:cut], end=False)
        await asyncio.sleep(0.002)
        await connection.send_chunks(*[whole[cut:]] if cut < len(whole) else [])

    async with relaying(script) as (_, running):
        for _ in range(start, len(whole)):
            answer = await ask(running.address, request_bytes(STREAMED_CHAT))
            assert (answer.body, answer.clean) == (expected, True)


async def test_the_event_is_taken_out_of_single_bytes() -> None:
    """Every byte a chunk of its own."""
    pieces = [WITH_USAGE[i : i + 1] for i in range(len(WITH_USAGE))]
    answer, exchange, _ = await observe(lambda connection: connection.stream(*pieces))
    assert (answer.body, answer.clean) == (WITHOUT, True)
    assert total_of(exchange) == 5


async def test_usage_that_rides_on_other_events_stays() -> None:
    """Only an event of usage alone is ours to take."""
    usage = ',"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}'
    filtered = (
        b'data: {"choices":[],"usage":{"total_tokens":5},"prompt_filter_results":[{"index":0}]}\n\n'
    )
    events = [*STREAM[:3], chunk_event(finish="stop", extra=usage), filtered, DONE]
    answer, exchange, _ = await observe(lambda connection: connection.stream(*events))
    assert answer.body == b"".join(events)
    assert total_of(exchange) == 5


@pytest.mark.parametrize("asks", [False, True], ids=["asked by us", "asked by the client"])
async def test_a_servers_timings_beside_the_usage_do_not_keep_it_in(*, asks: bool) -> None:
    """llama.cpp: the client has a choice in every chunk; the span says what it did not receive."""
    timings = USAGE_EVENT.replace(b"}\n\n", b',"timings":{"predicted_n":2}}\n\n')
    answer, exchange, _ = await observe(
        lambda c: c.stream(*STREAM, timings, DONE),
        request_bytes(ASKING_CHAT if asks else STREAMED_CHAT),
    )
    assert answer.body == b"".join([*STREAM, *[timings] * asks, DONE])
    metadata = build_metadata(exchange, {})
    assert metadata.get("left_out_with_usage") == (None if asks else ["timings"])
    assert metadata["usage_raw"]["total_tokens"] == 5


async def test_several_usage_events_are_all_taken_out() -> None:
    """Some servers send one for each choice (``docs/contract/sources.md#n1``)."""
    events = [*STREAM, USAGE_EVENT, b": keep\n\n", USAGE_EVENT, DONE]
    answer, *_ = await observe(lambda connection: connection.stream(*events))
    assert answer.body == b"".join([*STREAM, b": keep\n\n", DONE])


@pytest.mark.parametrize("breaks", [True, False], ids=["broken", "clean"])
async def test_what_is_held_back_goes_out_before_the_end(*, breaks: bool) -> None:
    """Half a usage event may as well have been something else."""
    half = USAGE_EVENT[:60]

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(*STREAM[:2], half, end=not breaks)
        if breaks:
            await asyncio.sleep(0.02)
            connection.writer.close()

    answer, exchange, _ = await observe(script)
    assert (answer.body, answer.clean) == (b"".join([*STREAM[:2], half]), not breaks)
    assert exchange.error_type == "stream_truncated"


async def test_an_event_too_long_to_wait_for_flows() -> None:
    """Held back are at most 16 KiB, and only of what could still be a usage event."""
    long = b'data: {"padding":"' + b"x" * 20_000
    go = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(long, end=False)
        await go.wait()
        await connection.send_chunks(b'"}\n\n', DONE)

    async with relaying(script) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(STREAMED_CHAT))
        async with asyncio.timeout(2):
            await reader.readuntil(long)
        go.set()
        await reader.readuntil(DONE)
        writer.close()


async def test_length_and_digests_stay_where_the_client_asked_itself() -> None:
    """Its stream is never filtered."""
    head = b"Content-Type: text/event-stream\r\nContent-MD5: x\r\nRepr-Digest: w\r\n"
    answer, *_ = await observe(replies(plain(head, WITH_USAGE)), request_bytes(ASKING_CHAT))
    assert (answer.body, answer.clean) == (WITH_USAGE, True)
    assert answer.field(b"content-length") == b"%d" % len(WITH_USAGE)
    assert answer.field(b"content-md5") == b"x"
    assert answer.field(b"repr-digest") == b"w"


async def test_a_plain_answer_to_a_rewritten_request_keeps_its_length() -> None:
    """Some upstreams ignore ``stream``: a body that says it is JSON holds no events."""
    answer, exchange, _ = await observe(lambda connection: connection.answer())
    assert answer.field(b"content-length") == b"%d" % len(ANSWER)
    assert answer.body == ANSWER
    assert exchange.outcome is Outcome.COMPLETED


async def test_a_stream_that_is_called_json_is_filtered_all_the_same() -> None:
    """Azure AI Foundry has been seen to (``docs/contract/wire.md#dialects``)."""

    async def script(connection: Connection) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        await connection.send_chunks(*STREAM, USAGE_EVENT, DONE)

    answer, exchange, _ = await observe(script)
    assert (answer.body, answer.clean) == (WITHOUT, True)
    assert total_of(exchange) == 5
