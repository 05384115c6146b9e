"""CPU time as it would be on a core of known speed (rules of ``speed.py``)."""

from __future__ import annotations

import os
import threading
from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.bench import speed
from tests.bench.contestants import Contestant
from tests.bench.speed import counting_cpu, find_slowness

if TYPE_CHECKING:
    from collections.abc import Iterator


class Scripted(Contestant):
    """A stand-in that has used a second more of CPU, in each process, whenever it is asked."""

    def cpu_seconds(self) -> dict[str, float]:
        """Count on; fail where nothing runs any more."""
        if not self.pids["worker"]:
            raise ProcessLookupError
        self.pids.update({role: asked + 1 for role, asked in self.pids.items()})
        return {role: float(asked) for role, asked in self.pids.items()}

    def cores(self, role: str) -> set[int]:
        """Name one core of the worker, two of telemetry."""
        return {0} if role == "worker" else {1, 2}


@pytest.fixture
def contestant() -> Scripted:
    """Nothing runs."""
    return Scripted(name="scripted", port=0, pids={"worker": 1, "telemetry": 1}, start_seconds=0)


@pytest.fixture
def own_cores() -> Iterator[set[int]]:
    """Cores that this thread may use, again after the test."""
    cores = os.sched_getaffinity(0)
    yield cores
    os.sched_setaffinity(0, cores)


def test_the_work_takes_some_thousandths_of_a_second_on_the_core_that_is_named(
    own_cores: set[int],
) -> None:
    """Speed rule 1: the thread goes there; on no machine is it a hundred times as slow or fast."""
    core = max(own_cores)
    assert 0.01 < find_slowness(core) < 100
    assert os.sched_getaffinity(0) == {core}


def test_cpu_counts_by_the_speed_of_its_cores_at_the_time(
    monkeypatch: pytest.MonkeyPatch, contestant: Scripted
) -> None:
    """Speed rule 1: of two cores that are used evenly, half a second counts by each."""
    rounds = count(1)
    slowness = {0: (1.0, 2.0, 4.0), 1: (1.0, 1.0, 1.0), 2: (1.0, 4.0, 4.0)}
    enough = threading.Event()

    def find(core: int) -> float:
        number = next(rounds) if core == 0 else at[0]
        at[0] = number
        if number == 3:
            enough.set()
        return slowness[core][number - 1] if number <= 3 else 1e9  # the rest hardly counts

    at = [0]
    monkeypatch.setattr(speed, "find_slowness", find)
    with counting_cpu(contestant) as used:
        assert enough.wait(10)
    assert used["worker"] == pytest.approx(1 + 1 / 2 + 1 / 4)
    assert used["telemetry"] == pytest.approx(1 + 2 * (0.5 + 0.5 / 4))


def test_there_is_no_figure_of_who_has_ended(
    monkeypatch: pytest.MonkeyPatch, contestant: Scripted
) -> None:
    """What cannot be counted to the end is raised, not told as less."""
    monkeypatch.setattr(speed, "find_slowness", lambda _core: 1.0)
    with pytest.raises(ProcessLookupError), counting_cpu(contestant):
        contestant.pids["worker"] = 0
