"""A backend that misbehaves: traffic is untouched, one line says so, a metric counts it.

The whole proxy with its store and exporter, in front of a real OTLP server that answers badly.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

import pytest

from telemetry.in_process import InProcessPipeline
from telemetry.store.rows import Retention
from tests.otlp_sink import HttpSink, SinkAnswer
from tests.proxy.harness import ANSWER, Connection, ScriptedUpstream, request_bytes, running_proxy
from tests.proxy.raw_client import ask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.proxy.raw_client import Address

HTML = SinkAnswer(status=200, body=b"<html>hello</html>", content_type="text/html")
RETRIED = "spantap.export.failures"
REFUSED = "spantap.spans.rejected"

BAD_ANSWERS: dict[str, tuple[SinkAnswer, str, str]] = {
    "400": (SinkAnswer(status=400, words="bad span"), REFUSED, "(HTTP 400)"),
    "413": (SinkAnswer(status=413, words="too large"), REFUSED, "HTTP 413"),
    "429 with Retry-After": (
        SinkAnswer(status=429, headers=(("Retry-After", "3600"),)),
        RETRIED,
        "HTTP 429",
    ),
    "500": (SinkAnswer(status=500, words="oops"), RETRIED, "HTTP 500"),
    "nothing": (SinkAnswer(breaks="silently"), RETRIED, "accepts no spans"),
    "a reset": (SinkAnswer(breaks="before"), RETRIED, "accepts no spans"),
    "HTML": (HTML, RETRIED, "web page"),
    "a wrong path": (SinkAnswer(status=404, words="no such page"), RETRIED, "HTTP 404"),
    "a partial success": (
        SinkAnswer(rejected_spans=1, words="why not"),
        REFUSED,
        "(partial success)",
    ),
}


def count(pipeline: InProcessPipeline, name: str) -> float:
    """The value of a counter without labels."""
    [series] = pipeline.pipeline.metrics.snapshot().numbers[name]
    return series.value


@contextlib.asynccontextmanager
async def observed(path: Path, sink: HttpSink) -> AsyncIterator[tuple[InProcessPipeline, Address]]:
    """A proxy whose spans go to the sink, and where it listens; in the end nothing is held."""
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url}
    pipeline = InProcessPipeline.open(path, retention=Retention(), environ=environ)
    pipeline.start()
    try:
        async with (
            ScriptedUpstream(Connection.answer) as upstream,
            running_proxy(upstream.url, sink=pipeline) as proxy,
        ):
            yield pipeline, proxy.address
    finally:
        await asyncio.to_thread(pipeline.close, 0)
    assert (pipeline.queued_bytes, pipeline.pipeline.service.held_bytes) == (0, 0)


@pytest.mark.parametrize(("bad", "metric", "words"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
async def test_a_bad_backend_is_told_and_counted_and_hurts_nobody(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    bad: SinkAnswer,
    metric: str,
    words: str,
) -> None:
    """Each call is answered as without it; its span waits, or is set aside with the words."""
    caplog.set_level(logging.WARNING)
    with HttpSink() as sink:
        sink.rule = lambda _: bad
        async with observed(tmp_path / "traces.db", sink) as (pipeline, address):
            for _ in range(3):
                seen = await ask(address, request_bytes())
                assert (seen.status, seen.body) == (200, ANSWER)
            deadline = time.monotonic() + 10
            while not count(pipeline, metric) or count(pipeline, "spantap.spans.recorded") < 3:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            stored = pipeline.pipeline.store.counts()
    assert stored.pending + stored.rejected == 3, "none is lost"
    assert (stored.rejected > 0) is (metric == REFUSED)
    lines = [record.message for record in caplog.records if words in record.message]
    assert len(lines) == 1, "once a minute"
    assert not any(said in caplog.text for said in ("bad span", "why not", "no such page"))
    assert sink.url in lines[0]


async def test_a_long_retry_after_is_waited_for(tmp_path: Path) -> None:
    """While it runs there is no second request, and more spans only join the first."""
    with HttpSink() as sink:
        sink.rule = lambda _: SinkAnswer(status=429, headers=(("Retry-After", "3600"),))
        async with observed(tmp_path / "traces.db", sink) as (pipeline, address):
            await ask(address, request_bytes())
            await asyncio.to_thread(sink.wait_for_requests, 1)
            await ask(address, request_bytes())
            await asyncio.sleep(1.0)
            assert len(sink.requests) == 1
            assert pipeline.pipeline.store.counts().pending == 2
