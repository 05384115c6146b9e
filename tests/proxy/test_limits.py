"""How many clients a worker serves at once, how long a head may take, and how large things are."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
from typing import TYPE_CHECKING, Any

import pytest

from proxy import overflow
from proxy.limits import MAX_OTHER_FILES, DownstreamLimits, fit_file_limit
from proxy.settings import Settings
from tests.proxy.harness import (
    ANSWER,
    CHAT,
    DONE,
    STREAM,
    STREAMED_CHAT,
    Connection,
    ScriptedUpstream,
    TurnedLoop,
    ask,
    parse_answer,
    read_answer,
    read_to_end,
    read_with_end,
    request_bytes,
)
from tests.proxy.limited import limited_proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.proxy.limited import Limited

KEPT = request_bytes(close=False)


async def answer(connection: Connection) -> None:
    await connection.answer()


@contextlib.asynccontextmanager
async def limited(**chosen: Any) -> AsyncIterator[tuple[Limited, ScriptedUpstream]]:
    """In front of an upstream that answers everything at once."""
    async with (
        ScriptedUpstream(answer) as upstream,
        limited_proxy(upstream.url, **chosen) as running,
    ):
        yield running, upstream


async def closed_by_peer(reader: asyncio.StreamReader) -> bytes:
    """What comes until the other side is gone, which it must be soon."""
    async with asyncio.timeout(5):
        return await read_to_end(reader)


# --- the number of connections (rule 7 of proxy.downstream)


@contextlib.asynccontextmanager
async def crowded(count: int, **chosen: int) -> AsyncIterator[Limited]:
    """As many idle connections as there may be."""
    async with limited(max_connections=count, **chosen) as (running, _):
        writers = []
        for _ in range(count):
            reader, writer = await asyncio.open_connection(*running.address)
            writer.write(KEPT)
            await read_answer(reader)
            writers.append(writer)
        try:
            yield running
        finally:
            for writer in writers:
                writer.transport.abort()


async def test_rule_7_one_connection_too_many_is_told_so_and_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """503, OpenAI-shaped; counted, and one log line whatever their number."""
    async with crowded(2) as running:
        for _ in range(3):
            refused = await ask(running.address, request_bytes())
            assert refused.status == 503
            assert refused.error["code"] == "too_many_connections"
            assert refused.error["type"] == "spantap_error"
            assert refused.field(b"connection") == b"close"
            assert (refused.clean, refused.reset) == (True, False)
        assert running.server.turned_away_count == 3
        assert running.server.refused_count == 0
    lines = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert lines == ["turned a client away: 2 connections are open (max_connections)"]


async def test_rule_7_those_that_are_open_go_on_undisturbed_and_room_is_used_again() -> None:
    """A stream flows to its end beside the refusals; a connection that ends makes room."""
    go_on = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(STREAM[0], end=False)
        await go_on.wait()
        await connection.send_chunks(*STREAM[1:], DONE)

    async with (
        ScriptedUpstream(script) as upstream,
        limited_proxy(upstream.url, max_connections=1) as running,
    ):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(STREAMED_CHAT))
        await reader.readuntil(STREAM[0])
        assert (await ask(running.address, request_bytes())).status == 503
        go_on.set()
        rest = await closed_by_peer(reader)
        assert rest.endswith(b"0\r\n\r\n")
        assert STREAM[-1] in rest
        writer.close()
        assert len(upstream.requests) == 1
        assert (await ask(running.address, request_bytes(STREAMED_CHAT))).status == 200


async def test_rule_7_connections_that_come_in_one_turn_of_the_loop_are_counted_too() -> None:
    """The limit holds for a burst."""
    go_on = asyncio.Event()

    async def script(connection: Connection) -> None:
        await go_on.wait()
        await connection.answer()

    async with (
        ScriptedUpstream(script) as upstream,
        limited_proxy(upstream.url, max_connections=5) as running,
    ):
        asking = [asyncio.ensure_future(ask(running.address, request_bytes())) for _ in range(40)]
        while running.server.turned_away_count < 35:
            await asyncio.sleep(0.001)
        go_on.set()
        statuses = sorted([(await each).status for each in asking])
        assert statuses == [200] * 5 + [503] * 35


async def test_who_is_turned_away_can_read_why_though_it_uploads() -> None:
    """What is sent is dropped: a reset would take the answer from the client."""
    async with crowded(1) as running:
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(request_bytes(b"x" * 3_000_000))
        async with asyncio.timeout(5):
            await writer.drain()
            raw, reset = await read_with_end(reader)
        assert parse_answer(raw, reset=reset).error["code"] == "too_many_connections"
        assert not reset
        writer.transport.abort()


async def test_who_is_turned_away_on_head_gets_no_body() -> None:
    """RFC 9110 section 9.3.2."""
    async with crowded(1) as running:
        refused = await ask(running.address, b"HEAD /v1/models HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (refused.status, refused.body) == (503, b"")


async def test_who_is_turned_away_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends nothing is closed all the same, and so many are held at most."""
    monkeypatch.setattr(overflow, "MAX_TURNED_AWAY_SECONDS", 0.3)
    monkeypatch.setattr("proxy.downstream_server.MAX_TURNED_AWAY", 1)
    async with crowded(1) as running:
        held, held_writer = await asyncio.open_connection(*running.address)
        while running.server.turned_away_count < 1:
            await asyncio.sleep(0.001)
        beyond, beyond_writer = await asyncio.open_connection(*running.address)
        assert await closed_by_peer(beyond) == b""
        assert not held.at_eof()
        assert await closed_by_peer(held) == b""
        # There is room for the next one to be told.
        assert (await ask(running.address, request_bytes())).status == 503
        held_writer.close()
        beyond_writer.close()


def test_there_are_no_more_connections_than_open_files(caplog: pytest.LogCaptureFixture) -> None:
    """Each takes two; what is set wins where it is less, and the operator is told where not."""
    assert fit_file_limit(4096, 1_048_576) == 4096
    assert fit_file_limit(4096, resource.RLIM_INFINITY) == 4096
    assert not caplog.records
    assert fit_file_limit(4096, 4096) == (4096 - MAX_OTHER_FILES) // 2
    assert fit_file_limit(4096, 64) == 16
    assert "raise it (ulimit -n)" in caplog.records[0].getMessage()


def test_the_limits_are_settings() -> None:
    """The defaults are the same; 0 is no time limit."""
    assert DownstreamLimits.of(Settings(max_connections=100)) == DownstreamLimits(
        max_connections=100
    )
    chosen = Settings(
        max_connections=100,
        header_timeout_seconds=1,
        client_idle_timeout_seconds=2,
        client_stall_timeout_seconds=3,
    )
    assert DownstreamLimits.of(chosen) == DownstreamLimits(
        max_connections=100, header_seconds=1, body_idle_seconds=2, stall_seconds=3
    )
    assert Settings().max_connections == DownstreamLimits().max_connections


async def test_a_server_that_goes_down_ends_those_that_it_turned_away() -> None:
    """They are no open connections, but they are open."""
    async with crowded(1) as running:
        reader, writer = await asyncio.open_connection(*running.address)
        while not running.server.turned_away_count:
            await asyncio.sleep(0.001)
        await running.server.shutdown(0.1)
        assert await closed_by_peer(reader) == b""
        writer.close()


# --- the time for a head


async def test_rule_7_a_head_that_does_not_come_in_time_is_a_408() -> None:
    """Answered and closed, counted, and nothing reaches the upstream; trickling does not help."""
    async with limited(header_timeout_seconds=0.3) as (running, upstream):
        reader, writer = await asyncio.open_connection(*running.address)
        reading = asyncio.ensure_future(closed_by_peer(reader))
        for byte in request_bytes()[:-1]:
            if reading.done():
                break
            with contextlib.suppress(ConnectionError):
                writer.write(bytes([byte]))
                await writer.drain()
            await asyncio.sleep(0.02)
        late = parse_answer(await reading, reset=False)
        writer.close()
    assert (late.status, late.error["code"]) == (408, "request_timeout")
    assert late.field(b"connection") == b"close"
    assert running.server.refused_count == 1
    assert not upstream.requests
    assert not running.sink.frames


@pytest.mark.parametrize("sent", [b"", b"\r\n\r\n"], ids=["nothing", "blank lines"])
async def test_rule_7_a_connection_on_which_no_head_begins_is_closed_without_a_word(
    sent: bytes,
) -> None:
    """Nobody asked anything, and nobody is counted as refused."""
    async with limited(header_timeout_seconds=0.2) as (running, _):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(sent)
        assert await closed_by_peer(reader) == b""
        writer.close()
        assert running.server.refused_count == 0


def test_rule_7_a_further_head_has_its_own_time_and_an_idle_connection_another() -> None:
    """Idle for longer than a head may take; then half of one, in pieces (on a turned loop)."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, TurnedLoop)
        async with limited(header_timeout_seconds=10) as (running, upstream):
            reader, writer = await asyncio.open_connection(*running.address)
            for _ in range(2):
                writer.write(KEPT[:40])
                await asyncio.sleep(0.01)
                await loop.turn(6)
                writer.write(KEPT[40:])
                assert (await read_answer(reader)).startswith(b"HTTP/1.1 200")
                await loop.turn(30)  # nor does the timer of that head fire later
            writer.write(KEPT[:40])
            await asyncio.sleep(0.01)
            await loop.turn(6)
            writer.write(KEPT[40:50])
            await asyncio.sleep(0.01)
            assert not reader.at_eof()
            await loop.turn(6)
            late = parse_answer(await closed_by_peer(reader), reset=False)
            assert late.status == 408
            assert len(upstream.requests) == 2
            writer.close()

    with asyncio.Runner(loop_factory=TurnedLoop) as runner:
        runner.run(main())


async def test_rule_7_half_a_head_behind_a_request_does_not_disturb_its_answer() -> None:
    """The time of the second begins anew when the first is answered."""

    async def script(connection: Connection) -> None:
        await asyncio.sleep(0.6)
        await connection.answer()

    async with (
        ScriptedUpstream(script) as upstream,
        limited_proxy(upstream.url, header_timeout_seconds=0.2) as running,
    ):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(KEPT + KEPT[:40])
        assert (await read_answer(reader)).endswith(ANSWER)
        assert parse_answer(await closed_by_peer(reader), reset=False).status == 408
        writer.close()


async def test_a_head_may_take_for_ever_where_no_time_is_set() -> None:
    """0: none."""
    async with limited(header_timeout_seconds=0) as (running, _):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(KEPT[:40])
        await asyncio.sleep(0.3)
        writer.write(KEPT[40:])
        assert (await read_answer(reader)).startswith(b"HTTP/1.1 200")
        writer.close()


# --- sizes


def head_of(value_bytes: int, *, fields: int = 1) -> bytes:
    """A request with fields whose value has so many bytes."""
    field = b"X-A: %b\r\n" % (b"a" * value_bytes)
    return b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + field * fields + b"\r\n"


@pytest.mark.parametrize(("size", "status"), [(2048, 200), (2049, 431)])
async def test_a_field_of_the_largest_size_is_relayed_and_a_byte_more_refused(
    size: int, status: int
) -> None:
    """Its value, that is; nothing of a refused head reaches the upstream."""
    async with limited(max_header_bytes=2048) as (running, upstream):
        answered = await ask(running.address, head_of(size))
    assert answered.status == status
    assert len(upstream.requests) == (status == 200)


@pytest.mark.parametrize(("size", "status"), [(2048, 200), (2049, 431)])
async def test_a_target_of_the_largest_size_is_relayed_and_a_byte_more_refused(
    size: int, status: int
) -> None:
    """The request line without method and version."""
    async with limited(max_header_bytes=2048) as (running, upstream):
        target = b"/" + b"a" * (size - 1)
        data = b"GET %b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % target
        answered = await ask(running.address, data)
    assert answered.status == status
    assert len(upstream.requests) == (status == 200)


@pytest.mark.parametrize(("surplus", "status"), [(0, 200), (1, 431)])
@pytest.mark.parametrize("cut", [None, 3000], ids=["one read", "two reads"])
async def test_a_head_of_four_largest_fields_is_relayed_and_a_byte_more_refused(
    surplus: int, status: int, cut: int | None
) -> None:
    """The head as a whole has a limit, however many fields it has and however it comes."""
    head = head_of(1000, fields=8)
    head = head.replace(b"X-A: ", b"X-A: %b" % (b"b" * (4 * 2048 + surplus - len(head))), 1)
    async with limited(max_header_bytes=2048) as (running, upstream):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(head[:cut])
        await asyncio.sleep(0.05 if cut else 0)
        writer.write(head[cut:] if cut else b"")
        raw = await closed_by_peer(reader)
        writer.close()
    assert parse_answer(raw, reset=False).status == status
    assert len(upstream.requests) == (status == 200)


async def test_a_head_that_never_ends_is_refused_while_it_comes() -> None:
    """No more of it is kept than may be."""
    async with limited(max_header_bytes=2048) as (running, upstream):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(b"GET / HTTP/1.1\r\n" + b"X-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 250)
        refused = parse_answer(await closed_by_peer(reader), reset=False)
        assert refused.status == 431
        assert refused.error["message"] == "The request's head is longer than 8192 bytes."
        assert not upstream.requests
        writer.close()


@pytest.mark.parametrize("size", [2048, 2049])
async def test_a_chat_of_the_largest_size_is_recorded_and_a_larger_one_relayed(size: int) -> None:
    """A byte more is not refused: it is relayed, and its span says that the body is missing."""
    body = CHAT[:-1] + b" " * (size - len(CHAT)) + b"}"
    async with limited(max_body_bytes=2048) as (running, upstream):
        answered = await ask(running.address, request_bytes(body))
        exchange = await running.sink.wait_for()
        assert upstream.last.body == body
    assert (answered.status, answered.body) == (200, ANSWER)
    assert exchange.request_body == (body if size == 2048 else None)
    assert exchange.request_size_bytes >= 2048


@pytest.mark.parametrize(
    "framing",
    [
        b"2;" + b"a" * 9000 + b"\r\nhi\r\n0\r\n\r\n",
        b"0\r\n" + b"X-A: aaaaaaaaa\r\n" * 600 + b"\r\n",
    ],
    ids=["an extension", "trailers"],
)
async def test_what_frames_a_request_s_body_is_bounded(framing: bytes) -> None:
    """Extensions of a chunk and trailers are no place to hide a flood in: 400, and no request."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with limited(max_header_bytes=2048) as (running, upstream):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(head)
        await asyncio.sleep(0.02)
        writer.write(framing)
        refused = parse_answer(await closed_by_peer(reader), reset=False)
        writer.close()
    assert (refused.status, refused.error["code"]) == (400, "invalid_request_body")
    assert "extensions or trailers" in refused.error["message"]
    assert not upstream.requests
