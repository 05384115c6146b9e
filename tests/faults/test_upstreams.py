"""Rows of the upstream: it refuses, hangs, breaks off, trickles, or speaks odd HTTP.

Each call goes through the real ``spantap serve`` and, where there is something to compare, directly
too. The client sees what a direct one sees, or an error that names the cause; each call has one
span that says how it ended (``design.md`` section 6).
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.e2e.processes import find_free_port
from tests.faults.raw import (
    Call,
    Seen,
    added_latency,
    ask,
    ask_all,
    count_lost,
    make_call,
    seen_alike,
    wait_for_spans,
)
from tests.faults.row import Row, report
from tests.faults.scripted import Script, Stage, UpstreamThread, running_stage, whole_stream
from tests.faults.stage import scaled
from tests.proxy.harness import ANSWER, CHAT, DONE, STREAM, STREAMED_CHAT, Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_SECONDS = 1.0
"""To the first byte and between two: as short as a busy machine allows."""

JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def in_chunks(*pieces: bytes) -> bytes:
    """The pieces, each as a chunk."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


# --- scripts


def sends(*pieces: bytes) -> Script:
    """A script of constant bytes, and the end of the connection."""

    async def script(_: UpstreamThread, connection: Connection) -> None:
        await connection.send(*pieces)
        connection.writer.close()

    return script


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


async def closes(_: UpstreamThread, connection: Connection) -> None:
    """No answer at all."""
    connection.writer.close()


async def hang_mid_stream(upstream: UpstreamThread, connection: Connection) -> None:
    """Three events, and silence."""
    await connection.begin_stream()
    await connection.send_chunks(*STREAM[:3], end=False)
    await upstream.hang(connection)


async def reset_mid_chunk(upstream: UpstreamThread, connection: Connection) -> None:
    """Three events and a half, and RST."""
    await connection.begin_stream()
    await connection.send(in_chunks(*STREAM[:3]) + HALF)
    # A reset takes from a peer what it has not read yet.
    await upstream.wait_released(connection)
    connection.reset()


async def bad_chunk(upstream: UpstreamThread, connection: Connection) -> None:
    """Three events, and a chunk of no size in the read that ends the third one's."""
    await connection.begin_stream()
    await connection.send(in_chunks(*STREAM[:3]).removesuffix(b"\r\n"))
    await upstream.wait_released(connection)
    await connection.send(b"\r\nzz\r\n\r\n")
    connection.writer.close()


HALF = in_chunks(STREAM[3])[:20]
"""Half an event, in half a chunk."""

SCRIPTS: dict[str, Script] = {
    "hang": UpstreamThread.hang,
    "hang_mid_stream": hang_mid_stream,
    "reset_mid_chunk": reset_mid_chunk,
    "bad_chunk": bad_chunk,
    "one_byte": one_byte_at_a_time,
    "head_chunked": sends(EVENTS + b"Transfer-Encoding: chunked\r\n\r\n"),
    "head_counted": sends(JSON + b"Content-Length: 200\r\n\r\n"),
    "head_until_close": sends(EVENTS + b"Connection: close\r\n\r\n"),
    "half_a_head": sends(EVENTS),
    "length_too_long": sends(JSON + b"Content-Length: 500\r\n\r\n" + ANSWER[:100]),
    "length_too_short": sends(JSON + b"Content-Length: %d\r\n\r\n%b" % (len(ANSWER) - 50, ANSWER)),
    "stream_too_short": wrong_length_of_a_stream,
    "interim": after_interim_answers,
    "trailers": with_trailers,
    "closes": closes,
    "no_http": sends(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One for all rows: what a row does must not hurt the next."""
    refuses = {
        "name": "refuses",
        "prefix": "/refuses",
        "url": f"http://127.0.0.1:{find_free_port()}",
    }
    environment = {
        "SPANTAP_FIRST_BYTE_TIMEOUT_SECONDS": str(TIMEOUT_SECONDS),
        "SPANTAP_IDLE_TIMEOUT_SECONDS": str(TIMEOUT_SECONDS),
        "SPANTAP_UPSTREAMS": json.dumps([refuses]),
    }
    with running_stage(tmp_path_factory.mktemp("upstreams"), SCRIPTS, environment) as running:
        yield running


def assert_spans(stage: Stage, calls: list[Call], outcome: str, status: str) -> int:
    """One span each, which says how it ended and invents no usage; how many are lost."""
    spans = wait_for_spans(stage.spantap.store, calls)
    for span in spans.values():
        assert (span.outcome, span.status) == (outcome, status)
        assert span.total_tokens == (5 if outcome == "completed" else None)
    return count_lost(calls, spans)


# --- nothing to relay: the client gets an error of ours

NO_ANSWER = {
    "refuses": (502, "upstream_unreachable", "connect_error"),
    "hang": (504, "upstream_timeout", "timeout"),
    "closes": (502, "upstream_closed_before_response", "connect_error"),
    "half_a_head": (502, "upstream_closed_before_response", "connect_error"),
    "no_http": (502, "upstream_invalid_response", "upstream_error"),
}
"""Script: status and code of the error, outcome of the span."""

NO_ANSWER_NAMES = {
    "refuses": "upstream refuses connections",
    "hang": "upstream hangs before its head",
    "closes": "upstream closes instead of answering",
    "half_a_head": "upstream closes within its head",
    "no_http": "upstream answers what is no HTTP",
}


@pytest.mark.parametrize("script", NO_ANSWER)
async def test_an_upstream_that_does_not_answer_is_an_error_that_names_the_cause(
    stage: Stage, script: str
) -> None:
    """OpenAI-shaped 502 or 504, at once or at the timeout; one ERROR span each."""
    status, code, outcome = NO_ANSWER[script]
    calls = [make_call(script) for _ in range(scaled(100, least=4))]
    seen = await ask_all(stage.spantap.port, calls, at_once=25)
    for answer in seen:
        assert (answer.code, answer.whole) == (status, True)
        error = json.loads(answer.body)["error"]  # noqa: TID251 - as a client would
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] == code
        assert "http://127.0.0.1:" in error["message"]
    lost = assert_spans(stage, calls, outcome, "ERROR")
    slowest = max(answer.seconds for answer in seen)
    report(
        Row(
            name=NO_ANSWER_NAMES[script],
            sent=len(calls),
            lost=lost,
            client_saw=f"{status} {code}, OpenAI-shaped, naming upstream and cause",
            added_latency=f"slowest answer {slowest:.2f} s, the timeout being {TIMEOUT_SECONDS} s"
            if script == "hang"
            else f"slowest answer {slowest * 1000:.0f} ms",
            figures={"spans": f"ERROR {outcome}"},
        )
    )
    assert lost == 0
    await stage.assert_healthy()


# --- relayed as it is, whatever it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Relayed:
    """A fault that the client of a proxy sees as a direct client does.

    Attributes:
        whole: the answer ends as its framing says.
        body_bytes: how long the body is, ``None`` where that is the whole stream.
        outcome: of the span.
        tokens: the total that its usage tells; ``None`` where none came (R6).
        asks: the request's body.
    """

    name: str
    whole: bool
    body_bytes: int | None = None
    outcome: str
    tokens: int | None = None
    asks: bytes = STREAMED_CHAT


ASKING = STREAMED_CHAT[:-1] + b',"stream_options":{"include_usage":true}}'

RELAYED = {
    "one_byte": Relayed(
        name="upstream sends one byte at a time",
        whole=True,
        outcome="completed",
        tokens=5,
        asks=ASKING,
    ),
    "head_chunked": Relayed(
        name="upstream sends a head and no chunk",
        whole=False,
        body_bytes=0,
        outcome="truncated",
    ),
    "head_counted": Relayed(
        name="upstream sends a head and nothing of 200 bytes",
        whole=False,
        body_bytes=0,
        outcome="truncated",
        asks=CHAT,
    ),
    "head_until_close": Relayed(
        name="upstream sends a head and ends a stream without events",
        whole=True,
        body_bytes=0,
        outcome="truncated",
    ),
    "length_too_long": Relayed(
        name="upstream's Content-Length is too long",
        whole=False,
        body_bytes=100,
        outcome="truncated",
        asks=CHAT,
    ),
    "length_too_short": Relayed(
        name="upstream's Content-Length is too short",
        whole=True,
        body_bytes=len(ANSWER) - 50,
        outcome="completed",
        asks=CHAT,
    ),
    "stream_too_short": Relayed(
        name="upstream's Content-Length is too short for its events",
        whole=True,
        body_bytes=len(STREAM[0]) + 10,
        outcome="truncated",
    ),
    "interim": Relayed(
        name="upstream sends 100, 103 and 199 first", whole=True, outcome="completed", tokens=5
    ),
    "trailers": Relayed(name="upstream sends trailers", whole=True, outcome="completed"),
}
"""By script."""


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
    lost = count_lost(calls, spans)
    report(
        Row(
            name=case.name,
            sent=len(calls),
            lost=lost,
            client_saw=f"the same as directly, {alike:,} of {len(calls):,}: status, fields, bytes, "
            + ("whole" if case.whole else "cut off"),
            added_latency=added_latency(direct, proxied),
            figures={"spans": case.outcome},
        )
    )
    assert lost == 0
    await stage.assert_healthy()


# --- in the middle of a stream


async def test_an_upstream_that_falls_silent_is_cut_by_the_idle_timeout(stage: Stage) -> None:
    """Every byte that came, then a broken end; ERROR ``timeout``; the upstream is let go."""
    calls = [make_call("hang_mid_stream") for _ in range(scaled(100, least=4))]
    seen = await ask_all(stage.spantap.port, calls, at_once=25)
    for answer in seen:
        assert (answer.code, answer.body, answer.whole) == (200, b"".join(STREAM[:3]), False)
    for call in calls:
        await stage.upstream.wait_gone(call)
    lost = assert_spans(stage, calls, "timeout", "ERROR")
    report(
        Row(
            name="upstream hangs mid-stream",
            sent=len(calls),
            lost=lost,
            client_saw="every byte that came, then a stream cut off",
            added_latency=f"cut {max(answer.seconds for answer in seen):.2f} s after the call "
            f"began, the idle timeout being {TIMEOUT_SECONDS} s",
            figures={"spans": "ERROR timeout", "upstream connections let go": len(calls)},
        )
    )
    assert lost == 0
    await stage.assert_healthy()


BREAKS = {
    "reset_mid_chunk": ("upstream resets mid-chunk", HALF.partition(b"\r\n")[2]),
    "bad_chunk": ("upstream sends a chunk of no size", b""),
}
"""Script: name of the row, what the client sees after three events."""


@pytest.mark.parametrize("script", BREAKS)
async def test_a_break_in_the_middle_of_a_stream_loses_no_byte_before_it(
    stage: Stage, script: str
) -> None:
    """The client has all that arrived, half an event too, and no clean end, at once."""
    name, rest = BREAKS[script]
    calls = [make_call(script) for _ in range(scaled(200, least=4))]
    # What an unfinished event holds back is the filter's: a client that asks itself has none.
    calls += [make_call(script, ASKING) for _ in calls]
    delays: list[float] = []

    async def ask_and_release(call: Call) -> Seen:
        released: list[float] = []

        def release() -> None:
            stage.upstream.release(call.trace_id)
            released.append(time.monotonic())

        answer = await ask(stage.spantap.port, call.data, marker=b'"lo"', on_marker=release)
        delays.append(time.monotonic() - released[0])
        return answer

    seen = []
    for start in range(0, len(calls), 20):
        seen += await asyncio.gather(*map(ask_and_release, calls[start : start + 20]))
    for answer in seen:
        assert (answer.code, answer.body, answer.whole) == (200, b"".join(STREAM[:3]) + rest, False)
    lost = assert_spans(stage, calls, "truncated", "ERROR")
    report(
        Row(
            name=name,
            sent=len(calls),
            lost=lost,
            client_saw="every byte that arrived, then a stream cut off",
            added_latency=f"cut at most {max(delays) * 1000:.0f} ms after the break was asked for",
            figures={"spans": "ERROR stream_truncated"},
        )
    )
    assert lost == 0
    await stage.assert_healthy()
