"""Agents at work while processes die, the disk is full, or spantap is started again.

Each call has its span once, in the store and at a backend that keys on span ids. Of each run there
is one AGENT span, with each of its calls and tools below it.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json_object
from telemetry.frames.spool import measure_spool, spool_folder
from telemetry.reading.stored_calls import open_calls
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.store.rows import SpanState
from tests.e2e.processes import find_free_port, wait_until
from tests.faults.agents import CALLS, RUNS, TOOLS, AgentStage
from tests.faults.backend import Backend, Ledger
from tests.faults.disk import full, immutable, small_disk
from tests.faults.row import report
from tests.faults.stage import is_long, running_spantap, scaled
from tests.faults.test_processes import every, kill_children
from tests.run_trees import SeenSpan, build_trees

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from telemetry.spans.otlp.decoding import DecodedSpan
    from tests.faults.agents import Agent
    from tests.faults.stage import RunningSpantap
    from tests.otlp_sink import SinkAnswer, SinkRequest

pytestmark = pytest.mark.timeout(600)

AGENTS = scaled(500, least=40)

TOOL_SECONDS = 4.0 if is_long() else 1.0
"""The longest that a tool takes: while telemetry starts again some agents call, others wait."""

KILL_SECONDS = 1.5 if is_long() else 0.7

DISK_BYTES = 32 << 20

DOWN_SECONDS = 4.0 if is_long() else 1.5

_MAX_SPANS = 100_000


class KeepingBackend(Backend):
    """A backend that is well, and keeps what it holds.

    Attributes:
        ledger: what came more than once.
        spans: by their ids, as they came first.
    """

    def __init__(self, port: int) -> None:
        self.ledger = Ledger()
        self.spans: dict[str, DecodedSpan] = {}
        super().__init__(self.ledger, port=port)

    def receive(self, request: SinkRequest) -> SinkAnswer:
        """Keep the spans."""
        for span in decode_spans(request.body):
            self.spans.setdefault(span.span_id, span)
        return super().receive(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Agents, a proxy and its backend."""

    stage: AgentStage
    spantap: RunningSpantap
    backend: KeepingBackend

    @contextmanager
    def working(self, name: str) -> Iterator[list[Agent]]:
        """Agents at work while the block goes on; their logs are in the list behind it."""
        names = [f"{name} {number}" for number in range(AGENTS)]
        logs: list[Agent] = []
        work = self.stage.work(self.spantap.port, names)
        yield logs
        logs += work.result(400)

    def finish(
        self,
        name: str,
        agents: list[Agent],
        *,
        may_prune: bool = False,
        **figures: str | float,
    ) -> None:
        """End the proxy; hold what it recorded to the agents' logs, and report.

        Where it `may_prune`, the store has made room by what the backend has.
        """
        wait_until(self._is_sent, 60, "all is sent")
        assert self.spantap.terminate() == 0, self.spantap.log
        spans = [*self.backend.spans.values()]
        kinds = Counter(map(kind_of, spans))
        calls = Counter(map(answer_of, calls_of(spans)))
        sent = [answer for agent in agents for answers in agent.answers for answer in answers]
        wrong = count_wrong_links(agents, spans)
        report(
            name,
            sent=len(sent),
            lost=len(set(sent) - calls.keys()),
            client_saw="every answer",
            figures={
                "runs": f"{kinds['AGENT']} of {RUNS * len(agents)}",
                "tools": f"{kinds['TOOL']} of {TOOLS * len(agents)}",
                "wrong links": wrong,
                "sent to the backend again, the same": self.backend.ledger.again,
                **figures,
            },
        )
        assert calls == Counter(sent)
        assert not wrong
        assert trees_of(spans) == trees_told(agents)
        endings = {metadata_of(span)["ended_by"] for span in spans if kind_of(span) == "AGENT"}
        assert endings == {"answer"}
        assert not self.backend.ledger.changed, "a span came again and said something else"
        stored = list_stored(self.spantap.store)
        assert len(stored) == len(set(stored)) > 0
        assert set(stored) <= self.backend.spans.keys()
        assert may_prune or set(stored) == self.backend.spans.keys()
        assert "Traceback" not in self.spantap.log

    def _is_sent(self) -> bool:
        if measure_spool(spool_folder(self.spantap.store)):
            return False
        with open_calls(self.spantap.store).all_rows() as reader:
            states = {one.summary.state for one in reader.newest(_MAX_SPANS)}
        calls = calls_of([*self.backend.spans.values()])
        return len(calls) >= AGENTS * CALLS and SpanState.PENDING not in states


@contextmanager
def playing(folder: Path, *, workers: int = 1, store: Path | None = None) -> Iterator[Scene]:
    """A scene whose backend is well."""
    port = find_free_port()
    with (
        KeepingBackend(port) as backend,
        AgentStage(TOOL_SECONDS) as stage,
        running_spantap(
            folder,
            upstream=stage.url,
            endpoint=f"http://127.0.0.1:{port}",
            workers=workers,
            store=store,
        ) as spantap,
    ):
        yield Scene(stage=stage, spantap=spantap, backend=backend)


def list_stored(store: Path) -> list[str]:
    """The ids of all spans of a store."""
    with open_calls(store).all_rows() as reader:
        return [decode_spans(one.span)[0].span_id for one in reader.newest(_MAX_SPANS)]


def kind_of(span: DecodedSpan) -> str:
    """OpenInference's."""
    return str(span.attributes["openinference.span.kind"])


def answer_of(span: DecodedSpan) -> str:
    """The id of a call's answer."""
    return str(span.attributes["gen_ai.response.id"])


def metadata_of(span: DecodedSpan) -> dict[str, Any]:
    """The members of its metadata."""
    return dict(decode_json_object(span.attributes["metadata"]))


def calls_of(spans: list[DecodedSpan]) -> list[DecodedSpan]:
    """Those of calls."""
    return [span for span in spans if kind_of(span) == "LLM"]


def trees_of(spans: list[DecodedSpan]) -> list[str]:
    """The trees that spans tell; each span is below one of its own trace."""
    seen = [
        SeenSpan(one.trace_id, one.span_id, one.parent_span_id, one.start_ns, one.attributes)
        for one in spans
    ]
    return sorted(map(repr, build_trees(seen)))


def trees_told(agents: list[Agent]) -> list[str]:
    """The trees that agents tell of."""
    return sorted(repr(tree) for agent in agents for tree in agent.trees)


def count_wrong_links(agents: list[Agent], spans: list[DecodedSpan]) -> int:
    """Count calls that do not go on from the one that their agent made before, or from any other.

    The first of an agent begins a session, in which all of its others are.
    """
    seen = {answer_of(span): span for span in calls_of(spans)}
    wrong = 0
    for agent in agents:
        before: set[str] = set()
        sessions = set()
        for answer in [answer for answers in agent.answers for answer in answers]:
            if (span := seen.get(answer)) is None:
                continue
            linked = {span_id for _, span_id in span.links} - {span.span_id}
            wrong += linked != before
            before = {span.span_id}
            sessions.add(span.attributes["session.id"])
        wrong += len(sessions) != 1
    return wrong


@pytest.mark.parametrize("workers", [1, 2])
def test_telemetry_is_killed_while_runs_are_open(workers: int, tmp_path: Path) -> None:
    """Again and again: each run is whole, and no span is there twice."""
    with playing(tmp_path, workers=workers) as scene:
        with (
            every(KILL_SECONDS, lambda: kill_children(scene.spantap, "telemetry")) as kills,
            scene.working("killed") as agents,
        ):
            pass
        beside = "" if workers == 1 else ", two workers"
        name = f"telemetry killed every {KILL_SECONDS:g} s during {AGENTS} open runs{beside}"
        scene.finish(name, agents, kills=len(kills))
        assert len(kills) >= 2


def test_runs_are_spread_over_two_workers(tmp_path: Path) -> None:
    """A run's calls come from either: the trees are the same."""
    with playing(tmp_path, workers=2) as scene:
        with scene.working("two") as agents:
            pass
        scene.finish(f"{AGENTS} open runs, their calls spread over two workers", agents)


def test_spantap_is_started_again_while_runs_are_open(tmp_path: Path) -> None:
    """SIGTERM, and a start on the same store: they go on."""
    with playing(tmp_path) as scene:
        with scene.working("restarted") as agents:
            for _ in range(2):
                time.sleep(TOOL_SECONDS)
                assert scene.spantap.terminate() == 0, scene.spantap.log
                scene.spantap.start()
        scene.finish(f"spantap started again twice during {AGENTS} open runs", agents)


def test_the_disk_is_full_while_runs_are_open(tmp_path: Path) -> None:
    """What is found out meanwhile waits with the calls, and is written with them."""
    with (
        small_disk(tmp_path, size_bytes=DISK_BYTES) as disk,
        playing(tmp_path, store=disk / "traces.db") as scene,
    ):
        name = f"disk full during {AGENTS} open runs, then room"
        play_fault(scene, full(disk), "full", name, may_prune=True)


def test_the_store_cannot_be_written_while_runs_are_open(tmp_path: Path) -> None:
    """Likewise where writing fails for another reason."""
    with playing(tmp_path) as scene:
        store = scene.spantap.store
        fault = immutable(store, store.with_name(f"{store.name}-wal"))
        play_fault(scene, fault, " ERROR ", f"store read-only during {AGENTS} open runs, then not")


def play_fault(
    scene: Scene,
    fault: AbstractContextManager[None],
    words: str,
    name: str,
    *,
    may_prune: bool = False,
) -> None:
    """A fault in the middle, of which the log has words."""
    with scene.working("full") as agents:
        time.sleep(TOOL_SECONDS / 2)
        with fault:
            wait_until(lambda: words in scene.spantap.log, 60, f"the log says {words!r}")
            time.sleep(DOWN_SECONDS)
            waited = int(scene.spantap.metrics()["spantap_spans_waiting"])
    scene.finish(name, agents, may_prune=may_prune, waited=waited)
    assert waited > 0 or may_prune, "the store could be written"
