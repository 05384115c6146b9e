"""Rows of the client: it leaves, half-closes, reads or sends slowly, pipelines.

Each call goes through the real ``spantap serve``. Whatever a client does hurts itself at most: one
span each says how its call ended, the upstream is let go where the client is gone, and others are
served meanwhile (``docs/contract/promises.md#endings``).
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.faults.raw import (
    ASK_SECONDS,
    Call,
    Seen,
    added_latency,
    ask_all,
    connected,
    make_call,
    parse_answer,
    seen_alike,
    wait_for_spans,
)
from tests.faults.row import report_calls
from tests.faults.scripted import (
    Script,
    Stage,
    UpstreamThread,
    hang_mid_stream,
    running_stage,
    trace_of,
    whole_stream,
)
from tests.faults.stage import scaled
from tests.proxy.harness import CHAT, DONE, STREAM, USAGE_EVENT, Connection, chunk_event
from tests.proxy.raw_client import read_answer, reset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Leave = Callable[[asyncio.StreamWriter], None]

IDLE_SECONDS = 1.0
"""The idle timeout: shorter than a slow client reads, which is not the upstream's silence."""

SLOW_SECONDS = 3
"""How long a slow client is slow."""

SMALL_BUFFER_BYTES = 64 * 1024
"""Of a slow client's socket: the kernel must not read in its stead."""

BIG_EVENT = chunk_event('"content":"%s"' % ("x" * 8192))
BIG_EVENTS = 2048
"""16 MiB in all: more than the buffers between upstream and client hold, which the row checks."""


async def hang_after_done(upstream: UpstreamThread, connection: Connection) -> None:
    """A whole stream, and no end."""
    await connection.begin_stream()
    await connection.send_chunks(*STREAM, USAGE_EVENT, DONE, end=False)
    await upstream.hang(connection)


async def big(upstream: UpstreamThread, connection: Connection) -> None:
    """More than all buffers on the way hold; tells when the most of it is sent."""
    sock = connection.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER_BYTES)
    await connection.begin_stream()
    await connection.send_chunks(*[BIG_EVENT] * BIG_EVENTS, end=False)
    upstream.release(trace_of(connection))
    await connection.send_chunks(whole_stream(connection))


async def numbered(_: UpstreamThread, connection: Connection) -> None:
    """An answer that says which request it is for."""
    await connection.answer(connection.request_line + b"\n" + connection.body)


SCRIPTS: dict[str, Script] = {
    "hang": UpstreamThread.hang,
    "hang_mid_stream": hang_mid_stream,
    "hang_after_done": hang_after_done,
    "big": big,
    "numbered": numbered,
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One for all rows: what a client does must not hurt the next."""
    environment = {"SPANTAP_IDLE_TIMEOUT_SECONDS": str(IDLE_SECONDS)}
    with running_stage(tmp_path_factory.mktemp("clients"), SCRIPTS, environment) as running:
        yield running


# --- it leaves


LEAVES: dict[str, Leave] = {
    "closes": asyncio.StreamWriter.close,
    "resets": reset,
    "half-closes": asyncio.StreamWriter.write_eof,  # counts as leaving, though it still reads
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When it leaves.

    Attributes:
        script: of the upstream, which then does nothing until it is let go.
        after: the last bytes that the client reads before; none: before the head.
        span: outcome and status.
        tokens: the total that the span tells; ``None`` where none came (R6).
    """

    script: str
    after: bytes = b""
    span: tuple[str, str] = ("client_disconnected", "UNSET")
    tokens: int | None = None


MOMENTS = {
    "before the head": Moment(script="hang"),
    "mid-stream": Moment(script="hang_mid_stream", after=b'"lo"'),
    "right after [DONE]": Moment(
        script="hang_after_done", after=DONE, span=("completed", "OK"), tokens=5
    ),
}


@pytest.mark.parametrize("how", LEAVES)
@pytest.mark.parametrize("when", MOMENTS)
async def test_a_client_that_leaves_lets_the_upstream_go(stage: Stage, when: str, how: str) -> None:
    """One span each: cancelled without invented usage, or complete where all was relayed."""
    moment = MOMENTS[when]
    calls = [make_call(moment.script) for _ in range(scaled(100, least=4))]
    noticed = []
    for start in range(0, len(calls), 10):
        batch = calls[start : start + 10]
        noticed += await asyncio.gather(
            *(leave(stage, call, moment, LEAVES[how]) for call in batch)
        )
    spans = wait_for_spans(stage.spantap.store, calls)
    told = {(span.outcome, span.status, span.total_tokens) for span in spans.values()}
    assert told == {(*moment.span, moment.tokens)}
    report_calls(
        f"client {how} {when}",
        calls,
        spans,
        client_saw="all that it waited for",
        added_latency=f"the upstream let go within {statistics.median(noticed):.0f} ms (p50), "
        f"{max(noticed):.0f} ms at most",
        figures={"spans": " ".join(moment.span)},
    )
    await stage.assert_healthy()


async def leave(stage: Stage, call: Call, moment: Moment, how: Leave) -> float:
    """Make a call and leave it; after how many milliseconds the upstream noticed."""
    async with connected(stage.spantap.port) as (reader, writer):
        writer.write(call.data)
        if moment.after:
            await reader.readuntil(moment.after)
        else:
            await stage.upstream.wait_asked(call)
        left = time.monotonic()
        how(writer)
        return (await stage.upstream.wait_gone(call) - left) * 1000


async def test_a_client_that_leaves_within_its_request_is_never_passed_on(stage: Stage) -> None:
    """Half a request is none: the upstream sees nothing, and the span says the client has gone."""
    calls = [make_call("healthy") for _ in range(scaled(100, least=4))]
    before = stage.upstream.connection_count
    for call in calls:
        async with connected(stage.spantap.port) as (_, writer):
            writer.write(call.data[:-10])
            writer.close()
            await writer.wait_closed()
    spans = wait_for_spans(stage.spantap.store, calls)
    assert {span.outcome for span in spans.values()} == {"client_disconnected"}
    assert stage.upstream.connection_count == before
    report_calls(
        "client leaves within its request",
        calls,
        spans,
        client_saw="nothing",
        figures={"requests that reached the upstream": 0},
    )


# --- it is slow


async def test_a_client_that_reads_a_byte_a_second_gets_all_in_the_end(stage: Stage) -> None:
    """Its upstream waits (backpressure), which is no silence; others are served meanwhile."""
    calls = [make_call("big") for _ in range(scaled(6, least=2))]
    direct = await ask_all(stage.upstream.port, [make_call("big")])
    idle = sum(stage.spantap.rss_bytes().values())
    slow = asyncio.gather(*(read_slowly(stage.spantap.port, call) for call in calls))
    await asyncio.sleep(SLOW_SECONDS / 2)
    busy = sum(stage.spantap.rss_bytes().values())
    others = [make_call("healthy") for _ in range(scaled(200, least=10))]
    alone = await ask_all(stage.upstream.port, others, at_once=2)
    beside = await ask_all(stage.spantap.port, others, at_once=2)
    assert seen_alike(alone, beside) == len(others)
    waits = [call for call in calls if not stage.upstream.is_released(call)]
    assert len(waits) == len(calls), "the buffers hold it all: it is no test of backpressure"
    assert not slow.done()
    assert seen_alike(direct * len(calls), await slow) == len(calls)
    spans = wait_for_spans(stage.spantap.store, [*calls, *others])
    assert {span.outcome for span in spans.values()} == {"completed"}
    # So many bytes may pass a limit of what is observed (R5): no usage is made up then.
    without = [span for span in spans.values() if span.total_tokens is None]
    assert {span.total_tokens for span in spans.values()} <= {5, None}
    assert len(without) <= len(calls)
    report_calls(
        f"client reads 1 byte/s for {SLOW_SECONDS} s of {len(direct[0].body) >> 20} MiB",
        [*calls, *others],
        spans,
        client_saw=f"the same as directly, {len(calls)} slow ones and {len(others)} others",
        added_latency=f"of the others: {added_latency(alone, beside)}",
        figures={
            "memory for each slow client": f"{(busy - idle) / len(calls) / 1024:.0f} KiB",
            "idle timeout meanwhile": f"{IDLE_SECONDS} s",
            "spans without usage, past a limit of what is observed": len(without),
        },
    )


async def read_slowly(port: int, call: Call) -> Seen:
    """A byte a second for a while, and then the rest."""
    async with connected(port, buffer_bytes=SMALL_BUFFER_BYTES) as (reader, writer):
        writer.write(call.data)
        raw = bytearray()
        for _ in range(SLOW_SECONDS):
            raw += await reader.readexactly(1)
            await asyncio.sleep(1)
        while piece := await reader.read(1 << 20):
            raw += piece
    return parse_answer(bytes(raw))


async def test_a_client_that_sends_slowly_is_heard_to_the_end(stage: Stage) -> None:
    """A byte at a time, head and body: the same answer, and one request at the upstream."""
    calls = [make_call("numbered", CHAT) for _ in range(scaled(40, least=4))]
    direct = await ask_all(stage.upstream.port, calls)
    begun = time.monotonic()
    proxied = list(await asyncio.gather(*(send_slowly(stage.spantap.port, call) for call in calls)))
    seconds = time.monotonic() - begun
    alike = seen_alike(direct, proxied)
    spans = wait_for_spans(stage.spantap.store, calls)
    report_calls(
        "client sends one byte at a time",
        calls,
        spans,
        client_saw=f"the same as directly, {alike} of {len(calls)}",
        added_latency=f"none to speak of: {len(calls[0].data)} bytes took {seconds:.1f} s",
    )


async def send_slowly(port: int, call: Call) -> Seen:
    """A segment for each byte."""
    async with connected(port) as (reader, writer):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(len(call.data)):
            writer.write(call.data[place : place + 1])
            await asyncio.sleep(0.002)
        return parse_answer(await reader.read(-1))


# --- it pipelines


async def test_a_client_that_pipelines_gets_its_answers_in_order(stage: Stage) -> None:
    """Twenty requests in one write: twenty answers in their order, as directly; one span each."""
    pipelines = [
        [
            make_call("numbered", b'{"model":"m-%d","messages":[]}' % n, close=False)
            for n in range(20)
        ]
        for _ in range(scaled(50, least=2))
    ]
    direct = [await pipeline(stage.upstream.port, calls) for calls in pipelines]
    proxied = [await pipeline(stage.spantap.port, calls) for calls in pipelines]
    assert [len(set(seen)) for seen in direct] == [20] * len(pipelines)
    alike = sum(seen_alike(*pair) for pair in zip(direct, proxied, strict=True))
    calls = [call for pipelined in pipelines for call in pipelined]
    spans = wait_for_spans(stage.spantap.store, calls)
    report_calls(
        "client pipelines 20 requests in one write",
        calls,
        spans,
        client_saw=f"the same as directly and in order, {alike:,} of {len(calls):,}",
        added_latency="not measured",
    )


async def test_a_client_that_leaves_its_pipeline_has_a_span_for_what_was_begun(
    stage: Stage,
) -> None:
    """Of three requests in one write the first ends with the client, the others never begin."""
    first = [make_call("hang", close=False) for _ in range(scaled(50, least=4))]
    before = stage.upstream.connection_count
    for call in first:
        rest = [make_call("healthy", close=False) for _ in range(2)]
        async with connected(stage.spantap.port) as (_, writer):
            writer.write(b"".join(each.data for each in [call, *rest]))
            await stage.upstream.wait_asked(call)
        await stage.upstream.wait_gone(call)
    spans = wait_for_spans(stage.spantap.store, first)
    assert {span.outcome for span in spans.values()} == {"client_disconnected"}
    assert stage.upstream.connection_count <= before + len(first)
    report_calls(
        "client leaves while the first of three pipelined requests is served",
        first,
        spans,
        client_saw="nothing",
        figures={"later requests passed on": 0},
    )


async def pipeline(port: int, calls: list[Call]) -> list[Seen]:
    """Send all at once on one connection; the answers in order of their coming."""
    async with connected(port) as (reader, writer), asyncio.timeout(ASK_SECONDS):
        writer.write(b"".join(call.data for call in calls))
        return [parse_answer(await read_answer(reader)) for _ in calls]
