"""How cost grows with size: chunks of a stream, streams at a time, messages of a chat, workers.

1. A count's cost has a fixed part (the request, the span, an idle process) that is not to be told
   from what one more unit costs by dividing. So the cost of a unit is the rise from the smallest
   count, divided by the units between them. (From the count before, it would be a small difference
   of two large figures, each of which is right within a tenth.)
2. A rise of less than a tenth of what was measured, or of 64 KiB of memory, is noise on a machine
   that does something else besides: it is not told.
3. Growth is linear where a unit costs at most a fifth more than it did at any smaller count. That
   it may cost less is no fault: who is busier wakes up less often for each chunk.
4. A count is measured in several rounds, in turn with the others. Of memory the least is told: what
   disturbs a measurement adds to it. Of CPU time, which counts as that of a core of known speed and
   so may come out too small as well, the median is told.
5. Workers are told apart from this: a call costs the same CPU through whichever of them, and each
   has the memory of the first. Each of them has calls at the same pace: as fast as they are taken,
   two of them and all else would want more than the two cores that there may be.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tests.bench.measuring import Work, measure
from tests.bench.open_streams import CHUNKS, CHUNKS_PER_SECOND, hold_open
from tests.bench.scene import set_scene
from tests.load.tool import ClientLoad

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.bench.scene import Scene

__all__ = ("GROWTHS", "Figure", "Point", "find_deviations", "find_rises", "measure_growth")

Figure = Literal["cpu_us", "memory_bytes"]

NOISE = 0.1
NOISE_BYTES = 65_536
"""Rule 2; of memory for one exchange, of which 16 are answered at a time: together 1 MiB, which is
what Python's allocator takes at a time."""

_AT_ONCE = 16
"""Exchanges at a time while memory is looked at: enough to see, too few for a backlog."""

_PER_WORKER = 32
"""Connections."""

_PER_WORKER_SECOND = 1000.0
"""Calls (rule 5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What one count came to, fixed part included.

    Attributes:
        count: of chunks, streams, messages or workers.
        cpu_us: of all processes: for one exchange, or for all open streams together; of a nominal
            core.
        memory_bytes: over idle: for one exchange, or for all open streams together; of workers,
            what each of them has.
    """

    count: int
    cpu_us: float
    memory_bytes: float


def measure_growth(name: str, counts: Mapping[int, int], rounds: int) -> list[Point]:
    """Measure one of :data:`GROWTHS` for some counts, each with a number of exchanges (rule 4)."""
    found = [
        [GROWTHS[name](count, exchanges) for count, exchanges in counts.items()]
        for _ in range(rounds)
    ]
    return [_join(points) for points in zip(*found, strict=True)]


def _join(points: Sequence[Point]) -> Point:
    """Join the rounds of one count (rule 4)."""
    return Point(
        count=points[0].count,
        cpu_us=statistics.median(point.cpu_us for point in points),
        memory_bytes=min(point.memory_bytes for point in points),
    )


def find_rises(points: Sequence[Point], figure: Figure) -> list[float | None]:
    """What one more unit costs between the smallest count and each other (rules 1 and 2)."""
    rises: list[float | None] = [None]
    smallest = points[0]
    for point in points[1:]:
        cost = getattr(point, figure)
        rise = cost - getattr(smallest, figure)
        is_told = rise >= NOISE * cost and (figure == "cpu_us" or rise >= NOISE_BYTES)
        rises.append(rise / (point.count - smallest.count) if is_told else None)
    return rises


def find_deviations(name: str, points: Sequence[Point], figure: Figure) -> list[float | None]:
    """How much more a unit costs than at any smaller count, as a part of that (rules 3 and 5)."""
    units: list[float | None] = find_rises(points, figure)
    if name == "workers":
        units = [getattr(point, figure) for point in points]
    deviations: list[float | None] = []
    for at, unit in enumerate(units):
        smaller = [before for before in units[:at] if before is not None]
        deviations.append(unit / min(smaller) - 1 if unit is not None and smaller else None)
    return deviations


def _grow_chunks(count: int, exchanges: int) -> Point:
    with set_scene("spantap", chunks=count) as scene:
        work = Work(name="", mode="stream", connections=_AT_ONCE, requests=exchanges, chunks=count)
        return _measure_exchange(scene, count, work)


def _grow_messages(count: int, exchanges: int) -> Point:
    with set_scene("spantap") as scene:
        work = Work(name="", mode="json", connections=_AT_ONCE, requests=exchanges, messages=count)
        return _measure_exchange(scene, count, work)


def _grow_streams(count: int, _exchanges: int) -> Point:
    with set_scene("spantap", chunks=CHUNKS, rate=CHUNKS_PER_SECOND) as scene:
        held = hold_open(scene, count)
    rise = sum(held.open_bytes.values()) - sum(held.idle_bytes.values())
    return Point(count=count, cpu_us=held.cpu_seconds * 1e6, memory_bytes=rise)


def _grow_workers(count: int, exchanges: int) -> Point:
    with set_scene("spantap", workers=count) as scene:
        memory = scene.contestant.rss_bytes()
        work = Work(
            name="",
            mode="json",
            connections=_PER_WORKER * count,
            requests=exchanges,
            starts_per_second=_PER_WORKER_SECOND * count,
        )
        figures = measure(scene, work)
    workers = [held for role, held in memory.items() if role.startswith("worker")]
    return Point(
        count=count, cpu_us=figures.cpu_seconds * 1000, memory_bytes=statistics.fmean(workers)
    )


GROWTHS: dict[str, Callable[[int, int], Point]] = {
    "chunks of a stream": _grow_chunks,
    "open streams": _grow_streams,
    "messages of a chat": _grow_messages,
    "workers": _grow_workers,
}


def _measure_exchange(scene: Scene, count: int, work: Work) -> Point:
    """Memory over as many as there are at a time, the first of all; CPU time over many."""
    contestant = scene.contestant
    # What is loaded and made for the first exchanges is none of theirs.
    scene.run(ClientLoad(port=contestant.port, mode="json", connections=_AT_ONCE, requests=100))
    scene.settle()
    contestant.forget_peaks()
    before = sum(contestant.rss_bytes().values())
    scene.run(
        ClientLoad(
            port=contestant.port,
            mode=work.mode,
            connections=_AT_ONCE,
            requests=_AT_ONCE,
            messages=work.messages,
        )
    )
    scene.settle()
    risen = sum(contestant.peak_bytes().values()) - before
    figures = measure(scene, work)
    return Point(count=count, cpu_us=figures.cpu_seconds * 1000, memory_bytes=risen / _AT_ONCE)
