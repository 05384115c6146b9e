"""A load that does not rest: what telemetry cannot follow waits whole and is recorded."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Literal

import pytest

from telemetry.frames.spool import measure_spool, spool_folder
from tests.bench.saturation import Saturation, saturate
from tests.e2e.processes import wait_until
from tests.faults.row import report
from tests.faults.stage import is_long, running_spantap
from tests.faults.test_processes import marks_of, read_store
from tests.load.tool import LOAD_TOOL_OBSTACLE, ClientLoad, LoadClient, LoadUpstream

if TYPE_CHECKING:
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

CONNECTIONS = 64

MAX_LOST = 4 * CONNECTIONS
"""Answers lost by one kill: the last one or two of each connection, twice that where other work
keeps the worker from its turn, as ``docs/reliability.md`` says. What ends one leaves the worker at
once, or goes to the spool within some tens of milliseconds of a busy machine. That it waits for
nothing is for tests/proxy/processes/test_spool_writer.py to tell exactly."""

Mode = Literal["json", "stream"]
MODES: tuple[Mode, ...] = ("json", "stream")


def settle(spantap: RunningSpantap) -> None:
    """Wait until telemetry has followed."""
    folder = spool_folder(spantap.store)

    def has_followed() -> bool:
        return not measure_spool(folder) and not spantap.metrics()["spantap_tap_queue_bytes"]

    wait_until(has_followed, END_SECONDS, "telemetry has followed")


def test_every_span_of_a_load_that_does_not_rest_is_whole_in_the_end() -> None:
    """Nothing is left out while the spool has room, of whole answers and then of streams."""
    found = saturate(Saturation(seconds=SECONDS))
    sent = sum(one.answers for one in found.values())
    whole = sum(one.whole_spans for one in found.values())
    report(
        f"two minutes of saturation: {SECONDS:g} s of whole answers, then of streams",
        sent=sent,
        lost=sent - whole,
        client_saw="every answer, whole",
        figures={
            "largest spool": f"{max(one.spool_bytes for one in found.values()) >> 20} MiB",
            **{
                figure: value
                for name, one in found.items()
                for figure, value in (
                    (f"{name}/s", round(one.answers_per_second)),
                    (f"{name}: all recorded after", f"{one.recorded_seconds:.0f} s"),
                )
            },
        },
    )
    assert whole == sent > 0


def test_answers_that_were_delivered_before_a_kill_of_the_worker_keep_their_spans(
    tmp_path: Path,
) -> None:
    """But for those of its last moment: frames leave it when an answer has ended."""
    delivered = 0
    lost: dict[Mode, list[int]] = {mode: [] for mode in MODES}
    for mode in MODES:
        for kill in range(KILLS):
            folder = tmp_path / f"{mode}-{kill}"
            folder.mkdir()
            result, missing = kill_a_worker(folder, mode)
            delivered += result.answered
            lost[mode].append(len(missing))
    report(
        f"the worker killed under a load that does not rest, {2 * KILLS} times",
        sent=delivered,
        lost=sum(map(sum, lost.values())),
        client_saw="every answer up to the kill",
        figures={
            "most of one kill, whole answers": max(lost["json"]),
            "most of one kill, streams": max(lost["stream"]),
        },
    )
    assert max(map(max, lost.values())) <= MAX_LOST


def kill_a_worker(folder: Path, mode: Mode) -> tuple[ClientResult, set[str]]:
    """What the client saw, and of what it got whole the marks that have no completed span."""
    with (
        LoadUpstream(chunks=50, rate=0) as upstream,
        running_spantap(folder, upstream=upstream.url) as spantap,
    ):
        load = ClientLoad(port=spantap.port, mode=mode, connections=CONNECTIONS, seconds=3)
        with LoadClient(load) as client:
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
