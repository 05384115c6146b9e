"""Rows of the clock: it is set forward and back while calls go on.

The machine's own clock stays as it is: the processes read the time through a module of the test,
which adds as many seconds as a file says.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.e2e.processes import wait_until
from tests.faults.beside import beside
from tests.faults.scene import ARRIVAL_SECONDS, playing
from tests.faults.stage import is_long, scaled

if TYPE_CHECKING:
    import threading
    from pathlib import Path

pytestmark = pytest.mark.timeout(900 if is_long() else 180)

COUNT = 2_000

RATE = 200.0
"""Calls a second: so few that a short form meets several steps, too."""

FAILURES = "spantap_export_failures_total"

LONGEST_SECONDS = 60.0
"""Far more than a call of the load takes, and far less than a step."""

STEPS = {"a day": 86_400, "an hour": 3_600}

SITE = """\
import os, time
real, real_ns, calm = time.time, time.time_ns, time.monotonic
known = [0, -1.0]
def step():
    if calm() > known[1]:
        with open(os.environ["CLOCK_STEP"]) as file:
            known[:] = int(file.read() or 0), calm() + 0.02
    return known[0]
time.time = lambda: real() + step()
time.time_ns = lambda: real_ns() + step() * 1_000_000_000
"""
"""Python imports it at each start, before any module of the product reads a clock."""


class TurnedClock:
    """The clock of all processes of one ``spantap serve``."""

    def __init__(self, folder: Path) -> None:
        self._step = folder / "step"
        self._site = folder / "site"
        self._site.mkdir()
        (self._site / "sitecustomize.py").write_text(SITE)
        self.set(0)

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process follow it."""
        return {"PYTHONPATH": str(self._site), "CLOCK_STEP": str(self._step)}

    def set(self, seconds: int) -> None:
        """Let it be so many seconds ahead of the machine's, or behind it."""
        new = self._step.with_suffix(".new")
        new.write_text(str(seconds))
        new.rename(self._step)


@pytest.mark.parametrize("step", STEPS)
def test_a_clock_that_is_set_while_calls_go_on_costs_nothing(
    load_upstream: str, tmp_path: Path, step: str
) -> None:
    """Forward, back, and right again, also while a backend is away: no span is lost or late."""
    clock = TurnedClock(tmp_path)
    seconds = STEPS[step]
    with playing(tmp_path, load_upstream, environment=clock.environment) as scene:
        calm = scene.calm_load(scaled(COUNT))
        with scene.backend():
            with beside(lambda over: turn(clock, seconds, over)):
                during = scene.load(scaled(COUNT, least=400), rate=RATE)
            scene.wait_for_all()
        clock.set(seconds)
        scene.load(scaled(COUNT, least=50))  # nobody takes their spans
        scene.wait_for_number(FAILURES, lambda number: number >= 1)
        clock.set(-seconds)
        with scene.backend():
            scene.wait_for_all()
        longest = max(row.end_ns - row.start_ns for row in scene.stored()) / 1e9
        scene.finish(
            f"the clock is set {step} forward and back during load, and while the backend is away",
            during,
            calm,
            {"longest call in a span": f"{longest:.2f} s"},
        )
        assert 0 <= longest < LONGEST_SECONDS
        assert min(row.end_ns - row.start_ns for row in scene.stored()) >= 0


def turn(clock: TurnedClock, seconds: int, over: threading.Event) -> None:
    """Set the clock forward and back again and again, and right in the end."""
    for ahead in itertools.cycle((seconds, -seconds)):
        clock.set(ahead)
        if over.wait(0.5):
            break
    clock.set(0)


def test_the_clock_of_the_rows_is_turned(load_upstream: str, tmp_path: Path) -> None:
    """A span of a call says the time that the test's clock shows."""
    clock = TurnedClock(tmp_path)
    with playing(tmp_path, load_upstream, environment=clock.environment) as scene:
        with scene.backend():
            scene.load(1)
            scene.wait_for_all()
            clock.set(STEPS["a day"])
            wait_until(lambda: scene.load(1).whole == 1, ARRIVAL_SECONDS, "a call")
            scene.wait_for_all()
        first, *_, last = scene.stored()
        assert abs(last.start_ns - first.start_ns - 86_400e9) < LONGEST_SECONDS * 1e9
