"""Rows of the upstream: it answers oddly, in trickles, too short or too long.

Each call goes directly and through the real ``spantap serve``, and the client sees the same both
times; each has one span that says how it ended (``docs/contract/promises.md#endings``).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.faults.raw import added_latency, ask_all, make_call, seen_alike, wait_for_spans
from tests.faults.row import report_calls
from tests.faults.scripted import (
    EVENTS,
    Script,
    Stage,
    UpstreamThread,
    impatient_stage,
    in_chunks,
    sends,
    whole_stream,
)
from tests.faults.stage import scaled
from tests.proxy.harness import ANSWER, ASKING_CHAT, CHAT, DONE, STREAM, STREAMED_CHAT, Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


async def one_byte_at_a_time(_: UpstreamThread, connection: Connection) -> None:
    """Each byte of head, chunk framing and events in a segment of its own."""
    data = EVENTS + b"Transfer-Encoding: chunked\r\n\r\n"
    data += in_chunks(whole_stream(connection)) + b"0\r\n\r\n"
    for place in range(len(data)):
        await connection.send(data[place : place + 1])
        await asyncio.sleep(0)


async def after_interim_answers(_: UpstreamThread, connection: Connection) -> None:
    """What RFC 9110 section 15.2 lets come before an answer."""
    await connection.send(
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n",
        b"HTTP/1.1 199 Own\r\n\r\n",
    )
    await connection.stream(whole_stream(connection))


async def with_trailers(_: UpstreamThread, connection: Connection) -> None:
    """Fields behind the last chunk (RFC 9112 section 7.1.2)."""
    await connection.begin_stream(b"Trailer: X-Checksum, X-Cost\r\n")
    await connection.send_chunks(*STREAM, DONE, end=False)
    await connection.send(b"0\r\nX-Checksum: 1234\r\nX-Cost: 5\r\n\r\n")


async def wrong_length_of_a_stream(_: UpstreamThread, connection: Connection) -> None:
    """Shorter than the events: they break off where the length says."""
    data = whole_stream(connection)
    length = len(STREAM[0]) + 10
    await connection.send(EVENTS + b"Content-Length: %d\r\n\r\n" % length + data)
    connection.writer.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Relayed:
    """A fault that the client of a proxy sees as a direct client does.

    Attributes:
        name: what the upstream does.
        script: does it.
        whole: the answer ends as its framing says.
        body_bytes: how long the body is, ``None`` where that is the whole stream.
        outcome: of the span.
        tokens: the total that its usage tells; ``None`` where none came (R6).
        asks: the request's body.
    """

    name: str
    script: Script
    whole: bool
    body_bytes: int | None = None
    outcome: str
    tokens: int | None = None
    asks: bytes = STREAMED_CHAT


RELAYED = {
    "one_byte": Relayed(
        name="upstream sends one byte at a time",
        script=one_byte_at_a_time,
        whole=True,
        outcome="completed",
        tokens=5,
        asks=ASKING_CHAT,
    ),
    "head_chunked": Relayed(
        name="upstream sends a head and no chunk",
        script=sends(EVENTS + b"Transfer-Encoding: chunked\r\n\r\n"),
        whole=False,
        body_bytes=0,
        outcome="truncated",
    ),
    "head_counted": Relayed(
        name="upstream sends a head and nothing of 200 bytes",
        script=sends(JSON + b"Content-Length: 200\r\n\r\n"),
        whole=False,
        body_bytes=0,
        outcome="truncated",
        asks=CHAT,
    ),
    "head_until_close": Relayed(
        name="upstream sends a head and ends a stream without events",
        script=sends(EVENTS + b"Connection: close\r\n\r\n"),
        whole=True,
        body_bytes=0,
        outcome="truncated",
    ),
    "length_too_long": Relayed(
        name="upstream's Content-Length is too long",
        script=sends(JSON + b"Content-Length: 500\r\n\r\n" + ANSWER[:100]),
        whole=False,
        body_bytes=100,
        outcome="truncated",
        asks=CHAT,
    ),
    "length_too_short": Relayed(
        name="upstream's Content-Length is too short",
        script=sends(JSON + b"Content-Length: %d\r\n\r\n%b" % (len(ANSWER) - 50, ANSWER)),
        whole=True,
        body_bytes=len(ANSWER) - 50,
        outcome="truncated",
        asks=CHAT,
    ),
    "stream_too_short": Relayed(
        name="upstream's Content-Length is too short for its events",
        script=wrong_length_of_a_stream,
        whole=True,
        body_bytes=len(STREAM[0]) + 10,
        outcome="truncated",
    ),
    "interim": Relayed(
        name="upstream sends 100, 103 and 199 first",
        script=after_interim_answers,
        whole=True,
        outcome="completed",
        tokens=5,
    ),
    "trailers": Relayed(
        name="upstream sends trailers", script=with_trailers, whole=True, outcome="completed"
    ),
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One for all rows: what a row does must not hurt the next."""
    scripts = {name: case.script for name, case in RELAYED.items()}
    with impatient_stage(tmp_path_factory.mktemp("answers"), scripts) as running:
        yield running


@pytest.mark.parametrize("script", RELAYED)
async def test_an_odd_answer_reaches_the_client_as_a_direct_one_would(
    stage: Stage, script: str
) -> None:
    """Status, fields, bytes and kind of end are equal; one span each, which says how it ended."""
    case = RELAYED[script]
    calls = [make_call(script, case.asks) for _ in range(scaled(200, least=4))]
    direct = await ask_all(stage.upstream.port, calls, at_once=2)
    proxied = await ask_all(stage.spantap.port, calls, at_once=2)
    for answer in direct:
        assert (answer.code, answer.whole) == (200, case.whole)
        assert case.body_bytes in {None, len(answer.body)}
        assert case.body_bytes is not None or answer.body.endswith(DONE)
    alike = seen_alike(direct, proxied)
    spans = wait_for_spans(stage.spantap.store, calls)
    told = {(span.outcome, span.total_tokens) for span in spans.values()}
    assert told == {(case.outcome, case.tokens)}
    report_calls(
        case.name,
        calls,
        spans,
        client_saw=f"the same as directly, {alike:,} of {len(calls):,}: status, fields, bytes, "
        + ("whole" if case.whole else "cut off"),
        added_latency=added_latency(direct, proxied),
        figures={"spans": case.outcome},
    )
    await stage.assert_healthy()
