"""Upstreams that reject the option that asks for usage.

See ``docs/contract/promises.md#rejections``.
"""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Any

import pytest

from telemetry.observing.exchange import Outcome
from tests.proxy.harness import (
    ASKING_CHAT,
    DONE,
    STREAM,
    STREAMED_CHAT,
    Connection,
    RunningProxy,
    relaying,
    request_bytes,
)
from tests.proxy.observed_ends import observe, total_of
from tests.proxy.raw_client import Answer, ask, until
from tests.proxy.turned_time import TurnedClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


WITHOUT = b"".join([*STREAM, DONE])
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
    async with relaying(Choosy(status=status)) as (upstream, running):
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
    assert total_of(exchange) is None


async def test_a_rejection_is_remembered_for_ten_minutes_per_target_and_model() -> None:
    """One extra request per ten minutes finds out whether the upstream has learned it."""
    clock = TurnedClock()
    async with relaying(Choosy(), clock=clock) as (upstream, running):

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


DOUBTFUL = {
    "400 for another reason": (OTHER_400, b"400 Bad Request"),
    "400, named past 64 KiB": (b" " * 140_000 + REJECTION, b"400 Bad Request"),
    "400, compressed": (gzip.compress(REJECTION), b"400 Bad Request"),
    "400 without a word": (b"", b"400 Bad Request"),
    "415": (b"{}", b"415 Unsupported Media Type"),
    "422": (b"{}", b"422 Unprocessable Entity"),
    "500 that names it": (REJECTION, b"500 Internal Server Error"),
    "501 that names it": (REJECTION, b"501 Not Implemented"),
}
CLEAR = {
    "500 that does not name it": (OTHER_400, b"500 Internal Server Error"),
    "503 that names it": (REJECTION, b"503 Service Unavailable"),
    "401": (REJECTION, b"401 Unauthorized"),
    "404": (REJECTION, b"404 Not Found"),
    "429": (REJECTION, b"429 Too Many Requests"),
}
each_doubtful = pytest.mark.parametrize(
    ("rejection", "status"), DOUBTFUL.values(), ids=DOUBTFUL.keys()
)


@each_doubtful
async def test_a_refusal_that_may_be_our_fault_is_not_the_clients_to_see(
    rejection: bytes, status: bytes
) -> None:
    """The request goes up once more as it was written, and for ten minutes only so."""
    clock = TurnedClock()
    async with relaying(Choosy(rejection, status=status), clock=clock) as (upstream, running):
        answer = await send_streamed(running)
        assert (answer.status, answer.body, answer.clean) == (200, WITHOUT, True)
        assert [request.body for request in upstream.requests][1:] == [STREAMED_CHAT]
        exchange = await running.sink.wait_for()
        assert (exchange.resend_count, exchange.rewrites) == (1, ())
        assert exchange.outcome is Outcome.COMPLETED
        for seconds, requests in ((599, 3), (2, 5)):
            clock.turn(seconds)
            assert (await send_streamed(running)).body == WITHOUT
            assert len(upstream.requests) == requests


@pytest.mark.parametrize(("rejection", "status"), CLEAR.values(), ids=CLEAR.keys())
async def test_an_error_that_is_not_our_fault_is_the_clients_to_see(
    rejection: bytes, status: bytes
) -> None:
    """Whatever it names: nothing is sent again."""
    async with relaying(Choosy(rejection, status=status)) as (upstream, running):
        answer = await send_streamed(running)
    assert (answer.status, answer.body) == (int(status[:3]), rejection)
    assert answer.field(b"content-length") == b"%d" % len(rejection)
    assert len(upstream.requests) == 1


@each_doubtful
async def test_an_outage_costs_one_more_request_in_ten_minutes(
    rejection: bytes, status: bytes
) -> None:
    """What is refused as the client wrote it, too, is not sent a second time again."""
    clock = TurnedClock()

    async def refuse(connection: Connection) -> None:
        await connection.answer(rejection, status=status, head=b"X-Last: 1\r\n")

    async with relaying(Choosy(rejection, status=status, other=refuse), clock=clock) as (
        upstream,
        running,
    ):
        answers = await asyncio.gather(*(send_streamed(running) for _ in range(20)))
        assert {(answer.status, answer.body) for answer in answers} == {
            (int(status[:3]), rejection)
        }
        assert [answer.field(b"x-last") for answer in answers].count(b"1") == 1
        assert len(upstream.requests) == 20 + 1
        await until(lambda: len(running.sink.exchanges) == 20)
        assert sorted(exchange.resend_count for exchange in running.sink.exchanges)[-2:] == [0, 1]
        clock.turn(599)
        await send_streamed(running)
        assert len(upstream.requests) == 20 + 2
        clock.turn(2)
        await send_streamed(running)
        assert len(upstream.requests) == 20 + 4


@each_doubtful
async def test_calls_that_are_refused_at_once_are_all_asked_again_once_one_was_taken(
    rejection: bytes, status: bytes
) -> None:
    """They wait for what the first of them finds out."""
    async with relaying(Choosy(rejection, status=status)) as (upstream, running):
        answers = await asyncio.gather(*(send_streamed(running) for _ in range(20)))
        assert {(answer.status, answer.body) for answer in answers} == {(200, WITHOUT)}
        assert len(upstream.requests) <= 40
        assert (await send_streamed(running)).body == WITHOUT
        assert upstream.last.body == STREAMED_CHAT


@each_doubtful
async def test_a_refusal_after_the_option_was_taken_is_the_clients_to_see(
    rejection: bytes, status: bytes
) -> None:
    """The option is not what is refused, unless it is named."""
    is_down = False

    async def script(connection: Connection) -> None:
        if is_down:
            await connection.answer(rejection, status=status)
        else:
            await connection.stream(*STREAM, DONE)

    async with relaying(script) as (upstream, running):
        assert (await send_streamed(running)).status == 200
        is_down = True
        answer = await send_streamed(running)
        assert (answer.status, answer.body) == (int(status[:3]), rejection)
        assert len(upstream.requests) == 2
        assert b"include_usage" in upstream.last.body
        other_model = STREAMED_CHAT.replace(b"m-1", b"m-2")
        await send_streamed(running, other_model)
        assert len(upstream.requests) == 4


async def test_an_option_that_was_taken_is_taken_back_where_it_is_named_later() -> None:
    """An upstream may unlearn it."""
    unlearned = False

    async def script(connection: Connection) -> None:
        await (Choosy()(connection) if unlearned else connection.stream(*STREAM, DONE))

    async with relaying(script) as (upstream, running):
        assert (await send_streamed(running)).status == 200
        unlearned = True
        assert (await send_streamed(running)).body == WITHOUT
        assert len(upstream.requests) == 3


@pytest.mark.parametrize("was_taken", [False, True])
async def test_an_outage_that_quotes_requests_costs_one_more_request_in_ten_minutes(
    was_taken: bool,
) -> None:
    """Validators quote what they refuse, and so name the option that they do not mean."""
    clock = TurnedClock()
    is_down = not was_taken

    async def script(connection: Connection) -> None:
        if is_down:
            quoted = b'{"detail":[{"msg":"bad","input":%b}]}' % connection.body
            await connection.answer(quoted, status=b"422 Unprocessable Entity")
        else:
            await connection.stream(*STREAM, DONE)

    async with relaying(script, clock=clock) as (upstream, running):
        if was_taken:
            assert (await send_streamed(running)).status == 200
            is_down = True
            upstream.requests.clear()
        assert {(await send_streamed(running)).status for _ in range(20)} == {422}
        assert len(upstream.requests) == 20 + 1
        is_down = False
        assert (await send_streamed(running)).status == 200
        assert (b"include_usage" in upstream.last.body) is was_taken
        clock.turn(601)
        assert (await send_streamed(running)).status == 200
        assert b"include_usage" in upstream.last.body


async def test_a_target_too_long_to_remember_is_not_asked_again_without_a_name() -> None:
    """Nothing would keep an outage from doubling its load."""
    target = b"/v1/chat/completions?v=" + b"x" * 2048
    async with relaying(Choosy(OTHER_400)) as (upstream, running):
        answer = await send_streamed(running, target=target)
    assert (answer.status, answer.body) == (400, OTHER_400)
    assert len(upstream.requests) == 1


async def test_a_client_that_leaves_its_second_request_leaves_the_question_to_the_next() -> None:
    """Nobody waits for what nobody will find out."""
    asked = asyncio.Event()
    second = 0

    async def hang_first(connection: Connection) -> None:
        nonlocal second
        second += 1
        if second == 1:
            asked.set()
            await connection.wait_closed_by_peer()
        else:
            await connection.stream(*STREAM, DONE)

    async with relaying(Choosy(OTHER_400, other=hang_first)) as (_, running):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(STREAMED_CHAT))
        await asked.wait()
        waiting = asyncio.ensure_future(send_streamed(running))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        writer.close()
        assert (await waiting).body == WITHOUT


@pytest.mark.parametrize("policy", ["always", "never"])
async def test_a_request_that_we_did_not_alter_is_never_sent_again(policy: str) -> None:
    """The client asked itself, or nobody did: the rejection is its own."""
    async with relaying(Choosy(), usage=policy) as (upstream, running):
        answer = await send_streamed(running, ASKING_CHAT)
    assert (answer.status, answer.body) == (400, REJECTION)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("size", [0, 65_535, 65_536, 65_537, 300_000])
@pytest.mark.parametrize("chunked", [True, False])
async def test_an_error_body_that_was_looked_into_is_relayed_whole(
    *, size: int, chunked: bool
) -> None:
    """Whatever its length and framing, and in its order, though part of it is there already."""
    body = bytes(ord("a") + i % 23 for i in range(size))

    async def script(connection: Connection) -> None:
        if not chunked:
            await connection.answer(body, status=b"400 Bad Request")
            return
        await connection.send(b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n")
        pieces = [body[i : i + 10_000] for i in range(0, len(body), 10_000)]
        await connection.send_chunks(*pieces)

    async with relaying(script) as (upstream, running):
        answer = await send_streamed(running)
        exchange = await running.sink.wait_for()
    assert (answer.status, answer.body, answer.clean) == (400, body, True)
    assert len(upstream.requests) == 2
    assert (exchange.resend_count, exchange.error_type) == (1, "400")


async def test_an_error_body_that_breaks_off_under_our_eyes_breaks_off_for_the_client() -> None:
    """What came of it is relayed, and its end is broken."""

    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 999\r\n\r\n", OTHER_400)
        connection.writer.close()

    answer, exchange, _ = await observe(script)
    assert (answer.status, answer.body, answer.clean) == (400, OTHER_400, False)
    assert exchange.error_type == "400"


async def test_a_second_rejection_is_relayed_and_remembered() -> None:
    """Two requests, no third; the next exchange goes up as the client wrote it."""

    async def reject_too(connection: Connection) -> None:
        await connection.answer(REJECTION + b" ", status=b"400 No", head=b"X-Last: 1\r\n")

    async with relaying(Choosy(other=reject_too)) as (upstream, running):
        answer = await send_streamed(running)
        assert (answer.status, answer.body) == (400, REJECTION + b" ")
        assert answer.field(b"x-last") == b"1"
        assert len(upstream.requests) == 2
        exchange = await running.sink.wait_for()
        assert (exchange.resend_count, exchange.error_type) == (1, "400")
        await send_streamed(running)
        assert len(upstream.requests) == 3
        assert upstream.last.body == STREAMED_CHAT


async def test_an_upstream_that_fails_at_the_second_attempt_is_a_502() -> None:
    """The client sees the last answer, and that is ours."""

    async def drop(connection: Connection) -> None:
        connection.reset()

    for rejection, requests in ((REJECTION, 2), (OTHER_400, 1)):
        async with relaying(Choosy(rejection, other=drop)) as (upstream, running):
            answer = await send_streamed(running)
            assert answer.status == 502
            assert answer.error["code"] == "upstream_closed_before_response"
            before = len(upstream.requests)
            assert (await send_streamed(running)).status in {400, 502}
            assert len(upstream.requests) - before == requests


async def test_a_client_that_leaves_while_a_rejection_is_read_cancels_the_upstream() -> None:
    """Nothing is left open on any side."""
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    half = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 999\r\n\r\n{")
        half.set()
        gone.set_result(await connection.wait_closed_by_peer())

    async with relaying(script) as (_, running):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(STREAMED_CHAT))
        await half.wait()
        await asyncio.sleep(0.05)
        writer.close()
        assert await gone < 0.2
        exchange = await running.sink.wait_for()
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
