"""Rows of the upstream: it refuses, hangs, or breaks off, before its answer or in the middle.

Each call goes through the real ``spantap serve``. The client has all that came, or an error that
names the cause; each call has one span that says how it ended
(``docs/contract/promises.md#endings``).
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.raw import Call, Seen, ask, ask_all, make_call, wait_for_spans
from tests.faults.row import report_calls
from tests.faults.scripted import (
    EVENTS,
    TIMEOUT_SECONDS,
    Script,
    Stage,
    UpstreamThread,
    hang_mid_stream,
    impatient_stage,
    in_chunks,
    sends,
)
from tests.faults.stage import scaled
from tests.proxy.harness import ASKING_CHAT, STREAM, Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from telemetry.store.rows import SpanSummary

HALF = in_chunks(STREAM[3])[:20]
"""Half an event, in half a chunk."""


async def closes(_: UpstreamThread, connection: Connection) -> None:
    """No answer at all."""
    connection.writer.close()


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


SCRIPTS: dict[str, Script] = {
    "hang": UpstreamThread.hang,
    "hang_mid_stream": hang_mid_stream,
    "reset_mid_chunk": reset_mid_chunk,
    "bad_chunk": bad_chunk,
    "half_a_head": sends(EVENTS),
    "closes": closes,
    "no_http": sends(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One for all rows: what a row does must not hurt the next."""
    with impatient_stage(tmp_path_factory.mktemp("failures"), SCRIPTS) as running:
        yield running


def assert_failed(stage: Stage, calls: list[Call], outcome: str) -> dict[str, SpanSummary]:
    """The spans of these calls, each of which says how it failed and invents no usage."""
    spans = wait_for_spans(stage.spantap.store, calls)
    for span in spans.values():
        assert (span.outcome, span.status) == (outcome, "ERROR")
        assert span.total_tokens is None
    return spans


# --- nothing to relay: the client gets an error of ours

CLOSED = (502, "upstream_closed_before_response", "connect_error")

NO_ANSWER = {
    "refuses": ("refuses connections", 502, "upstream_unreachable", "connect_error"),
    "hang": ("hangs before its head", 504, "upstream_timeout", "timeout"),
    "closes": ("closes instead of answering", *CLOSED),
    "half_a_head": ("closes within its head", *CLOSED),
    "no_http": ("does not answer in HTTP", 502, "upstream_invalid_response", "upstream_error"),
}
"""Script: what it does, status and code of the error, outcome of the span."""


@pytest.mark.parametrize("script", NO_ANSWER)
async def test_an_upstream_that_does_not_answer_is_an_error_that_names_the_cause(
    stage: Stage, script: str
) -> None:
    """OpenAI-shaped 502 or 504, at once or at the timeout; one ERROR span each."""
    name, status, code, outcome = NO_ANSWER[script]
    calls = [make_call(script) for _ in range(scaled(100, least=4))]
    seen = await ask_all(stage.spantap.port, calls, at_once=25)
    for answer in seen:
        assert (answer.code, answer.whole) == (status, True)
        error = json.loads(answer.body)["error"]  # noqa: TID251 - as a client would
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] == code
        assert "http://127.0.0.1:" in error["message"]
    spans = assert_failed(stage, calls, outcome)
    slowest = max(answer.seconds for answer in seen)
    report_calls(
        f"upstream {name}",
        calls,
        spans,
        client_saw=f"{status} {code}, OpenAI-shaped, naming upstream and cause",
        added_latency=f"slowest answer {slowest:.2f} s, the timeout being {TIMEOUT_SECONDS} s"
        if script == "hang"
        else f"slowest answer {slowest * 1000:.0f} ms",
        figures={"spans": f"ERROR {outcome}"},
    )
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
    spans = assert_failed(stage, calls, "timeout")
    report_calls(
        "upstream hangs mid-stream",
        calls,
        spans,
        client_saw="every byte that came, then a stream cut off",
        added_latency=f"cut {max(answer.seconds for answer in seen):.2f} s after the call "
        f"began, the idle timeout being {TIMEOUT_SECONDS} s",
        figures={"spans": "ERROR timeout", "upstream connections let go": len(calls)},
    )
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
    calls += [make_call(script, ASKING_CHAT) for _ in calls]
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
    spans = assert_failed(stage, calls, "truncated")
    report_calls(
        name,
        calls,
        spans,
        client_saw="every byte that arrived, then a stream cut off",
        added_latency=f"cut at most {max(delays) * 1000:.0f} ms after the break was asked for",
        figures={"spans": "ERROR stream_truncated"},
    )
    await stage.assert_healthy()
