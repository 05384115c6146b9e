"""The benchmark runs: every part of it once, as small as can be."""

from __future__ import annotations

import pytest

from tests.bench.__main__ import run_plan
from tests.bench.big_bodies import BigBodies, measure_stall
from tests.bench.measuring import Work
from tests.bench.open_streams import CHUNKS_PER_SECOND, hold_open
from tests.bench.plan import Plan
from tests.bench.results import Results
from tests.bench.saturation import Saturation
from tests.bench.scene import set_scene
from tests.bench.tables import render_sections
from tests.bench.web_sockets import WebSockets
from tests.load.tool import LOAD_TOOL_OBSTACLE

pytestmark = pytest.mark.skipif(LOAD_TOOL_OBSTACLE is not None, reason=LOAD_TOOL_OBSTACLE or "")

BODIES = BigBodies(streams=2, seconds=0.2, chunks=10, rate=100, body_bytes=100_000)

TINY = Plan(
    rounds=1,
    works=(Work(name="JSON", mode="json", connections=4, requests=20),),
    open_streams=3,
    big_bodies=BODIES,
    saturation=Saturation(seconds=0.3, chunks=10),
    web_sockets=WebSockets(connections=3, deltas=10, pings_per_second=500),
    growths={"messages of a chat": {3: 16}},
)


def test_a_load_is_put_on_each_contestant_and_told() -> None:
    """All answers are counted, and a span for each of spantap's exchanges."""
    results = Results.begin()
    run_plan(TINY, results, only="JSON", names=["bare", "spantap"])
    found = results.works["JSON"]
    assert [one.answers for rounds in found.values() for one in rounds] == [20] * 2
    for one in found["spantap"]:
        assert (one.spans, one.exchanges, one.dropped) == (41, 41, 0)
        assert one.cpu_seconds_per_1000.keys() == {"worker", "telemetry", "supervisor"}
    assert "spantap" in render_sections(results)["works"]


def test_web_sockets_are_measured_at_the_pace_of_the_bare_relay() -> None:
    """The delays of spantap are also taken beside pings; each response has its span."""
    results = Results.begin()
    run_plan(TINY, results, only="websockets", names=["bare", "spantap"])
    [bare], [spantap] = results.web_sockets.values()
    assert spantap.offered_per_second == bare.offered_per_second == bare.messages_per_second / 2
    assert (bare.pinged_p99_ms, spantap.exchanges) == (None, 16)
    assert spantap.cpu_us.keys() == {"worker", "telemetry", "supervisor"}
    assert "pings" in render_sections(results)["websockets"]


def test_growth_is_measured_of_spantap() -> None:
    """Time and memory of one count."""
    results = Results.begin()
    run_plan(TINY, results, only="growth with messages", names=["spantap"])
    [point] = results.growths["messages of a chat"]
    assert point.count == 3
    assert point.cpu_us > 0


def test_large_bodies_are_answered_beside_streams() -> None:
    """One a second, the first at once."""
    with set_scene("bare", chunks=BODIES.chunks, rate=BODIES.rate) as scene:
        stall = measure_stall(scene, BODIES)
    assert stall.bodies >= 1
    assert stall.alone_p99_ms > 0
    assert stall.beside_p99_ms > 0


def test_open_streams_are_looked_at_while_they_are_open() -> None:
    """Memory of the same processes before and meanwhile."""
    with set_scene("bare", chunks=4, rate=CHUNKS_PER_SECOND) as scene:
        held = hold_open(scene, 3, chunks=4)
    assert held.streams == 3
    assert held.idle_bytes.keys() == held.open_bytes.keys() == {"worker"}
    assert 0 < sum(held.idle_bytes.values()) <= sum(held.open_bytes.values())
