"""Every way an exchange ends, over real sockets (``design.md`` section 6).

Each test says what the client sees, how its stream ends, and what the record holds; every one
passes through :func:`observe` or :func:`the_end`, which see to it that there is exactly one
``begin`` and one ``end`` (R3).
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from codec.chunk import ERROR_FINISH_REASONS
from telemetry.exchange import EndKind, Exchange, Outcome
from telemetry.frames import Begin, End
from tests.proxy.harness import (
    ANSWER,
    CHAT,
    DONE,
    STREAM,
    STREAMED_CHAT,
    USAGE_EVENT,
    Answer,
    Connection,
    RunningProxy,
    ScriptedUpstream,
    ask,
    chunk_event,
    frames_of,
    request_bytes,
    running_proxy,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


STREAMED = request_bytes(STREAMED_CHAT)
WHOLE = request_bytes(CHAT)
# Close-delimited answers: HTTP/1.0 knows no chunks.
STREAMED_10 = STREAMED.replace(b"HTTP/1.1", b"HTTP/1.0")


class Observed(NamedTuple):
    answer: Answer
    exchange: Exchange
    upstream: ScriptedUpstream


async def the_end(running: RunningProxy) -> Exchange:
    """The one record, after a while in which a second end could have come."""
    exchange: Exchange = await running.sink.wait_for()
    await asyncio.sleep(0.01)
    assert len(frames_of(running, Begin)) == 1
    assert len(frames_of(running, End)) == 1
    assert len(running.sink.exchanges) == 1
    assert len(running.proxy.open_exchanges) == 0
    return exchange


async def observe(
    script: Callable[[Connection], Awaitable[None]], request: bytes = STREAMED, **settings: Any
) -> Observed:
    """One request through the proxy, to its end on both sides."""
    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, **settings) as running,
    ):
        answer = await ask(running.address, request)
        return Observed(answer, await the_end(running), upstream)


def text_of(exchange: Exchange) -> str | None:
    assert exchange.response is not None
    return exchange.response.choices[0].message.content


def assert_nothing_invented(exchange: Exchange) -> None:
    """No usage and no finish reason that did not come (R6)."""
    assert exchange.response is not None
    assert exchange.response.usage is None
    assert all(choice.finish_reason is None for choice in exchange.response.choices)


# --- complete


async def test_a_plain_answer_that_is_complete_is_ok() -> None:
    """Everything reaches the client, and the record has answer, usage and finish reason."""
    answer, exchange, _ = await observe(lambda connection: connection.answer(), WHOLE)
    assert (answer.status, answer.body, answer.clean) == (200, ANSWER, True)
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.error_type is None
    assert text_of(exchange) == "Hello"
    assert exchange.response is not None
    assert exchange.response.usage is not None
    assert exchange.response.usage.total == 4


async def test_a_stream_that_is_complete_is_ok_and_its_caused_usage_event_hidden() -> None:
    """The client sees the stream it would have had; the record has the usage."""
    answer, exchange, upstream = await observe(
        lambda connection: connection.stream(*STREAM, USAGE_EVENT, DONE)
    )
    assert answer.clean
    assert answer.body == b"".join([*STREAM, DONE])
    assert b'"stream_options":{"include_usage":true}' in upstream.last.body
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.response is not None
    assert exchange.response.usage is not None
    assert exchange.response.usage.total == 5
    assert exchange.rewrites == ("stream_options.include_usage",)


@pytest.mark.parametrize("policy", ["cancel", "drain"])
async def test_a_client_that_closes_at_done_got_everything(policy: str) -> None:
    """Once [DONE] was relayed the exchange is complete, though the upstream is still open."""

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(*STREAM, USAGE_EVENT, DONE, end=False)
        await connection.wait_closed_by_peer(1)

    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, on_disconnect=policy) as running,
    ):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(STREAMED)
        await reader.readuntil(b"[DONE]\n\n")
        writer.close()
        exchange = await the_end(running)
        assert frames_of(running, End)[0].kind is EndKind.CLIENT_GONE
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.response is not None
    assert exchange.response.usage is not None


async def test_a_client_that_closes_after_finish_and_usage_got_everything() -> None:
    """Every choice's finish reason and the usage complete an answer as [DONE] does."""

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(*STREAM, USAGE_EVENT, end=False)
        await connection.wait_closed_by_peer()

    asked = STREAMED_CHAT[:-1] + b',"stream_options":{"include_usage":true}}'
    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(asked))
        await reader.readuntil(b'"total_tokens":5}}\n\n')
        writer.close()
        exchange = await the_end(running)
    assert exchange.outcome is Outcome.COMPLETED


async def test_done_without_a_finish_reason_is_ok_with_an_anomaly() -> None:
    """A finish reason that did not come is absent, and said to be."""
    answer, exchange, _ = await observe(lambda connection: connection.stream(*STREAM[:3], DONE))
    assert (answer.body, answer.clean) == (b"".join([*STREAM[:3], DONE]), True)
    assert exchange.outcome is Outcome.COMPLETED
    assert "no_finish_reason" in exchange.anomalies
    assert_nothing_invented(exchange)


# --- errors the provider tells of


@pytest.mark.parametrize("reason", sorted(ERROR_FINISH_REASONS))
async def test_a_finish_reason_that_means_an_error_is_one(reason: str) -> None:
    """The client gets the stream as received; the span's error type is the word."""
    events = [*STREAM[:3], chunk_event(finish=reason), DONE]
    answer, exchange, _ = await observe(lambda connection: connection.stream(*events))
    assert (answer.body, answer.clean) == (b"".join(events), True)
    assert (exchange.outcome, exchange.error_type) == (Outcome.STREAM_ERROR, reason)
    assert text_of(exchange) == "Hello"


ERROR_BODY = (
    b'{"error":{"message":"Slow down.","type":"requests","param":null,"code":"rate_limit"}}'
)


@pytest.mark.parametrize("request_bytes_", [WHOLE, STREAMED], ids=["plain", "streamed"])
@pytest.mark.parametrize("status", [b"429 Too Many Requests", b"500 Oops", b"404 Not Found"])
async def test_an_error_status_is_relayed_as_it_is(request_bytes_: bytes, status: bytes) -> None:
    """Same status, headers and bytes; the record has the status and the provider's message."""

    async def script(connection: Connection) -> None:
        await connection.answer(ERROR_BODY, status=status, head=b"Retry-After: 7\r\nx-A: b\r\n")

    answer, exchange, upstream = await observe(script, request_bytes_)
    assert answer.raw.startswith(b"HTTP/1.1 " + status + b"\r\n")
    assert (answer.body, answer.clean) == (ERROR_BODY, True)
    assert answer.fields[:4] == [
        (b"Content-Type", b"application/json"),
        (b"Retry-After", b"7"),
        (b"x-A", b"b"),
        (b"Content-Length", b"%d" % len(ERROR_BODY)),
    ]
    assert len(upstream.requests) == 1
    assert exchange.outcome is Outcome.UPSTREAM_ERROR
    assert exchange.error_type == status[:3].decode()
    assert exchange.error_message == "Slow down."
    assert exchange.response_status == int(status[:3])


async def test_an_error_object_inside_a_stream_is_an_error() -> None:
    """As received for the client; the record has message and the output up to there."""
    error = b'data: {"error":{"message":"Overloaded","type":"overloaded_error","code":null}}\n\n'
    events = [*STREAM[:3], error, DONE]
    answer, exchange, _ = await observe(lambda connection: connection.stream(*events))
    assert (answer.status, answer.body, answer.clean) == (200, b"".join(events), True)
    assert exchange.outcome is Outcome.STREAM_ERROR
    assert exchange.error_type == "overloaded_error"
    assert exchange.error_message == "Overloaded"
    assert text_of(exchange) == "Hello"
    assert_nothing_invented(exchange)


# --- no answer


async def no_answer(url: str, **settings: Any) -> tuple[Answer, Exchange]:
    async with running_proxy(url, **settings) as running:
        answer = await ask(running.address, STREAMED)
        exchange = await the_end(running)
    assert answer.clean
    assert answer.field(b"content-type") == b"application/json"
    assert exchange.response_status is None
    assert exchange.response is None
    assert exchange.error_message == answer.error["message"]
    assert url in answer.error["message"]
    assert "'default'" in answer.error["message"]
    return answer, exchange


def unused_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def test_an_upstream_that_refuses_connections_is_a_502() -> None:
    """OpenAI-shaped, naming the upstream and the cause."""
    answer, exchange = await no_answer(f"http://127.0.0.1:{unused_port()}")
    assert answer.status == 502
    assert answer.error["code"] == "upstream_unreachable"
    assert "Connect call failed" in answer.error["message"] or (
        "refused" in answer.error["message"]
    )
    assert (exchange.outcome, exchange.error_type) == (Outcome.CONNECT_ERROR, "connection_error")


async def test_an_upstream_without_an_address_is_a_502() -> None:
    """A name that does not resolve says so."""
    answer, exchange = await no_answer("http://nowhere.invalid:81")
    assert answer.status == 502
    assert answer.error["code"] == "upstream_unreachable"
    assert "(" in answer.error["message"]
    assert exchange.error_type == "connection_error"


async def test_an_upstream_that_speaks_no_tls_is_a_502() -> None:
    """https:// in front of a plain server is the second most common mistake."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        answer, exchange = await no_answer(f"https://127.0.0.1:{port}")
    assert answer.status == 502
    assert answer.error["code"] == "upstream_tls_error"
    assert exchange.error_type == "connection_error"


async def test_an_answer_that_does_not_begin_in_time_is_a_504() -> None:
    """The first-byte timeout; the request is cancelled at the upstream."""
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def script(connection: Connection) -> None:
        gone.set_result(await connection.wait_closed_by_peer())

    async with ScriptedUpstream(script) as upstream:
        answer, exchange = await no_answer(upstream.url, first_byte_timeout_seconds=0.1)
        assert await gone < 1
    assert answer.status == 504
    assert answer.error["code"] == "upstream_timeout"
    assert (exchange.outcome, exchange.error_type) == (Outcome.TIMEOUT, "timeout")


@pytest.mark.parametrize(
    "junk",
    [
        b"SMTP ready\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 300 + b"\r\n",
    ],
    ids=["no-http", "bad-length", "unasked-upgrade", "too-many-fields"],
)
async def test_an_answer_that_is_no_valid_http_is_a_502(junk: bytes) -> None:
    """It is not guessed at."""

    async def script(connection: Connection) -> None:
        await connection.send(junk)
        await connection.wait_closed_by_peer()

    async with ScriptedUpstream(script) as upstream:
        answer, exchange = await no_answer(upstream.url)
    assert answer.status == 502
    assert answer.error["code"] == "upstream_invalid_response"
    assert exchange.outcome is Outcome.UPSTREAM_ERROR
    assert exchange.error_type == "invalid_response"


@pytest.mark.parametrize("reset", [False, True], ids=["fin", "rst"])
async def test_a_kept_connection_that_drops_a_request_is_a_502_and_nothing_is_resent(
    *, reset: bool
) -> None:
    """A POST is never silently sent again: the upstream may have acted on it."""

    async def script(connection: Connection) -> None:
        if connection.number == 1:
            await connection.answer()
        elif reset:
            connection.reset()
        else:
            connection.writer.close()

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        assert (await ask(running.address, WHOLE)).status == 200
        answer = await ask(running.address, WHOLE)
        exchange = await running.sink.wait_for(2)
    assert answer.status == 502
    assert answer.error["code"] == "upstream_closed_before_response"
    assert upstream.url in answer.error["message"]
    assert (exchange.outcome, exchange.error_type) == (Outcome.CONNECT_ERROR, "connection_error")
    assert len(upstream.requests) == 2
    assert upstream.connections == 1


async def test_an_end_that_came_while_a_connection_was_idle_is_noticed_before_use() -> None:
    """The next request goes out on a new connection, once."""

    async def script(connection: Connection) -> None:
        await connection.answer()
        connection.writer.close()

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        for _ in range(3):
            assert (await ask(running.address, WHOLE)).status == 200
            await asyncio.sleep(0.02)
    assert len(upstream.requests) == upstream.connections == 3


async def test_what_comes_on_an_idle_connection_is_no_answer() -> None:
    """A second answer that nobody asked for is not given to the next request."""

    async def script(connection: Connection) -> None:
        if connection.number == 1:
            await connection.answer()
            await asyncio.sleep(0.02)
            await connection.answer(b'{"whose":"not yours"}')
        else:
            await connection.answer()

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        await ask(running.address, WHOLE)
        await asyncio.sleep(0.05)
        assert (await ask(running.address, WHOLE)).body == ANSWER
    assert upstream.connections == 2


# --- cut off in the middle


async def cut_chunked_fin(connection: Connection) -> None:
    await connection.begin_stream()
    await connection.send_chunks(*STREAM[:3], end=False)
    connection.writer.close()


async def cut_in_chunk_fin(connection: Connection) -> None:
    await connection.begin_stream()
    await connection.send_chunks(*STREAM[:2], end=False)
    await connection.send(b"%x\r\n%b" % (len(STREAM[2]) + 9, STREAM[2]))
    connection.writer.close()


async def cut_in_chunk_rst(connection: Connection) -> None:
    await connection.begin_stream()
    await connection.send_chunks(*STREAM[:2], end=False)
    await connection.send(b"%x\r\n%b" % (len(STREAM[2]) + 9, STREAM[2]))
    await asyncio.sleep(0.05)  # a reset may overtake what the kernel has not sent yet
    connection.reset()


async def cut_by_bad_chunk(connection: Connection) -> None:
    await connection.begin_stream()
    await connection.send_chunks(*STREAM[:3], end=False)
    await asyncio.sleep(0.02)
    await connection.send(b"no size\r\n")
    await connection.wait_closed_by_peer()


async def cut_counted_fin(connection: Connection) -> None:
    await connection.send(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n",
        *STREAM[:3],
    )
    connection.writer.close()


async def cut_unframed_rst(connection: Connection) -> None:
    await connection.send(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", *STREAM[:3]
    )
    await asyncio.sleep(0.05)
    connection.reset()


CUTS = [
    cut_chunked_fin,
    cut_in_chunk_fin,
    cut_in_chunk_rst,
    cut_by_bad_chunk,
    cut_counted_fin,
    cut_unframed_rst,
]
ASKED = STREAMED_CHAT[:-1] + b',"stream_options":{"include_usage":true}}'
CLIENTS = {
    # We rewrite, so the answer is chunked whatever the upstream's framing was.
    "chunked": STREAMED,
    # The client asked itself, so the upstream's framing stays.
    "verbatim": request_bytes(ASKED),
    "http10": STREAMED_10,
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
async def test_a_stream_that_breaks_off_never_ends_cleanly(
    cut: Callable[[Connection], Awaitable[None]], client: str
) -> None:
    """Every byte that arrived, then a broken end; the partial output is kept."""
    answer, exchange, _ = await observe(cut, CLIENTS[client])
    assert answer.status == 200
    assert answer.body == b"".join(STREAM[:3])
    assert not answer.clean
    if client == "http10":
        assert answer.reset
    assert (exchange.outcome, exchange.error_type) == (Outcome.TRUNCATED, "stream_truncated")
    assert exchange.error_message
    assert text_of(exchange) == "Hello"
    assert_nothing_invented(exchange)


async def test_a_clean_end_without_done_or_finish_reason_is_truncated() -> None:
    """The client's stream ends as the upstream's did, but the span says what is missing."""
    answer, exchange, _ = await observe(lambda connection: connection.stream(*STREAM[:3]))
    assert (answer.body, answer.clean) == (b"".join(STREAM[:3]), True)
    assert (exchange.outcome, exchange.error_type) == (Outcome.TRUNCATED, "stream_truncated")
    assert_nothing_invented(exchange)


async def test_an_empty_stream_is_truncated() -> None:
    """A stream that brought nothing is no empty answer."""
    answer, exchange, _ = await observe(lambda connection: connection.stream())
    assert (answer.body, answer.clean) == (b"", True)
    assert exchange.error_type == "stream_truncated"


async def test_a_plain_answer_that_breaks_off_is_truncated() -> None:
    """Half a JSON answer keeps its length header and its broken end."""

    async def script(connection: Connection) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER[:40])
        )
        connection.writer.close()

    answer, exchange, _ = await observe(script, WHOLE)
    assert (answer.body, answer.clean) == (ANSWER[:40], False)
    assert exchange.error_type == "stream_truncated"


async def test_an_upstream_that_breaks_off_after_done_is_complete() -> None:
    """[DONE] was relayed: how the connection ended adds nothing to the span."""

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(*STREAM, USAGE_EVENT, DONE, end=False)
        connection.writer.close()

    answer, exchange, _ = await observe(script)
    assert (answer.body, answer.clean) == (b"".join([*STREAM, DONE]), False)
    assert exchange.outcome is Outcome.COMPLETED


async def test_a_stream_that_falls_silent_is_cut_by_the_idle_timeout() -> None:
    """ERROR ``timeout``, partial output kept, the client's stream broken."""

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(*STREAM[:3], end=False)
        await connection.wait_closed_by_peer()

    answer, exchange, _ = await observe(script, idle_timeout_seconds=0.1)
    assert (answer.body, answer.clean) == (b"".join(STREAM[:3]), False)
    assert (exchange.outcome, exchange.error_type) == (Outcome.TIMEOUT, "timeout")
    assert text_of(exchange) == "Hello"
    assert_nothing_invented(exchange)


# --- the client goes


async def leave_by_close(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def leave_by_reset(writer: asyncio.StreamWriter) -> None:
    Connection(asyncio.StreamReader(), writer).reset()


async def leave_by_half_close(writer: asyncio.StreamWriter) -> None:
    writer.write_eof()


LEAVES = [leave_by_close, leave_by_reset, leave_by_half_close]
leaves = pytest.mark.parametrize("leave", LEAVES, ids=lambda leave: leave.__name__)


@leaves
async def test_a_client_that_leaves_between_chunks_is_noticed_within_100_ms(
    leave: Callable[[asyncio.StreamWriter], Awaitable[None]],
) -> None:
    """S0.15, N4: the upstream is cancelled at once, the record marked and without usage."""
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(*STREAM[:2], end=False)
        gone.set_result(await connection.wait_closed_by_peer())

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(STREAMED)
        await reader.readuntil(b"Hel")
        await leave(writer)
        assert await gone < 0.1
        exchange = await the_end(running)
        writer.transport.abort()
    assert (exchange.outcome, exchange.error_type) == (Outcome.CLIENT_DISCONNECTED, None)
    assert text_of(exchange) == "Hel"
    assert_nothing_invented(exchange)


@leaves
async def test_a_client_that_leaves_before_the_head_is_noticed_within_100_ms(
    leave: Callable[[asyncio.StreamWriter], Awaitable[None]],
) -> None:
    """A model that is still thinking is told to stop."""
    asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def script(connection: Connection) -> None:
        asked.set_result(None)
        gone.set_result(await connection.wait_closed_by_peer())

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(WHOLE)
        await asked
        await leave(writer)
        assert await gone < 0.1
        exchange = await the_end(running)
        writer.transport.abort()
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
    assert exchange.response is None


@leaves
async def test_a_client_that_leaves_during_a_big_write_is_noticed_within_100_ms(
    leave: Callable[[asyncio.StreamWriter], Awaitable[None]],
) -> None:
    """Bytes that wait to be written do not hide that nobody reads them."""
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        big = chunk_event('"content":"%s"' % ("x" * 60_000))
        try:
            while True:
                await connection.send_chunks(big, end=False)
        except ConnectionError:
            gone.set_result(time.monotonic())

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        # A small buffer, and nobody reads it.
        _, writer = await asyncio.open_connection(*running.address, limit=1024)
        writer.write(STREAMED)
        await asyncio.sleep(0.3)
        assert not gone.done()
        left = time.monotonic()
        await leave(writer)
        assert await gone - left < 0.1
        exchange = await the_end(running)
        writer.transport.abort()
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
    assert_nothing_invented(exchange)


async def test_a_client_that_leaves_during_its_own_upload_never_reaches_the_upstream() -> None:
    """Half a request is none."""

    async def script(connection: Connection) -> None:
        raise AssertionError("nothing was asked")

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(WHOLE[:-10])
        await asyncio.sleep(0.05)
        writer.close()
        exchange = await the_end(running)
        assert upstream.connections == 0
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED


# --- the client goes, and the policy is to drain


@leaves
@pytest.mark.parametrize("when", ["before_head", "between_chunks"])
async def test_the_policy_drain_learns_the_usage_of_whoever_left(
    when: str, leave: Callable[[asyncio.StreamWriter], Awaitable[None]]
) -> None:
    """The answer is read to its end; the span is marked cancelled and has its usage."""
    left = asyncio.Event()

    async def script(connection: Connection) -> None:
        if when == "before_head":
            left.set()
            await asyncio.sleep(0.1)
        await connection.begin_stream()
        await connection.send_chunks(*STREAM[:2], end=False)
        await asyncio.sleep(0.1)
        await connection.send_chunks(*STREAM[2:], USAGE_EVENT, DONE)

    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, on_disconnect="drain") as running,
    ):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(STREAMED)
        if when == "before_head":
            await left.wait()
        else:
            await reader.readuntil(b"Hel")
        await leave(writer)
        exchange = await the_end(running)
        writer.transport.abort()
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
    assert text_of(exchange) == "Hello"
    assert exchange.response is not None
    assert exchange.response.usage is not None
    assert exchange.response.usage.total == 5


@pytest.mark.parametrize("limit", ["MAX_DRAIN_BYTES", "MAX_DRAIN_SECONDS"])
async def test_draining_has_limits(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past 60 s or 8 MiB the upstream is cancelled after all."""
    monkeypatch.setattr(f"proxy.exchange.{limit}", 0.2 if limit.endswith("SECONDS") else 3_000)
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        start = time.monotonic()
        try:
            while True:
                await connection.send_chunks(STREAM[1], end=False)
                await asyncio.sleep(0.01)
        except ConnectionError:
            gone.set_result(time.monotonic() - start)

    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, on_disconnect="drain") as running,
    ):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(STREAMED)
        await reader.readuntil(b"Hel")
        writer.close()
        assert 0.05 < await gone < 1
        exchange = await the_end(running)
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
    assert_nothing_invented(exchange)


@pytest.mark.parametrize("answers", [True, False])
async def test_draining_outlasts_an_upstream_that_fails(*, answers: bool) -> None:
    """Whatever happens after the client has gone, it is the client that ended the exchange."""

    async def script(connection: Connection) -> None:
        await asyncio.sleep(0.05)
        if answers:
            await connection.begin_stream()
            await connection.send_chunks(*STREAM[:2], end=False)
            await asyncio.sleep(0.05)
        connection.writer.close()

    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, on_disconnect="drain") as running,
    ):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(STREAMED)
        await asyncio.sleep(0.03)
        writer.close()
        exchange = await the_end(running)
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED


# --- we cut it at shutdown


@pytest.mark.parametrize("policy", ["cancel", "drain"])
@pytest.mark.parametrize("request_", [STREAMED, STREAMED_10], ids=["chunked", "http10"])
async def test_what_is_open_at_the_drain_deadline_is_cut(request_: bytes, policy: str) -> None:
    """The client's stream ends broken; ERROR ``drain_deadline``, partial output kept."""

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(*STREAM[:3], end=False)
        await connection.wait_closed_by_peer()

    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, drain_seconds=0.2, on_disconnect=policy) as running,
    ):
        asking = asyncio.ensure_future(ask(running.address, request_))
        await asyncio.sleep(0.1)
        start = time.monotonic()
        await running.proxy.drain()
        assert 0.15 < time.monotonic() - start < 2
        answer = await asking
        exchange = await the_end(running)
    assert (answer.body, answer.clean) == (b"".join(STREAM[:3]), False)
    assert answer.reset == (request_ is STREAMED_10)
    assert (exchange.outcome, exchange.error_type) == (Outcome.DRAIN_DEADLINE, "drain_deadline")
    assert text_of(exchange) == "Hello"
    assert_nothing_invented(exchange)


@pytest.mark.parametrize("policy", ["cancel", "drain"])
async def test_a_request_without_an_answer_is_cut_at_the_deadline_too(policy: str) -> None:
    """Before the head the connection just ends."""

    async def script(connection: Connection) -> None:
        await connection.wait_closed_by_peer()

    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, drain_seconds=0.1, on_disconnect=policy) as running,
    ):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(WHOLE)
        await asyncio.sleep(0.05)
        await running.proxy.drain()
        exchange = await the_end(running)
        writer.transport.abort()
    assert exchange.error_type == "drain_deadline"


async def test_the_deadline_ends_the_draining_of_a_client_that_had_left() -> None:
    """It was the client that ended this exchange, not the shutdown."""

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(*STREAM[:2], end=False)
        await connection.wait_closed_by_peer()

    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, drain_seconds=0.1, on_disconnect="drain") as running,
    ):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(STREAMED)
        await reader.readuntil(b"Hel")
        writer.close()
        await asyncio.sleep(0.05)
        assert len(running.proxy.open_exchanges) == 1
        await running.proxy.drain()
        exchange = await the_end(running)
    assert (exchange.outcome, exchange.error_type) == (Outcome.CLIENT_DISCONNECTED, None)


async def test_an_exchange_that_ends_before_the_deadline_is_not_cut() -> None:
    """Draining lets what is open end."""

    async def script(connection: Connection) -> None:
        await asyncio.sleep(0.2)
        await connection.answer()

    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(upstream.url, drain_seconds=5) as running,
    ):
        asking = asyncio.ensure_future(ask(running.address, WHOLE))
        await asyncio.sleep(0.05)
        await running.proxy.drain()
        assert (await asking).body == ANSWER
        assert (await the_end(running)).outcome is Outcome.COMPLETED


async def test_a_second_cancellation_does_not_lose_the_end() -> None:
    """A client that resets while its exchange is being cut: one ``end`` all the same."""

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(*STREAM[:2], end=False)
        await connection.wait_closed_by_peer()

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(STREAMED)
        await reader.readuntil(b"Hel")
        assert running.proxy.open_exchanges.cut_all() == 1
        await leave_by_reset(writer)
        running.proxy.open_exchanges.cut_all()
        exchange = await the_end(running)
    assert exchange.outcome is Outcome.DRAIN_DEADLINE


# --- our own fault


@pytest.mark.parametrize("request_", [STREAMED, STREAMED_10], ids=["chunked", "http10"])
async def test_a_fault_of_ours_in_the_middle_is_a_broken_end(
    request_: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ERROR ``relay_error``; the stream is never shown as complete."""

    def fail(*_: object) -> bytes:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("codec.usage_filter.UsageFilter.finish", fail)
    answer, exchange, _ = await observe(lambda connection: connection.stream(*STREAM[:3]), request_)
    assert answer.body == b"".join(STREAM[:3])
    assert not answer.clean
    assert answer.reset == (request_ is STREAMED_10)
    assert (exchange.outcome, exchange.error_type) == (Outcome.RELAY_ERROR, "relay_error")
    assert "secret" not in (exchange.error_message or "")


async def test_a_fault_of_ours_before_the_head_is_a_500(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI-shaped, without detail, and recorded."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("proxy.exchange.rewrite_request", fail)
    answer, exchange, _ = await observe(lambda connection: connection.answer())
    assert answer.status == 500
    assert answer.error["code"] == "internal_error"
    assert b"secret" not in answer.raw
    assert exchange.error_type == "relay_error"
