"""What it costs that somebody looks at the page: ``make bench-page``.

The loads of ``make bench`` on one proxy: nobody watches, one watcher of the calls, one that reads a
text along, ten. They take turns, each round on a proxy of its own and in the other order, so that
all have the same machine; what is told is the median of the rounds, and of each figure the median
of its ratios to that of nobody in the same round. That nobody watches is measured twice: by how far
those two differ, the others may differ, too, without a reason.

All but the relay share a core. Whoever may do so (root) lets a load that is sent at a pace go first
on it: else its p99 would tell how long the client waited for a watcher.
"""

from __future__ import annotations

import argparse
import secrets
import statistics
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.bench.contestants import may_put_first, pin_to_others
from tests.bench.measuring import measure
from tests.bench.plan import CALM, JSON, STREAMS
from tests.bench.scene import set_scene
from tests.e2e.processes import find_free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.bench.measuring import Figures, Work
    from tests.bench.scene import Scene

_END_SECONDS: Final = 10.0

_WORKS: Final = (
    replace(JSON, requests=24_000),
    replace(STREAMS, requests=1_500),
    replace(CALM, requests=600),
)

_WATCHERS: Final = {
    "nobody": [],
    "nobody again": [],
    "one": [],
    "one, a text": ["--text"],
    "ten": ["--count", "10"],
}
"""Who watches, and how :mod:`tests.bench.watchers` is told so."""

_FIGURES: Final[dict[str, Callable[[Figures], float | None]]] = {
    "answers/s": lambda figures: figures.answers_per_second,
    "first byte p99, ms": lambda figures: figures.ttfb_p99_ms,
    "chunk delay p99, ms": lambda figures: figures.chunk_delay_p99_ms,
    "telemetry, CPU s for 1,000": lambda figures: figures.cpu_seconds_per_1000["telemetry"],
    "worker, CPU s for 1,000": lambda figures: figures.cpu_seconds_per_1000["worker"],
    "page, CPU s for 1,000": lambda figures: figures.cpu_seconds_per_1000.get("page"),
}

_LEAST: Final = 0.02
"""Seconds: of less, such as the page's process takes that nobody asks, no ratio is told."""


@contextmanager
def _watching(name: str, url: str, token: str, scene: Scene) -> Iterator[None]:
    """Watch the page while the block runs; what the watchers saw is printed after it.

    Raises:
        AssertionError: they did not watch to the end.
    """
    if name.startswith("nobody"):
        yield
        return
    command = [sys.executable, "-m", "tests.bench.watchers", url, token, *_WATCHERS[name]]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as watchers:
        try:
            pin_to_others(watchers.pid)
            assert watchers.stdout is not None
            assert watchers.stdout.readline() == "ready\n"
            _count_page(scene)
            yield
            saw, _ = watchers.communicate("enough\n", _END_SECONDS)
            assert watchers.returncode == 0, f"watchers ended with {watchers.returncode}"
            print(f"{name}: {saw.strip()}", flush=True)
        finally:
            watchers.kill()


def _count_page(scene: Scene) -> None:
    """Count the page's process among those of spantap; it begins with who watches first."""
    pids = scene.contestant.pids
    for path in Path(f"/proc/{pids['supervisor']}/task").glob("*/children"):
        for pid in map(int, path.read_text().split()):
            if b"proxy.page.process" in Path(f"/proc/{pid}/cmdline").read_bytes():
                pids["page"] = pid
    scene.contestant.pin()


def measure_watched(work: Work, rounds: int) -> dict[str, list[Figures]]:
    """Put a load on a proxy again and again, watched by one after the other."""
    port, token = find_free_port(), secrets.token_urlsafe()
    settings = {"SPANTAP_PAGE_PORT": str(port), "SPANTAP_PAGE_TOKEN": token}
    url = f"http://127.0.0.1:{port}"
    found: dict[str, list[Figures]] = {name: [] for name in _WATCHERS}
    for number in range(rounds):
        with set_scene(
            "spantap",
            chunks=work.chunks,
            rate=work.rate,
            settings=settings,
            load_goes_first=work.rate > 0 and may_put_first(),
        ) as scene:
            for name in list(found)[:: 1 if number % 2 else -1]:
                with _watching(name, url, token, scene):
                    found[name].append(measure(scene, work))
    return found


def render(found: dict[str, list[Figures]]) -> str:
    """Render a table: medians, and ratios to who is not watched."""
    lines = [f"| | {' | '.join(found)} |", "| --- |" + " ---: |" * len(found)]
    for what, read in _FIGURES.items():
        columns = {name: [read(figures) for figures in all_of] for name, all_of in found.items()}
        alone = [value or 0.0 for value in columns["nobody"]]
        if not any(value for values in columns.values() for value in values):
            continue
        cells = []
        for name, values in columns.items():
            known = [value or 0.0 for value in values]
            cell = f"{statistics.median(known):,.3g}"
            if name != "nobody" and min(alone) >= _LEAST:
                ratios = [one / base for one, base in zip(known, alone, strict=True)]
                cell += f" ({statistics.median(ratios):.3f} x)"
            cells.append(cell)
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print a table for each load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="a part of the name of a load")
    options = parser.parse_args()
    for work in _WORKS:
        if options.only in work.name:
            found = measure_watched(work, options.rounds)
            print(f"\n{work.name}\n\n{render(found)}", flush=True)


if __name__ == "__main__":
    main()
