"""How an answer ends: whole, as an error the provider tells of, or cut off.

See ``docs/contract/promises.md#endings``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from codec.chat.chunk import ERROR_FINISH_REASONS
from telemetry.observing.exchange import Outcome
from tests.proxy.harness import (
    ANSWER,
    ASKING_CHAT,
    DONE,
    STREAM,
    USAGE_EVENT,
    USAGE_OPTION,
    Connection,
    chunk_event,
    request_bytes,
)
from tests.proxy.observed_ends import (
    STREAMED,
    STREAMED_10,
    WHOLE,
    assert_nothing_invented,
    observe,
    total_of,
)
from tests.telemetry.observed import content

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


# --- complete


async def test_a_plain_answer_that_is_complete_is_ok() -> None:
    """Everything reaches the client, and the record has answer, usage and finish reason."""
    answer, exchange, _ = await observe(lambda connection: connection.answer(), WHOLE)
    assert (answer.status, answer.body, answer.clean) == (200, ANSWER, True)
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.error_type is None
    assert content(exchange) == "Hello"
    assert total_of(exchange) == 4


async def test_a_stream_that_is_complete_is_ok_and_its_caused_usage_event_hidden() -> None:
    """The client sees the stream it would have had; the record has the usage."""
    answer, exchange, upstream = await observe(
        lambda connection: connection.stream(*STREAM, USAGE_EVENT, DONE)
    )
    assert answer.clean
    assert answer.body == b"".join([*STREAM, DONE])
    assert USAGE_OPTION in upstream.last.body
    assert exchange.outcome is Outcome.COMPLETED
    assert total_of(exchange) == 5
    assert exchange.rewrites == ("stream_options.include_usage",)


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
    assert content(exchange) == "Hello"


ERROR_BODY = (
    b'{"error":{"message":"Slow down.","type":"requests","param":null,"code":"rate_limit"}}'
)


@pytest.mark.parametrize("request_bytes_", [WHOLE, STREAMED], ids=["plain", "streamed"])
@pytest.mark.parametrize("status", [b"429 Too Many Requests", b"500 Oops", b"404 Not Found"])
async def test_an_error_status_is_relayed_as_it_is(request_bytes_: bytes, status: bytes) -> None:
    """Same status, headers and bytes; the record has the status and the provider's message."""
    answer, exchange, upstream = await observe(
        lambda c: c.answer(ERROR_BODY, status=status, head=b"Retry-After: 7\r\nx-A: b\r\n"),
        request_bytes_,
    )
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
    assert content(exchange) == "Hello"
    assert_nothing_invented(exchange)


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
CLIENTS = {
    # We rewrite, so the answer is chunked whatever the upstream's framing was.
    "chunked": STREAMED,
    # The client asked itself, so the upstream's framing stays.
    "verbatim": request_bytes(ASKING_CHAT),
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
    assert content(exchange) == "Hello"
    assert_nothing_invented(exchange)


@pytest.mark.parametrize("events", [STREAM[:3], []], ids=["some", "nothing"])
async def test_a_clean_end_without_done_or_finish_reason_is_truncated(events: list[bytes]) -> None:
    """The client's stream ends as the upstream's did, but the span says what is missing."""
    answer, exchange, _ = await observe(lambda connection: connection.stream(*events))
    assert (answer.body, answer.clean) == (b"".join(events), True)
    assert (exchange.outcome, exchange.error_type) == (Outcome.TRUNCATED, "stream_truncated")
    if events:
        assert_nothing_invented(exchange)


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


@pytest.mark.parametrize(
    ("body", "error_type"),
    [(ANSWER, None), (ANSWER[:40], "stream_truncated"), (b"", "stream_truncated")],
    ids=["whole", "half", "nothing"],
)
async def test_a_plain_answer_that_the_connection_ends_is_whole_if_it_can_be_read(
    body: bytes, error_type: str | None
) -> None:
    """Without any framing a half answer ends as cleanly as a whole one."""

    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", body)
        connection.writer.close()

    answer, exchange, _ = await observe(script, WHOLE)
    assert (answer.body, answer.clean) == (body, True)
    assert exchange.error_type == error_type


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
    answer, exchange, _ = await observe(
        lambda c: c.stall_after(*STREAM[:3]), idle_timeout_seconds=0.1
    )
    assert (answer.body, answer.clean) == (b"".join(STREAM[:3]), False)
    assert (exchange.outcome, exchange.error_type) == (Outcome.TIMEOUT, "timeout")
    assert content(exchange) == "Hello"
    assert_nothing_invented(exchange)
