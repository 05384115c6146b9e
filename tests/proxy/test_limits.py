"""How long a request's head may take, and how large things are."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from proxy.configure import read_limits
from proxy.limits import DownstreamLimits
from proxy.settings.settings import Settings
from tests.proxy.harness import ANSWER, Connection, relaying, request_bytes
from tests.proxy.raw_client import ask, parse_answer, read_answer, read_to_end
from tests.proxy.turned_time import TurnedLoop, run_turned

KEPT = request_bytes(close=False)


def test_the_limits_are_settings() -> None:
    """The defaults are the same; 0 is no time limit."""
    assert read_limits(Settings(max_connections=100)) == DownstreamLimits(max_connections=100)
    chosen = Settings(
        max_connections=100,
        header_timeout_seconds=1,
        client_idle_timeout_seconds=2,
        client_stall_timeout_seconds=3,
    )
    assert read_limits(chosen) == DownstreamLimits(
        max_connections=100, header_seconds=1, body_idle_seconds=2, stall_seconds=3
    )
    assert Settings().max_connections == DownstreamLimits().max_connections


# --- the time for a head


async def test_a_head_that_does_not_come_in_time_is_a_408() -> None:
    """Answered and closed, counted, and nothing reaches the upstream; trickling does not help."""
    async with relaying(header_timeout_seconds=0.3) as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        reading = asyncio.ensure_future(read_to_end(reader))
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
    assert running.server.state.refused_count == 1
    assert not upstream.requests
    assert not running.sink.frames


@pytest.mark.parametrize("sent", [b"", b"\r\n\r\n"], ids=["nothing", "blank lines"])
async def test_a_connection_on_which_no_head_begins_is_closed_without_a_word(
    sent: bytes,
) -> None:
    """Nobody asked anything, and nobody is counted as refused."""
    async with relaying(header_timeout_seconds=0.2) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(sent)
        assert await read_to_end(reader) == b""
        writer.close()
        assert running.server.state.refused_count == 0


def test_a_further_head_has_its_own_time_and_an_idle_connection_another() -> None:
    """Idle for longer than a head may take; then half of one, in pieces (on a turned loop)."""

    async def main(loop: TurnedLoop) -> None:
        async with relaying(header_timeout_seconds=10) as (upstream, running):
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
            late = parse_answer(await read_to_end(reader), reset=False)
            assert late.status == 408
            assert len(upstream.requests) == 2
            writer.close()

    run_turned(main)


def test_a_head_that_begins_late_on_an_idle_connection_has_its_time_too() -> None:
    """Whose time would be over in the middle of it (on a turned loop)."""

    async def main(loop: TurnedLoop) -> None:
        async with relaying(header_timeout_seconds=60) as (_, running):
            reader, writer = await asyncio.open_connection(*running.address)
            for _ in range(3):
                writer.write(KEPT)
                assert (await read_answer(reader)).startswith(b"HTTP/1.1 200")
                await loop.turn(70)  # of 75 that it may be idle
                writer.write(KEPT[:40])
                await asyncio.sleep(0.01)
                await loop.turn(20)
                writer.write(KEPT[40:])
                assert (await read_answer(reader)).startswith(b"HTTP/1.1 200")
            await loop.turn(80)
            assert await read_to_end(reader) == b""
            writer.close()

    run_turned(main)


async def test_half_a_head_behind_a_request_does_not_disturb_its_answer() -> None:
    """The time of the second begins anew when the first is answered."""

    async def script(connection: Connection) -> None:
        await asyncio.sleep(0.6)
        await connection.answer()

    async with relaying(script, header_timeout_seconds=0.2) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(KEPT + KEPT[:40])
        assert (await read_answer(reader)).endswith(ANSWER)
        assert parse_answer(await read_to_end(reader), reset=False).status == 408
        writer.close()


async def test_a_head_may_take_for_ever_where_no_time_is_set() -> None:
    """0: none."""
    async with relaying(header_timeout_seconds=0) as (_, running):
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


@pytest.mark.parametrize("part", ["field", "target"])
@pytest.mark.parametrize(("size", "status"), [(2048, 200), (2049, 431)])
async def test_a_part_of_the_largest_size_is_relayed_and_a_byte_more_refused(
    part: str, size: int, status: int
) -> None:
    """The value of a field, or the target; nothing of a refused head reaches the upstream."""
    head = head_of(size) if part == "field" else head_of(0).replace(b"/x", b"/" + b"x" * (size - 1))
    async with relaying(max_header_bytes=2048) as (upstream, running):
        answered = await ask(running.address, head)
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
    async with relaying(max_header_bytes=2048) as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(head[:cut])
        await asyncio.sleep(0.05 if cut else 0)
        writer.write(head[cut:] if cut else b"")
        raw = await read_to_end(reader)
        writer.close()
    assert parse_answer(raw, reset=False).status == status
    assert len(upstream.requests) == (status == 200)


async def test_a_head_that_never_ends_is_refused_while_it_comes() -> None:
    """No more of it is kept than may be."""
    async with relaying(max_header_bytes=2048) as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(b"GET / HTTP/1.1\r\n" + b"X-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 250)
        refused = parse_answer(await read_to_end(reader), reset=False)
        assert refused.status == 431
        assert refused.error["message"] == "The request's head is longer than 8192 bytes."
        assert not upstream.requests
        writer.close()


@pytest.mark.parametrize(
    "framing",
    [
        b"2;" + b"a" * 9000 + b"\r\nhi\r\n0\r\n\r\n",
        b"0\r\n" + b"X-A: %b\r\n" % (b"a" * 90) * 100 + b"\r\n",
    ],
    ids=["an extension", "trailers"],
)
async def test_what_frames_a_request_s_body_is_bounded(framing: bytes) -> None:
    """Extensions of a chunk and trailers are no place to hide a flood in: 400, and no request."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with relaying(max_header_bytes=2048) as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(head)
        await asyncio.sleep(0.02)
        writer.write(framing)
        refused = parse_answer(await read_to_end(reader), reset=False)
        writer.close()
    assert (refused.status, refused.error["code"]) == (400, "invalid_request_body")
    assert "extensions or trailers" in refused.error["message"]
    assert not upstream.requests
