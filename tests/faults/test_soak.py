"""Half an hour of mixed traffic at about half of what the machine does: nothing grows.

``make soak``; ``SPANTAP_SOAK_SECONDS`` sets how long. Not part of ``make faults``.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.faults.backend import Backend, Ledger
from tests.faults.row import report
from tests.faults.stage import running_spantap
from tests.load.tool import LOAD_TOOL_OBSTACLE, ClientLoad, LoadClient, LoadUpstream

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.stage import RunningSpantap

SECONDS = float(os.environ.get("SPANTAP_SOAK_SECONDS", "0"))

pytestmark = [
    pytest.mark.skipif(not SECONDS, reason="SPANTAP_SOAK_SECONDS is not set; see `make soak`"),
    pytest.mark.skipif(LOAD_TOOL_OBSTACLE is not None, reason=LOAD_TOOL_OBSTACLE or ""),
    pytest.mark.timeout(SECONDS + 600),
]

JSON_PER_SECOND = 300.0
STREAMS_PER_SECOND = 20.0
"""Together half of what two cores do, with the tool, the upstream and the backend on them."""

LEAVERS_PER_SECOND = 2.0
"""Clients that go in the middle of a stream."""

CHUNKS = 100
CHUNKS_PER_SECOND = 50.0

SAMPLE_SECONDS = 5.0
SETTLING = 1 / 3
"""Which part of the time is not judged: caches fill, and allocators find their size."""

MAX_SLOPE_BYTES = 1_000_000
"""Per ten minutes and process."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at all processes: memory and open files, by process id."""

    at_seconds: float
    rss_bytes: dict[int, int]
    open_files: dict[int, int]


def look(spantap: RunningSpantap) -> Sample:
    return Sample(time.monotonic(), spantap.rss_bytes(), spantap.open_files())


def slope_bytes(samples: list[Sample], pid: int) -> float:
    """Growth per ten minutes, by least squares."""
    points = [(sample.at_seconds, sample.rss_bytes[pid]) for sample in samples]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return rise / sum((x - mean_x) ** 2 for x, _ in points) * 600


def leave_in_the_middle(port: int, over: threading.Event) -> int:
    """Begin streams and go, until it is over; how many."""
    count = 0
    while not over.wait(1 / LEAVERS_PER_SECOND):
        body = (
            f'{{"model":"m","stream":true,"user":"left-{count}",'
            '"messages":[{"role":"user","content":"hi"}]}'
        ).encode()
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            )
            client.sendall(body)
            assert client.recv(1)
        count += 1
    return count


def test_nothing_grows_under_steady_traffic(tmp_path: Path) -> None:
    """Memory flat, open files flat, spans received = exchanges sent."""
    ledger = Ledger()
    with (
        LoadUpstream(chunks=CHUNKS, rate=CHUNKS_PER_SECOND) as upstream,
        Backend(ledger) as backend,
        running_spantap(tmp_path, upstream=upstream.url, endpoint=backend.url) as spantap,
    ):
        plain = ClientLoad(
            port=spantap.port,
            mode="json",
            connections=16,
            seconds=SECONDS,
            rate=JSON_PER_SECOND,
            model="plain",
        )
        streams = ClientLoad(
            port=spantap.port,
            mode="stream",
            connections=128,
            seconds=SECONDS,
            rate=STREAMS_PER_SECOND,
            model="stream",
        )
        begun = time.monotonic()
        samples = []
        over = threading.Event()
        with (
            ThreadPoolExecutor() as pool,
            LoadClient(plain) as json_client,
            LoadClient(streams) as stream_client,
        ):
            leaving = pool.submit(leave_in_the_middle, spantap.port, over)
            while time.monotonic() < begun + SECONDS:
                time.sleep(SAMPLE_SECONDS)
                samples.append(look(spantap))
            over.set()
            results = {"plain": json_client.wait(120), "stream": stream_client.wait(120)}
            left = {f"left-{number}" for number in range(leaving.result())}
        sent = {
            f"{name}-{number}"
            for name, result in results.items()
            for number in range(result.requests)
        } | left
        ledger.wait_for(sent, 60)
        pids = {spantap.pid: "supervisor"} | {
            pid: role for role, [pid] in spantap.children().items()
        }
        assert spantap.terminate() == 0, spantap.log
    judged = [s for s in samples if s.at_seconds > begun + SECONDS * SETTLING]
    slopes = {role: slope_bytes(judged, pid) for pid, role in pids.items()}
    files = {role: {s.open_files[pid] for s in judged} for pid, role in pids.items()}
    whole = sum(result.answered for result in results.values()) + len(left)
    report(
        name=f"soak: {SECONDS / 60:g} minutes of plain calls, streams, and clients that leave",
        sent=len(sent),
        lost=len(sent - ledger.marks.keys()),
        client_saw=(
            f"every answer, whole; {len(left)} clients left"
            if whole == len(sent)
            else f"{whole} answers whole"
        ),
        added_latency=", ".join(
            f"{name} p99 {result.latency.p99_ns / 1e6:.0f} ms" for name, result in results.items()
        ),
        figures={
            **{
                f"{role}: growth per 10 minutes": f"{slope / 1e6:+.2f} MB"
                for role, slope in slopes.items()
            },
            **{
                f"{role}: memory": f"{judged[-1].rss_bytes[pid] / 1e6:.0f} MB"
                for pid, role in pids.items()
            },
            **{f"{role}: open files": f"{min(n)} to {max(n)}" for role, n in files.items()},
        },
        command="make soak",
    )
    assert whole == len(sent)
    assert ledger.marks == dict.fromkeys(sent, 1)
    assert not ledger.changed
    assert all(slope < MAX_SLOPE_BYTES for slope in slopes.values()), slopes
    first, last = judged[: len(judged) // 4], judged[-(len(judged) // 4) :]
    for pid in pids:  # the least: what is open beside it is what a busy machine is late with
        before, after = (min(s.open_files[pid] for s in part) for part in (first, last))
        assert after <= before + 8
