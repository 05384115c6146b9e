"""Processes that die, stand still, or are told to go: no span is lost, and no client is hurt."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from telemetry.frames.spool import measure_spool, spool_folder
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.store.parts.part_reader import put_together
from tests.e2e.processes import wait_until
from tests.faults.beside import beside
from tests.faults.row import report
from tests.faults.stage import is_long, running_spantap, scaled
from tests.load.tool import LOAD_TOOL_OBSTACLE, ClientLoad, LoadClient, LoadUpstream

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.faults.stage import RunningSpantap
    from tests.load.tool import ClientResult

pytestmark = [
    pytest.mark.skipif(LOAD_TOOL_OBSTACLE is not None, reason=LOAD_TOOL_OBSTACLE or ""),
    pytest.mark.timeout(600),
]

STREAMS = scaled(500, least=40)
CHUNKS = 200 if is_long() else 40
CHUNKS_PER_SECOND = 20
"""Of each stream: what models do, and in all what one worker has time for."""

ROUNDS = 3 if is_long() else 2
"""How often each connection asks."""

KILL_SECONDS = 2.0 if is_long() else 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The spans in a store, by the mark of their exchange (``user.id``).

    Attributes:
        outcomes: of each mark, the word for how it ended; ``OK`` where it ended well.
        twice: marks with more than one span.
        unmarked: spans without a mark, for their request was left out.
        cut: how many spans lack some of what was said, for want of memory.
    """

    outcomes: dict[str, str]
    twice: list[str]
    unmarked: int
    cut: int


def read_store(path: Path) -> Recorded:
    """What a store holds, read without our reader."""
    outcomes: dict[str, str] = {}
    twice = []
    unmarked = cut = 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        stored = connection.execute("SELECT part, span FROM spans JOIN span_bytes USING (seq)")
        for (data,) in put_together(connection, stored, at=0):
            [span] = decode_spans(data)
            cut += "observer_limit" in str(span.attributes.get("metadata"))
            mark = span.attributes.get("user.id")
            if mark is None:
                unmarked += 1
                continue
            if mark in outcomes:
                twice.append(mark)
            outcomes[mark] = span.status_message.partition(":")[0] or span.status
    return Recorded(outcomes=outcomes, twice=twice, unmarked=unmarked, cut=cut)


def count_stored(path: Path) -> int:
    """How many spans are committed."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM span_bytes")
    return int(count)


def build_load(port: int, name: str, requests: int = STREAMS * ROUNDS) -> ClientLoad:
    return ClientLoad(port=port, mode="stream", connections=STREAMS, requests=requests, model=name)


@contextmanager
def every(seconds: float, step: Callable[[], None]) -> Iterator[list[float]]:
    """Take a step now and then while the block runs; gives when it was taken."""
    taken: list[float] = []

    def run(over: threading.Event) -> None:
        while not over.wait(seconds):
            step()
            taken.append(time.monotonic())

    with beside(run):
        yield taken


def kill_children(spantap: RunningSpantap, *roles: str) -> None:
    """SIGKILL to the oldest child of each role that there is."""
    children = spantap.children()
    for role in roles:
        if children[role]:
            os.kill(children[role][0], signal.SIGKILL)


def in_words(result: ClientResult) -> str:
    if result.answered == result.requests:
        return "every answer, whole"
    return f"{result.answered} answers whole, {result.cut} cut, {result.unanswered} unanswered"


def delay(result: ClientResult, *calm: ClientResult) -> str:
    now = result.chunk_delay.p99_ns / 1e6
    then = [one.chunk_delay.p99_ns / 1e6 for one in calm]
    beside = " and ".join(f"{one:.1f}" for one in then)
    ratio = now / (sum(then) / len(then))
    return f"chunk delay p99 {now:.1f} ms beside {beside} ms ({ratio:.2f} x)"


def run(load: ClientLoad) -> ClientResult:
    with LoadClient(load) as client:
        return client.wait(300)


def marks_of(result: ClientResult, name: str) -> set[str]:
    return {f"{name}-{number}" for number in range(result.requests)}


def test_telemetry_is_killed_again_and_again_during_streams(tmp_path: Path) -> None:
    """0 spans lost, every stream whole, and none of it is delayed."""
    with (
        LoadUpstream(chunks=CHUNKS, rate=CHUNKS_PER_SECOND) as upstream,
        running_spantap(tmp_path, upstream=upstream.url) as spantap,
    ):
        calm = run(build_load(spantap.port, "calm"))
        with every(KILL_SECONDS, lambda: kill_children(spantap, "telemetry")) as kills:
            result = run(build_load(spantap.port, "killed"))
        calm_again = run(build_load(spantap.port, "calm-again"))
        restarts = spantap.metrics()["spantap_process_restarts_total"]
        # What the end has no time to read waits for the next start.
        wait_until(lambda: not measure_spool(spool_folder(spantap.store)), 300, "all is read")
        assert spantap.terminate() == 0, spantap.log
    recorded = read_store(spantap.store)
    sent = marks_of(calm, "calm") | marks_of(result, "killed")
    sent |= marks_of(calm_again, "calm-again")
    report(
        name=f"telemetry killed every {KILL_SECONDS:g} s during {STREAMS} streams",
        sent=len(sent),
        lost=len(sent - recorded.outcomes.keys()),
        client_saw=in_words(result),
        added_latency=delay(result, calm, calm_again),
        figures={"kills": len(kills), "restarts": int(restarts)},
    )
    assert len(kills) >= 2
    assert not recorded.cut, "an answer lacks what came before a kill"
    assert result.answered == result.requests == STREAMS * ROUNDS
    assert recorded.outcomes == dict.fromkeys(sent, "OK")
    assert not recorded.twice


def test_a_worker_is_killed_during_streams(tmp_path: Path) -> None:
    """Its open exchanges end as ``worker_lost``, the other worker's are untouched."""
    with (
        LoadUpstream(chunks=CHUNKS, rate=CHUNKS_PER_SECOND) as upstream,
        running_spantap(tmp_path, upstream=upstream.url, workers=2) as spantap,
    ):
        with LoadClient(build_load(spantap.port, "load")) as client:
            time.sleep(CHUNKS / CHUNKS_PER_SECOND / 2)
            kill_children(spantap, "worker")
            result = client.wait(300)
        assert spantap.terminate() == 0, spantap.log
    recorded = read_store(spantap.store)
    sent = marks_of(result, "load")
    hurt = {f"load-{number}" for number in (*result.cut_numbers, *result.unanswered_numbers)}
    lost = {mark for mark, outcome in recorded.outcomes.items() if outcome == "worker_lost"}
    # What had not reached the worker when it died is no exchange.
    missing = sent - recorded.outcomes.keys()
    report(
        name=f"one of two workers killed during {STREAMS} streams",
        sent=len(sent),
        lost=len(missing - hurt),
        client_saw=in_words(result),
        figures={"worker_lost": len(lost), "never reached the worker": len(missing)},
    )
    assert lost == hurt - missing
    assert 0 < len(hurt) < STREAMS, "the other worker's streams go on"
    assert missing <= {f"load-{number}" for number in result.unanswered_numbers}
    assert {recorded.outcomes[mark] for mark in sent - hurt} == {"OK"}
    assert not recorded.twice


def test_worker_and_telemetry_are_killed_at_once(tmp_path: Path) -> None:
    """At most what was not acknowledged is lost: open streams, and the last 50 ms."""
    with (
        LoadUpstream(chunks=CHUNKS, rate=CHUNKS_PER_SECOND) as upstream,
        running_spantap(tmp_path, upstream=upstream.url) as spantap,
    ):
        with LoadClient(build_load(spantap.port, "load")) as client:
            # The first round is stored, the second has just begun.
            wait_until(lambda: count_stored(spantap.store) >= STREAMS, 120, "a round is stored")
            stored = read_store(spantap.store).outcomes.keys()
            kill_children(spantap, "worker", "telemetry")
            result = client.wait(300)
        spantap.terminate()  # with 1, where it is told before it has noticed
    recorded = read_store(spantap.store)
    sent = marks_of(result, "load")
    missing = sent - recorded.outcomes.keys()
    hurt = {f"load-{number}" for number in (*result.cut_numbers, *result.unanswered_numbers)}
    report(
        name="worker and telemetry killed at once",
        sent=len(sent),
        lost=len(missing),
        client_saw=in_words(result),
        figures={
            "open when they were killed": len(hurt),
            "lost of those that had ended": len(missing - hurt),
        },
    )
    assert stored <= recorded.outcomes.keys(), "what was stored is lost"
    if is_long():  # then telemetry is not behind, and of the second round none had ended
        assert missing <= hurt
    assert {recorded.outcomes[mark] for mark in sent - missing - hurt} == {"OK"}


def test_telemetry_stands_still_during_streams(tmp_path: Path) -> None:
    """Slow as can be, and yet nobody waits; every span is there when it moves again."""
    with (
        LoadUpstream(chunks=CHUNKS, rate=CHUNKS_PER_SECOND) as upstream,
        running_spantap(tmp_path, upstream=upstream.url) as spantap,
    ):
        calm = run(build_load(spantap.port, "calm"))
        [telemetry] = spantap.children()["telemetry"]
        os.kill(telemetry, signal.SIGSTOP)
        try:
            result = run(build_load(spantap.port, "stopped"))
        finally:
            os.kill(telemetry, signal.SIGCONT)
        wait_until(lambda: not measure_spool(spool_folder(spantap.store)), 300, "all is read")
        assert spantap.terminate() == 0, spantap.log
    recorded = read_store(spantap.store)
    sent = marks_of(calm, "calm") | marks_of(result, "stopped")
    report(
        name=f"telemetry stands still (SIGSTOP) during {STREAMS} streams",
        sent=len(sent),
        lost=len(sent - recorded.outcomes.keys()),
        client_saw=in_words(result),
        added_latency=delay(result, calm),
        figures={
            "seconds": round(result.seconds, 1),
            "spans that lack some of what was said": recorded.cut,
        },
    )
    assert result.answered == result.requests
    assert recorded.outcomes == dict.fromkeys(sent, "OK")
    assert (recorded.unmarked, recorded.cut, recorded.twice) == (0, 0, [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_supervisor_goes_and_is_started_again(number: signal.Signals, tmp_path: Path) -> None:
    """Told to go it drains; killed it takes its children along, and what they had is stored."""
    with (
        LoadUpstream(chunks=CHUNKS, rate=CHUNKS_PER_SECOND) as upstream,
        running_spantap(tmp_path, upstream=upstream.url) as spantap,
    ):
        first = build_load(spantap.port, "first", requests=STREAMS)
        with LoadClient(first) as client:
            time.sleep(CHUNKS / CHUNKS_PER_SECOND / 2)
            pids = spantap.pids()
            went = time.monotonic()
            if number is signal.SIGTERM:
                assert spantap.terminate() == 0, spantap.log
            else:
                spantap.kill()
            wait_until(lambda: not any(map(is_alive, pids)), 30, "all its processes have ended")
            took = time.monotonic() - went
            before = client.wait(300)
        spantap.start()
        after = run(build_load(spantap.port, "second", requests=STREAMS))
        assert spantap.terminate() == 0, spantap.log
    recorded = read_store(spantap.store)
    sent = marks_of(before, "first") | marks_of(after, "second")
    report(
        name=f"the supervisor gets {number.name} during {STREAMS} streams; started again",
        sent=len(sent),
        lost=len(sent - recorded.outcomes.keys()),
        client_saw=f"{in_words(before)}; after the start {in_words(after)}",
        figures={
            "seconds until all its processes had ended": round(took, 2),
            **Counter(recorded.outcomes.values()),
        },
    )
    assert recorded.outcomes.keys() == sent
    assert after.answered == STREAMS
    if number is signal.SIGTERM:
        assert before.answered == STREAMS
        assert set(recorded.outcomes.values()) == {"OK"}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_rolling_restart_under_load_loses_nothing(tmp_path: Path) -> None:
    """What was accepted before the linger ended is answered whole, and has its span."""
    settings = {"SPANTAP_LINGER_SECONDS": "1"}
    with (
        LoadUpstream(chunks=10, rate=50) as upstream,
        running_spantap(tmp_path, upstream=upstream.url, environment=settings) as spantap,
    ):
        load = ClientLoad(
            port=spantap.port,
            mode="stream",
            connections=STREAMS // 2,
            seconds=6,
            model="load",
        )
        with LoadClient(load) as client:
            time.sleep(1)
            assert spantap.terminate() == 0, spantap.log
            went = time.monotonic()
            spantap.start()
            away = time.monotonic() - went
            result = client.wait(60)
        assert spantap.terminate() == 0, spantap.log
    recorded = read_store(spantap.store)
    refused = {f"load-{number}" for number in result.unanswered_numbers}
    sent = marks_of(result, "load") if result.unanswered < 10_000 else set(recorded.outcomes)
    accepted = sent - refused
    report(
        name="a rolling restart under load, one instance",
        sent=len(accepted),
        lost=len(accepted - recorded.outcomes.keys()),
        client_saw=f"{result.answered} answers whole, {result.cut} cut; "
        f"{result.refused} connections refused while none was there, "
        f"{result.unanswered - result.refused} reset",
        figures={"seconds until the next was ready": round(away, 2)},
    )
    assert result.cut == 0
    # One may come between the last look at the port and its end, when the linger is over.
    assert result.unanswered - result.refused <= 1
    assert accepted <= recorded.outcomes.keys()
    assert {recorded.outcomes[mark] for mark in accepted} == {"OK"}
    assert not (refused & recorded.outcomes.keys()), "an accepted request was not answered"
    assert not recorded.twice
