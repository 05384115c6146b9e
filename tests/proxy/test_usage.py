"""Usage on every stream, through the running proxy (``design.md`` section 4)."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from telemetry.exchange import Exchange, Outcome
from tests.proxy.harness import (
    ANSWER,
    DONE,
    STREAM,
    STREAMED_CHAT,
    USAGE_EVENT,
    Answer,
    Connection,
    RunningProxy,
    ScriptedUpstream,
    TurnedClock,
    ask,
    chunk_event,
    request_bytes,
    running_proxy,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

USAGE = "stream_options.include_usage"
WITH_USAGE = b"".join([*STREAM, USAGE_EVENT, DONE])
WITHOUT = b"".join([*STREAM, DONE])
ASK = b',"stream_options":{"include_usage":true}'


def body_with(members: bytes) -> bytes:
    """A chat whose keys, numbers and spaces no serialiser would write again."""
    return b'{ "model" : "m-1" ,"t":1.0e+0,"stream":true%b ,"messages":[]}' % members


class Form(NamedTuple):
    """A form of the request, and what becomes of it under ``always`` and ``if-absent``."""

    sent: bytes
    always: bytes | None = None
    if_absent: bytes | None = None


FORMS = {
    "absent": Form(body_with(b""), body_with(ASK), body_with(ASK)),
    "null": Form(body_with(b',"stream_options":null'), body_with(ASK)),
    "empty": Form(body_with(b',"stream_options":{}'), body_with(ASK)),
    "other options": Form(
        body_with(b',"stream_options":{ "chunk_size":1.50 }'),
        body_with(b',"stream_options":{"include_usage":true, "chunk_size":1.50 }'),
    ),
    "false": Form(
        body_with(b',"stream_options":{"a":{"include_usage":1},"include_usage": false}'),
        body_with(b',"stream_options":{"a":{"include_usage":1},"include_usage": true}'),
    ),
    "usage null": Form(
        body_with(b',"stream_options":{"include_usage":null}'), body_with(ASK), None
    ),
    "true": Form(body_with(ASK)),
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
    async with (
        ScriptedUpstream(lambda c: c.stream(*STREAM, USAGE_EVENT, DONE)) as upstream,
        running_proxy(upstream.url, usage=policy) as running,
    ):
        head = b"Accept-Encoding: gzip, br\r\n"
        answer = await ask(running.address, request_bytes(sent, head=head))
        exchange = await running.sink.wait_for()
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
    assert exchange.response is not None
    assert exchange.response.usage is not None
    assert exchange.response.usage.total == 5


@pytest.mark.parametrize("coding", [b"gzip", b"identity", b"Identity, gzip", b""])
async def test_a_request_that_says_it_is_compressed_is_not_looked_into(coding: bytes) -> None:
    """Its bytes say nothing: what looks like JSON in them would be an accident."""
    async with (
        ScriptedUpstream(lambda c: c.stream(*STREAM, USAGE_EVENT, DONE)) as upstream,
        running_proxy(upstream.url) as running,
    ):
        head = b"Content-Encoding: %b\r\n" % coding
        answer = await ask(running.address, request_bytes(STREAMED_CHAT, head=head))
        exchange = await running.sink.wait_for()
    if coding in {b"identity", b""}:
        assert exchange.rewrites == (USAGE,)
        assert answer.body == WITHOUT
    else:
        assert upstream.last.body == STREAMED_CHAT
        assert exchange.rewrites == ()
        assert answer.body == WITH_USAGE


# --- taking the event out


class Streamed(NamedTuple):
    answer: Answer
    exchange: Exchange


async def stream(
    script: Callable[[Connection], Awaitable[None]], body: bytes = STREAMED_CHAT, **settings: Any
) -> Streamed:
    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, **settings) as running,
    ):
        answer = await ask(running.address, request_bytes(body))
        return Streamed(answer, await running.sink.wait_for())


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

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        for _ in range(start, len(whole)):
            answer = await ask(running.address, request_bytes(STREAMED_CHAT))
            assert (answer.body, answer.clean) == (expected, True)


async def test_the_event_is_taken_out_of_single_bytes() -> None:
    """Every byte a chunk of its own."""
    pieces = [WITH_USAGE[i : i + 1] for i in range(len(WITH_USAGE))]
    answer, exchange = await stream(lambda connection: connection.stream(*pieces))
    assert (answer.body, answer.clean) == (WITHOUT, True)
    assert exchange.response is not None
    assert exchange.response.usage is not None


async def test_usage_that_rides_on_other_events_stays() -> None:
    """Only an event of usage alone is ours to take."""
    usage = ',"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}'
    filtered = (
        b'data: {"choices":[],"usage":{"total_tokens":5},"prompt_filter_results":[{"index":0}]}\n\n'
    )
    events = [*STREAM[:3], chunk_event(finish="stop", extra=usage), filtered, DONE]
    answer, exchange = await stream(lambda connection: connection.stream(*events))
    assert answer.body == b"".join(events)
    assert exchange.response is not None
    assert exchange.response.usage is not None


async def test_several_usage_events_are_all_taken_out() -> None:
    """N1: some servers send one for each choice."""
    events = [*STREAM, USAGE_EVENT, b": keep\n\n", USAGE_EVENT, DONE]
    answer, _ = await stream(lambda connection: connection.stream(*events))
    assert answer.body == b"".join([*STREAM, b": keep\n\n", DONE])


async def test_what_is_held_back_goes_out_before_a_broken_end() -> None:
    """Half a usage event may as well have been something else."""
    half = USAGE_EVENT[:60]

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(*STREAM[:2], half, end=False)
        await asyncio.sleep(0.02)
        connection.writer.close()

    answer, exchange = await stream(script)
    assert answer.body == b"".join([*STREAM[:2], half])
    assert not answer.clean
    assert exchange.error_type == "stream_truncated"


async def test_what_is_held_back_goes_out_at_a_clean_end() -> None:
    """The same where the stream just stops."""
    half = USAGE_EVENT[:60]
    answer, _ = await stream(lambda connection: connection.stream(*STREAM[:2], half))
    assert (answer.body, answer.clean) == (b"".join([*STREAM[:2], half]), True)


async def test_an_event_too_long_to_wait_for_flows() -> None:
    """Held back are at most 16 KiB, and only of what could still be a usage event."""
    long = b'data: {"padding":"' + b"x" * 20_000
    go = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(long, end=False)
        await go.wait()
        await connection.send_chunks(b'"}\n\n', DONE)

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(STREAMED_CHAT))
        async with asyncio.timeout(2):
            await reader.readuntil(long)
        go.set()
        await reader.readuntil(DONE)
        writer.close()


def counted(body: bytes, head: bytes = b"") -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n"
        b"Content-MD5: x\r\nDigest: y\r\nContent-Digest: z\r\nRepr-Digest: w\r\n%b\r\n%b"
        % (len(body), head, body)
    )


async def test_length_and_digests_go_where_the_event_may_be_taken_out() -> None:
    """They would describe other bytes."""
    answer, _ = await stream(lambda connection: connection.send(counted(WITH_USAGE)))
    assert (answer.body, answer.clean) == (WITHOUT, True)
    names = {name.lower() for name, _ in answer.fields}
    assert names == {b"content-type", b"transfer-encoding", b"connection"}


async def test_length_and_digests_stay_where_the_client_asked_itself() -> None:
    """Its stream is never filtered."""
    asked = STREAMED_CHAT[:-1] + ASK + b"}"
    answer, _ = await stream(lambda connection: connection.send(counted(WITH_USAGE)), asked)
    assert (answer.body, answer.clean) == (WITH_USAGE, True)
    assert answer.field(b"content-length") == b"%d" % len(WITH_USAGE)
    assert answer.field(b"content-md5") == b"x"
    assert answer.field(b"repr-digest") == b"w"


async def test_an_answer_compressed_all_the_same_is_relayed_untouched() -> None:
    """The span says ``usage_event_not_stripped``, and has the usage."""
    packed = gzip.compress(WITH_USAGE)
    wire = counted(packed, b"Content-Encoding: gzip\r\n")
    answer, exchange = await stream(lambda connection: connection.send(wire))
    assert (answer.body, answer.clean) == (packed, True)
    assert answer.field(b"content-encoding") == b"gzip"
    assert answer.field(b"content-length") == b"%d" % len(packed)
    assert answer.field(b"digest") == b"y"
    assert exchange.usage_event_not_stripped
    assert exchange.response is not None
    assert exchange.response.usage is not None


async def test_a_plain_answer_to_a_rewritten_request_keeps_its_length() -> None:
    """Some upstreams ignore ``stream``: a body that says it is JSON holds no events."""
    answer, exchange = await stream(lambda connection: connection.answer())
    assert answer.field(b"content-length") == b"%d" % len(ANSWER)
    assert answer.body == ANSWER
    assert exchange.outcome is Outcome.COMPLETED


async def test_a_stream_that_is_called_json_is_filtered_all_the_same() -> None:
    """Azure AI Foundry has been seen to (``dialects.md`` section 3)."""

    async def script(connection: Connection) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        await connection.send_chunks(*STREAM, USAGE_EVENT, DONE)

    answer, exchange = await stream(script)
    assert (answer.body, answer.clean) == (WITHOUT, True)
    assert exchange.response is not None
    assert exchange.response.usage is not None


# --- upstreams that reject the option

REJECTION = b'{"error":{"message":"Unknown parameter: \'stream_options\'.","code":null}}'
OTHER_400 = b'{"error":{"message":"messages must not be empty","code":null}}'


class Choosy:
    """An upstream that answers an error wherever usage is asked for."""

    def __init__(
        self,
        rejection: bytes = REJECTION,
        *,
        status: bytes = b"400 Bad Request",
        other: Callable[[Connection], Awaitable[None]] | None = None,
    ) -> None:
        self.rejection = rejection
        self.status = status
        self.other = other

    async def __call__(self, connection: Connection) -> None:
        if b"include_usage" in connection.body:
            await connection.answer(self.rejection, status=self.status, head=b"X-First: 1\r\n")
        elif self.other is not None:
            await self.other(connection)
        else:
            await connection.stream(*STREAM, DONE)


async def send_streamed(running: RunningProxy, body: bytes = STREAMED_CHAT, **how: Any) -> Answer:
    return await ask(running.address, request_bytes(body, **how))


@pytest.mark.parametrize("status", [b"400 Bad Request", b"422 Unprocessable Entity"])
async def test_a_rejected_option_is_taken_back_once(status: bytes) -> None:
    """The client's original body goes out once more; the client sees only the last answer."""
    async with (
        ScriptedUpstream(Choosy(status=status)) as upstream,
        running_proxy(upstream.url) as running,
    ):
        head = b"Accept-Encoding: br\r\n"
        answer = await send_streamed(running, head=head)
        exchange = await running.sink.wait_for()
    assert (answer.status, answer.body, answer.clean) == (200, WITHOUT, True)
    assert answer.field(b"x-first") is None
    assert [request.body for request in upstream.requests][1:] == [STREAMED_CHAT]
    assert upstream.last.field(b"accept-encoding") == b"br"
    assert upstream.last.field(b"content-length") == b"%d" % len(STREAMED_CHAT)
    assert upstream.last.field(b"traceparent") == upstream.requests[0].field(b"traceparent")
    assert upstream.connections == 1
    assert (exchange.resend_count, exchange.rewrites) == (1, ())
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.response is not None
    assert exchange.response.usage is None


async def test_a_rejection_is_remembered_for_ten_minutes_per_target_and_model() -> None:
    """One extra request per ten minutes finds out whether the upstream has learned it."""
    clock = TurnedClock()
    async with (
        ScriptedUpstream(Choosy()) as upstream,
        running_proxy(upstream.url, clock=clock) as running,
    ):

        async def requests_for(body: bytes = STREAMED_CHAT, **how: Any) -> int:
            before = len(upstream.requests)
            assert (await send_streamed(running, body, **how)).body == WITHOUT
            return len(upstream.requests) - before

        other_model = STREAMED_CHAT.replace(b"m-1", b"m-2")
        assert await requests_for() == 2
        assert await requests_for() == 1
        assert await requests_for(target=b"/v1/chat/completions?v=2") == 2
        assert await requests_for(target=b"/v1/chat/completions?v=2") == 1
        assert await requests_for(other_model) == 2
        clock.turn(599)
        assert await requests_for() == 1
        clock.turn(2)
        assert await requests_for() == 2
        assert await requests_for() == 1


async def test_a_body_that_is_refused_for_another_reason_is_not_sent_again() -> None:
    """A 400 that does not name the option is the client's to see."""
    async with (
        ScriptedUpstream(Choosy(OTHER_400)) as upstream,
        running_proxy(upstream.url) as running,
    ):
        answer = await send_streamed(running)
    assert (answer.status, answer.body) == (400, OTHER_400)
    assert answer.field(b"content-length") == b"%d" % len(OTHER_400)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("size", [0, 65_535, 65_536, 65_537, 300_000])
@pytest.mark.parametrize("chunked", [True, False])
async def test_an_error_body_that_was_looked_into_is_relayed_whole(
    *, size: int, chunked: bool
) -> None:
    """Whatever its length and framing."""
    body = b"e" * size

    async def script(connection: Connection) -> None:
        if not chunked:
            await connection.answer(body, status=b"400 Bad Request")
            return
        await connection.send(b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n")
        pieces = [body[i : i + 10_000] for i in range(0, len(body), 10_000)]
        await connection.send_chunks(*pieces)

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        answer = await send_streamed(running)
        exchange = await running.sink.wait_for()
    assert (answer.status, answer.body, answer.clean) == (400, body, True)
    assert len(upstream.requests) == 1
    assert exchange.error_type == "400"


async def test_an_error_body_that_breaks_off_under_our_eyes_breaks_off_for_the_client() -> None:
    """What came of it is relayed, and its end is broken."""

    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 999\r\n\r\n", OTHER_400)
        connection.writer.close()

    answer, exchange = await stream(script)
    assert (answer.status, answer.body, answer.clean) == (400, OTHER_400, False)
    assert exchange.error_type == "400"


async def test_the_name_of_the_option_past_64_kib_is_not_found() -> None:
    """Only so much of an error body is searched."""
    body = b" " * 140_000 + REJECTION
    async with ScriptedUpstream(Choosy(body)) as upstream, running_proxy(upstream.url) as running:
        answer = await send_streamed(running)
    assert (answer.status, answer.body) == (400, body)
    assert len(upstream.requests) == 1


async def test_a_second_rejection_is_relayed_and_not_remembered() -> None:
    """Two requests, no third; the next exchange tries again."""

    async def reject_too(connection: Connection) -> None:
        await connection.answer(REJECTION + b" ", status=b"400 Bad Request", head=b"X-Last: 1\r\n")

    async with (
        ScriptedUpstream(Choosy(other=reject_too)) as upstream,
        running_proxy(upstream.url) as running,
    ):
        answer = await send_streamed(running)
        assert (answer.status, answer.body) == (400, REJECTION + b" ")
        assert answer.field(b"x-last") == b"1"
        assert len(upstream.requests) == 2
        exchange = await running.sink.wait_for()
        assert (exchange.resend_count, exchange.error_type) == (1, "400")
        await send_streamed(running)
        assert len(upstream.requests) == 4


async def test_an_upstream_that_fails_at_the_second_attempt_is_a_502() -> None:
    """The client sees the last answer, and that is ours."""

    async def drop(connection: Connection) -> None:
        connection.reset()

    async with (
        ScriptedUpstream(Choosy(other=drop)) as upstream,
        running_proxy(upstream.url) as running,
    ):
        answer = await send_streamed(running)
    assert answer.status == 502
    assert answer.error["code"] == "upstream_closed_before_response"


@pytest.mark.parametrize("policy", ["always", "never"])
async def test_a_request_that_we_did_not_alter_is_never_sent_again(policy: str) -> None:
    """The client asked itself, or nobody did: the rejection is its own."""
    asked = STREAMED_CHAT[:-1] + ASK + b"}"
    async with (
        ScriptedUpstream(Choosy()) as upstream,
        running_proxy(upstream.url, usage=policy) as running,
    ):
        answer = await send_streamed(running, asked)
    assert (answer.status, answer.body) == (400, REJECTION)
    assert len(upstream.requests) == 1


async def test_other_statuses_are_no_rejection() -> None:
    """Only 400 and 422 are looked into."""
    async with (
        ScriptedUpstream(Choosy(status=b"500 Internal Server Error")) as upstream,
        running_proxy(upstream.url) as running,
    ):
        answer = await send_streamed(running)
    assert (answer.status, answer.body) == (500, REJECTION)
    assert len(upstream.requests) == 1


async def test_a_client_that_leaves_while_a_rejection_is_read_cancels_the_upstream() -> None:
    """Nothing is left open on any side."""
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    half = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 999\r\n\r\n{")
        half.set()
        gone.set_result(await connection.wait_closed_by_peer())

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(STREAMED_CHAT))
        await half.wait()
        await asyncio.sleep(0.05)
        writer.close()
        assert await gone < 0.2
        exchange = await running.sink.wait_for()
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
