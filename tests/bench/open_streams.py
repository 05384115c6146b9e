"""What a contestant holds in memory, idle and with streams open, and what those cost it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.speed import counting_cpu
from tests.load.tool import ClientLoad

if TYPE_CHECKING:
    from tests.bench.scene import Scene

__all__ = ("CHUNKS", "CHUNKS_PER_SECOND", "OpenStreams", "hold_open")

CHUNKS = 40
CHUNKS_PER_SECOND = 4
"""Slow enough that two thousand streams leave a relay idle half of the time."""

_QUIET_SECONDS = 1.0
"""After the start, before memory is called idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStreams:
    """What came of so many streams, all open at once.

    Attributes:
        idle_bytes: resident memory by process before, after one answered request.
        open_bytes: likewise with all of them open, four fifths of their chunks sent.
        cpu_seconds: of all processes, from before the first to the last span; of a nominal core.
    """

    streams: int
    idle_bytes: dict[str, int]
    open_bytes: dict[str, int]
    cpu_seconds: float


def hold_open(scene: Scene, streams: int, *, chunks: int = CHUNKS) -> OpenStreams:
    """Open `streams` of `chunks` each, as the upstream sends, through one that has done nothing.

    Raises:
        AssertionError: as :meth:`Scene.settle`.
    """
    contestant = scene.contestant
    time.sleep(_QUIET_SECONDS)
    idle_bytes = contestant.rss_bytes()
    load = ClientLoad(port=contestant.port, mode="stream", connections=streams, requests=streams)
    with counting_cpu(contestant) as used:
        with scene.loaded(load) as client:
            time.sleep(0.8 * chunks / CHUNKS_PER_SECOND)
            open_bytes = contestant.rss_bytes()
            scene.finish(client)
        scene.settle()
    return OpenStreams(
        streams=streams,
        idle_bytes=idle_bytes,
        open_bytes=open_bytes,
        cpu_seconds=sum(used.values()),
    )
