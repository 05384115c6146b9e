"""WebSockets beside a bare relay: responses on many connections, back to back and paced.

In each round the bare relay goes first, and says how many messages it can carry. Both then get half
as many, paced. That may still be more than the bare relay carries one by one, because back to back
many come in one read; so both also get a fifth. To that the product gets a connection that sends
pings and nothing else.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from tests.bench.contestants import may_put_first, pin_to_others, put_first
from tests.bench.scene import set_scene
from tests.bench.socket_ends import SocketLoad, SocketResult
from tests.bench.speed import counting_cpu
from tests.e2e.processes import find_free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.scene import Scene

__all__ = ("SocketFigures", "WebSockets", "measure_sockets")

_ENDS = (sys.executable, "-m", "tests.bench.socket_ends")

_FEW = 0.4
"""Of the half."""

_SECONDS = 300.0
"""How long a load may take; a slow machine needs ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSockets:
    """What is measured.

    Attributes:
        deltas: of each response, one of which each connection has at a time.
        pings_per_second: of the connection that has nothing else.
    """

    connections: int = 500
    deltas: int = 200
    pings_per_second: int = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketFigures:
    """What one round of a contestant came to.

    Attributes:
        messages_per_second: back to back.
        offered_per_second: messages when they are paced.
        delay_p50_ms: from the write of a delta, paced, to the end of the read that brought it.
        calm_p50_ms: likewise of the fifth.
        cpu_us: of a message, paced, by process; the backlog after the load included.
        pinged_p99_ms: of the fifth, beside pings; None where there were none.
        pings_per_second: that were answered meanwhile.
        exchanges: all that it answered; each has a whole span at the backend.
    """

    messages_per_second: float
    offered_per_second: float
    delay_p50_ms: float
    delay_p99_ms: float
    calm_p50_ms: float
    calm_p99_ms: float
    cpu_us: dict[str, float]
    pinged_p99_ms: float | None
    pings_per_second: float | None
    exchanges: int


class _Upstream:
    """The upstream of :mod:`tests.bench.socket_ends`, as a process."""

    def __enter__(self) -> _Upstream:
        self.port = find_free_port()
        self._process = subprocess.Popen([*_ENDS, "upstream", str(self.port)])
        self.pid = self._process.pid
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.terminate()
        self._process.wait()


def measure_sockets(
    work: WebSockets, names: list[str], rounds: int
) -> dict[str, list[SocketFigures]]:
    """Measure everybody in turn, the first of whom says how much all of them get.

    Raises:
        AssertionError: a response was not whole, or a span is missing.
    """
    found: dict[str, list[SocketFigures]] = {}
    for _ in range(rounds):
        offered: float | None = None
        for name in names:
            with _set_scene(name) as scene:
                figures = _measure(scene, work, offered)
            offered = figures.offered_per_second
            found.setdefault(name, []).append(figures)
    return found


@contextmanager
def _set_scene(name: str) -> Iterator[Scene]:
    settings = {"SPANTAP_WEBSOCKETS": "relay"}
    with set_scene(
        name, upstream=_Upstream(), settings=settings, load_goes_first=may_put_first()
    ) as scene:
        yield scene


def _measure(scene: Scene, work: WebSockets, offered: float | None) -> SocketFigures:
    load = SocketLoad(port=scene.contestant.port, connections=work.connections, deltas=work.deltas)
    _run(scene, replace(load, connections=min(8, work.connections)))  # opened, loaded, warm
    flooded = _run(scene, load)
    messages_per_second = flooded.messages / flooded.seconds
    offered = offered or messages_per_second / 2
    paced = replace(load, rate=offered / work.connections)
    with counting_cpu(scene.contestant) as used:
        result = _run(scene, paced)
    few = replace(load, rate=offered * _FEW / work.connections)
    calm = _run(scene, few)
    pinged = None
    if scene.contestant.spantap is not None:
        pinged = _run(scene, replace(few, pings_per_second=work.pings_per_second))
    return SocketFigures(
        messages_per_second=messages_per_second,
        offered_per_second=offered,
        delay_p50_ms=result.delay_p50_ns / 1e6,
        delay_p99_ms=result.delay_p99_ns / 1e6,
        calm_p50_ms=calm.delay_p50_ns / 1e6,
        calm_p99_ms=calm.delay_p99_ns / 1e6,
        cpu_us={role: seconds / result.messages * 1e6 for role, seconds in used.items()},
        pinged_p99_ms=pinged.delay_p99_ns / 1e6 if pinged else None,
        pings_per_second=pinged.pongs / pinged.seconds if pinged else None,
        exchanges=scene.exchanges,
    )


def _run(scene: Scene, load: SocketLoad) -> SocketResult:
    """Put a load on a contestant, and wait until the backend has the span of each response."""
    scene.contestant.pin()
    command = [*_ENDS, "client", msgspec.json.encode(load).decode()]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as client:
        assert client.stdout is not None
        pin_to_others(client.pid)
        if scene.load_goes_first:
            put_first(client.pid)
        try:
            assert client.stdout.readline() == "ready\n"
            said, _ = client.communicate("\n", timeout=_SECONDS)
        finally:
            client.kill()
    assert client.returncode == 0
    scene.exchanges += load.connections
    scene.settle()
    return msgspec.json.decode(said, type=SocketResult)
