"""CPU time as it would be on a core of known speed.

Who shares a machine has cores that do twice as much in one second as in another, each for itself:
seconds of CPU of the one cannot be compared with those of the other. So they are told as seconds of
a core that does a fixed piece of work in :data:`NOMINAL_SECONDS`:

1. Ten times a second the piece of work runs on each core, beside what is measured. What a process
   has used since the last time counts by how long the work took on the cores of that process,
   which it is taken to have used evenly.
2. The work is of the kind that is measured: Python calls C, which makes small objects. It takes
   about a hundredth of each core, from every contestant alike.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.faults.beside import beside

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from tests.bench.contestants import Contestant

__all__ = ("NOMINAL_SECONDS", "counting_cpu", "find_slowness")

NOMINAL_SECONDS = 0.001
"""What the work takes on a Xeon core of 2.5 GHz that nobody else uses, under Python 3.11."""

_PERIOD_SECONDS = 0.1

_CHUNK = {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"content": "word"}}]}
_CHUNKS = 275


def find_slowness(core: int) -> float:
    """Measure how many times as long as on a nominal core the work takes on `core` right now.

    The calling thread stays on that core.
    """
    os.sched_setaffinity(0, {core})
    begun = time.thread_time()
    for _ in range(_CHUNKS):
        json.dumps(_CHUNK)
    return (time.thread_time() - begun) / NOMINAL_SECONDS


@contextmanager
def counting_cpu(contestant: Contestant) -> Iterator[dict[str, float]]:
    """Count what each process uses while the block runs, in seconds of a nominal core.

    The counts are complete after the block.
    """
    before = contestant.cpu_seconds()
    used = dict.fromkeys(before, 0.0)
    cores = {role: contestant.cores(role) for role in before}

    def count(over: threading.Event) -> None:
        nonlocal before
        is_over = False
        while not is_over:
            is_over = over.wait(_PERIOD_SECONDS)
            slowness = {core: find_slowness(core) for core in set().union(*cores.values())}
            now = contestant.cpu_seconds()
            for role, seconds in now.items():
                around = statistics.harmonic_mean([slowness[core] for core in cores[role]])
                used[role] += (seconds - before[role]) / around
            before = now

    with beside(count):
        yield used
