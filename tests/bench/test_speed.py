"""CPU time as it would be on a core of known speed (rules of ``speed.py``)."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.bench import speed
from tests.bench.contestants import Contestant
from tests.bench.speed import counting_cpu, find_slowness

if TYPE_CHECKING:
    from collections.abc import Iterator

PER_SECOND = 10.0
"""What the stand-in's processes use of a core each second."""


class Steady(Contestant):
    """A stand-in whose two processes use the same all the time."""

    def cpu_seconds(self) -> dict[str, float]:
        """What each has used."""
        return dict.fromkeys(self.pids, time.monotonic() * PER_SECOND)

    def cores(self, role: str) -> set[int]:
        """One of a fast core, one of a slow one."""
        return {0} if role == "worker" else {1}


@pytest.fixture
def contestant() -> Steady:
    """Nothing runs."""
    return Steady(name="steady", port=0, pids={"worker": 0, "telemetry": 0}, start_seconds=0)


@pytest.fixture
def own_cores() -> Iterator[set[int]]:
    """Those this thread may use, again after the test."""
    cores = os.sched_getaffinity(0)
    yield cores
    os.sched_setaffinity(0, cores)


def test_the_work_takes_time_on_the_core_that_is_named(own_cores: set[int]) -> None:
    """Speed rule 1: the thread goes there, and the work is done there."""
    core = max(own_cores)
    assert 0 < find_slowness(core) < 1000
    assert os.sched_getaffinity(0) == {core}


def test_cpu_counts_by_the_speed_of_its_core(
    monkeypatch: pytest.MonkeyPatch, contestant: Steady
) -> None:
    """Speed rule 1: on a core half as fast the same seconds are half as much, at every moment."""
    monkeypatch.setattr(speed, "find_slowness", {0: 1.0, 1: 2.0}.__getitem__)
    begun = time.monotonic()
    with counting_cpu(contestant) as used:
        time.sleep(0.25)
        least = (time.monotonic() - begun) * PER_SECOND
    most = (time.monotonic() - begun) * PER_SECOND
    assert 0.95 * least <= used["worker"] <= most
    assert used["telemetry"] == pytest.approx(used["worker"] / 2)
