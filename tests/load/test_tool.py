"""The load tool's two sides together, with and without a proxy between them, and how it is run."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from telemetry.store.reader import StoreReader
from tests.e2e.processes import ServerProcess, find_free_port
from tests.load.tool import (
    LOAD_TOOL_OBSTACLE,
    ClientLoad,
    LoadClient,
    LoadToolError,
    LoadUpstream,
    build_load_tool,
    run_client,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(LOAD_TOOL_OBSTACLE is not None, reason=LOAD_TOOL_OBSTACLE or "")


def test_every_json_request_is_answered_and_counted() -> None:
    """Kept connections, one stamp and one latency for each answer."""
    with LoadUpstream(json_bytes=5000) as upstream:
        result = run_client(
            ClientLoad(port=upstream.port, mode="json", connections=7, requests=100)
        )
        counts = upstream.stop()
    assert (result.requests, result.statuses) == (100, {200: 100})
    assert result.chunk_delay.count == result.ttfb.count == result.latency.count == 100
    assert result.body_bytes > 100 * 5000
    assert (counts.connections, counts.requests, counts.streams) == (7, 100, 0)
    assert (counts.aborted, counts.broken) == (0, 0)


@pytest.mark.parametrize("rate", [0, 2000])
def test_every_stream_is_answered_and_each_of_its_chunks_timed(rate: float) -> None:
    """Written in large pieces or chunk by chunk."""
    with LoadUpstream(chunks=150, rate=rate, chunk_bytes=1000) as upstream:
        result = run_client(
            ClientLoad(port=upstream.port, mode="stream", connections=5, requests=20)
        )
    assert (result.answered, result.cut, result.unanswered) == (20, 0, 0)
    assert result.chunk_delay.count == upstream.counts.chunks == 20 * 150
    assert upstream.counts.streams == result.latency.count == 20
    delay = result.chunk_delay
    assert 0 < delay.p50_ns <= delay.p90_ns <= delay.p99_ns <= delay.max_ns
    assert result.ttfb.max_ns <= result.latency.max_ns


def test_a_paced_stream_takes_its_time() -> None:
    """Ten chunks at 50 a second are ten intervals, the first of which is shorter."""
    with LoadUpstream(chunks=10, rate=50) as upstream:
        result = run_client(ClientLoad(port=upstream.port, mode="stream", requests=1))
    assert result.latency.max_ns > 9 * 20_000_000


def test_a_load_ends_after_its_time_and_keeps_its_rate() -> None:
    """At 100 a second, no more than 40 requests are due within 0.4 s."""
    with LoadUpstream() as upstream:
        result = run_client(
            ClientLoad(port=upstream.port, mode="json", connections=3, seconds=0.4, rate=100)
        )
    assert 1 <= result.requests <= 40
    assert result.answered == result.requests


def test_a_client_that_is_stopped_finishes_what_is_open() -> None:
    """It sends nothing more, and nothing of what it sent is cut."""
    with LoadUpstream(chunks=20, rate=100) as upstream:
        load = ClientLoad(port=upstream.port, mode="stream", connections=4, seconds=60)
        with LoadClient(load) as client:
            time.sleep(0.3)
            client.stop()
            result = client.wait()
    assert result.requests == result.answered == upstream.counts.streams
    assert result.seconds < 50


def test_the_tool_costs_little() -> None:
    """The figures are printed; they are for who reads them."""
    with LoadUpstream(chunks=200) as upstream:
        plain = run_client(
            ClientLoad(port=upstream.port, mode="json", connections=32, requests=5000)
        )
    with LoadUpstream(chunks=200) as streaming:
        streams = run_client(
            ClientLoad(port=streaming.port, mode="stream", connections=32, requests=500)
        )
    for name, result, counts in (
        ("requests", plain, upstream.counts),
        ("200-chunk streams", streams, streaming.counts),
    ):
        own = 1000 * counts.cpu_seconds / counts.requests
        print(f"CPU s per 1,000 {name}: client {result.cpu_seconds_per_1000:.4f}", end=", ")
        print(f"upstream {own:.4f}; {result.answers_per_second:.0f}/s")
        assert result.cpu_seconds_per_1000 > 0


def test_what_cannot_be_is_said() -> None:
    """A load without end, wrong arguments, a port that is taken."""
    with pytest.raises(ValueError, match="ends"):
        ClientLoad(port=1, mode="json")
    with pytest.raises(LoadToolError, match='--model "'):
        run_client(ClientLoad(port=1, mode="json", requests=1, model='"'))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LoadToolError, match=str(port)), LoadUpstream(port=port):
            pass
    with pytest.raises(LoadToolError, match="--chunk-bytes 19"), LoadUpstream(chunk_bytes=19):
        pass


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "relay",
        "client --port 1 --requests 1",
        "client --mode json --requests 1",
        "client --mode json --port 1",
        "client --mode json --port 1 --requests x",
        "client --mode json --port 1 --requests 1 --rate -1",
        "client --color",
        "upstream --color",
    ],
)
def test_a_wrong_command_line_ends_with_status_2(arguments: str) -> None:
    """And a line that says what was wrong."""
    done = subprocess.run(
        [build_load_tool(), *arguments.split()], capture_output=True, check=False, timeout=20
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.count(b"\n") == 1


def test_a_killed_upstream_has_no_counts() -> None:
    """Whoever kills it does so on purpose."""
    with LoadUpstream() as upstream:
        os.kill(upstream.pid, 9)
        with pytest.raises(LoadToolError, match="status -9"):
            upstream.stop()
    with pytest.raises(LoadToolError, match="killed"):
        _ = upstream.counts


def test_a_client_that_takes_too_long_is_ended() -> None:
    """By the ``with`` block it was started in."""
    with LoadUpstream(chunks=100, rate=1) as upstream:
        load = ClientLoad(port=upstream.port, mode="stream", requests=1)
        with pytest.raises(LoadToolError, match=r"0\.2 s"):
            run_client(load, timeout_seconds=0.2)


def test_a_proxy_between_the_two_loses_nothing(tmp_path: Path) -> None:
    """Through ``spantap serve``: every answer whole, every chunk timed, one span for each."""
    port, store = find_free_port(), tmp_path / "traces.db"
    with LoadUpstream(chunks=20) as upstream:
        command = [sys.executable, "-m", "proxy", "serve", "--port", str(port), "--admin-port", "0"]
        environment = {
            "SPANTAP_UPSTREAM": upstream.url,
            "SPANTAP_STORE": str(store),
            "SPANTAP_LINGER_SECONDS": "0",
        }
        log = tmp_path / "serve.log"
        with ServerProcess(command, environment=environment, log=log) as proxy:
            wait_for_port(port, proxy)
            plain = run_client(ClientLoad(port=port, mode="json", connections=4, requests=40))
            load = ClientLoad(port=port, mode="stream", connections=4, requests=40, model="s")
            streams = run_client(load)
            assert proxy.end() == 0, proxy.output
    assert plain.statuses == streams.statuses == {200: 40}, proxy.output
    assert (streams.cut, streams.chunk_delay.count) == (0, 40 * 20)
    assert (upstream.counts.requests, upstream.counts.streams) == (80, 40)
    with StoreReader(store) as reader:
        spans = [reader.find(row.span_id)[0] for row in reader.latest(100)]
    users = {text for span in spans for text in re.findall(rb"(?:load|s)-\d+", span.span)}
    users -= {b"load-1"}  # the model too
    assert len(spans) == 80
    assert users >= {b"s-%d" % n for n in range(40)}
    assert [span.summary.completion_tokens for span in spans].count(20) == 40


def wait_for_port(port: int, proxy: ServerProcess) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise AssertionError(proxy.output)
