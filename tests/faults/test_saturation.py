"""A load that does not rest: what telemetry cannot follow waits whole and is recorded."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from telemetry.frames.spool import measure_spool, spool_folder
from tests.e2e.processes import wait_until
from tests.faults.beside import beside
from tests.faults.row import Row, report
from tests.faults.stage import is_long, running_spantap
from tests.faults.test_processes import in_words, marks_of, read_store
from tests.load.tool import LOAD_TOOL_OBSTACLE, ClientLoad, LoadClient, LoadUpstream

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from tests.faults.stage import RunningSpantap
    from tests.load.tool import ClientResult

pytestmark = [
    pytest.mark.skipif(LOAD_TOOL_OBSTACLE is not None, reason=LOAD_TOOL_OBSTACLE or ""),
    pytest.mark.timeout(1500),
]

SECONDS = 60.0 if is_long() else 2.0
"""Of whole answers, and again of streams."""

END_SECONDS = 900.0 if is_long() else 120.0
"""How long telemetry may take for what it could not follow."""

KILLS = 5 if is_long() else 2


def hammer(port: int, mode: str, name: str, seconds: float) -> ClientLoad:
    return ClientLoad(port=port, mode=mode, connections=64, seconds=seconds, model=name)  # type: ignore[arg-type]  # a word


def settle(spantap: RunningSpantap) -> float:
    """Wait until telemetry has followed; how many seconds that took."""
    begin = time.monotonic()
    folder = spool_folder(spantap.store)

    def has_followed() -> bool:
        return not measure_spool(folder) and not spantap.metrics()["spantap_tap_queue_bytes"]

    wait_until(has_followed, END_SECONDS, "telemetry has followed")
    return time.monotonic() - begin


def count_whole(store: Path) -> tuple[int, int]:
    """How many spans there are, and how many of them with the counts of the upstream's answer."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        [(spans, whole)] = connection.execute(
            "SELECT count(*), count(*) FILTER (WHERE prompt_tokens > 0 AND completion_tokens > 0 "
            "AND outcome = 'completed') FROM spans"
        )
    return int(spans), int(whole)


def test_every_span_of_a_load_that_does_not_rest_is_whole_in_the_end(tmp_path: Path) -> None:
    """Nothing is left out while the spool has room, and the spool is empty afterwards."""
    settings = {"SPANTAP_STORE_MAX_BYTES": str(8 << 30)}
    with (
        LoadUpstream(chunks=200, rate=0) as upstream,
        running_spantap(tmp_path, upstream=upstream.url, environment=settings) as spantap,
    ):
        most = [0]

        def watch(over: threading.Event) -> None:
            while not over.wait(0.2):
                most.append(measure_spool(spool_folder(spantap.store)))

        with beside(watch):
            results = [
                run(hammer(spantap.port, mode, mode, SECONDS)) for mode in ("json", "stream")
            ]
            took = settle(spantap)
        shed_bytes = spantap.metrics()["spantap_tap_shed_bytes_total"]
        assert spantap.terminate() == 0, spantap.log
    spans, whole = count_whole(spantap.store)
    sent = sum(result.answered for result in results)
    report(
        Row(
            name=f"two minutes of saturation: {SECONDS:g} s of whole answers, then of streams",
            sent=sent,
            lost=sent - spans,
            client_saw=" and ".join(in_words(result) for result in results),
            added_latency="-",
            figures={
                "spans without their tokens": spans - whole,
                "largest spool": f"{max(most) >> 20} MiB",
                "all recorded after": f"{took:.0f} s",
                "whole answers/s": round(results[0].answered / results[0].seconds),
                "streams/s": round(results[1].answered / results[1].seconds),
            },
        )
    )
    assert [result.requests for result in results] == [result.answered for result in results]
    assert (spans, whole, shed_bytes) == (sent, sent, 0)


def test_answers_that_were_delivered_before_a_kill_of_the_worker_keep_their_spans(
    tmp_path: Path,
) -> None:
    """But for those of its last moment: frames leave it when an answer has ended."""
    delivered = lost = 0
    most = {"json": 0, "stream": 0}
    for mode in ("json", "stream"):
        for kill in range(KILLS):
            folder = tmp_path / f"{mode}-{kill}"
            folder.mkdir()
            result, missing = kill_a_worker(folder, mode)
            delivered += result.answered
            lost += len(missing)
            most[mode] = max(most[mode], len(missing))
    report(
        Row(
            name=f"the worker killed under a load that does not rest, {2 * KILLS} times",
            sent=delivered,
            lost=lost,
            client_saw="every answer up to the kill",
            added_latency="-",
            figures={
                "most of one kill, whole answers": most["json"],
                "most of one kill, streams": most["stream"],
            },
        )
    )
    # What is not told yet: as a rule at most one answer of each of 64 connections.
    assert lost < delivered / 10


def kill_a_worker(folder: Path, mode: str) -> tuple[ClientResult, set[str]]:
    """What the client saw, and of what it got whole the marks that have no completed span."""
    with (
        LoadUpstream(chunks=50, rate=0) as upstream,
        running_spantap(folder, upstream=upstream.url) as spantap,
    ):
        with LoadClient(hammer(spantap.port, mode, "load", 3)) as client:
            time.sleep(1.5)
            [worker] = spantap.children()["worker"]
            os.kill(worker, signal.SIGKILL)
            result = client.wait(120)
        settle(spantap)
        assert spantap.terminate() == 0, spantap.log
    recorded = read_store(spantap.store)
    hurt = {f"load-{number}" for number in (*result.cut_numbers, *result.unanswered_numbers)}
    completed = {mark for mark, outcome in recorded.outcomes.items() if outcome == "OK"}
    return result, marks_of(result, "load") - hurt - completed


def run(load: ClientLoad) -> ClientResult:
    with LoadClient(load) as client:
        return client.wait(load.seconds + 120)
