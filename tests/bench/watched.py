"""What it costs that somebody looks at the page: ``make bench-page``.

The loads of ``make bench`` on one proxy: nobody watches, one watcher of the calls, one that reads a
text along, ten. They take turns, each round on a proxy of its own and in the other order, so that
all have the same machine; what is told is the median of the rounds, and of each figure the median
of its ratios to that of nobody in the same round. That nobody watches is measured twice: by how far
those two differ, the others may differ, too, without a reason.
"""

from __future__ import annotations

import argparse
import secrets
import statistics
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tests.bench.contestants import pin_to_others, read_cpu_seconds
from tests.bench.measuring import measure
from tests.bench.plan import CALM, JSON, STREAMS
from tests.bench.scene import set_scene
from tests.e2e.processes import find_free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.bench.measuring import Figures, Work
    from tests.bench.scene import Scene

    # And of the page's process, in seconds of CPU for 1,000 answers.
    Watched = tuple[Figures, float]

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

_FIGURES: Final[dict[str, Callable[[Watched], float | None]]] = {
    "answers/s": lambda told: told[0].answers_per_second,
    "first byte p99, ms": lambda told: told[0].ttfb_p99_ms,
    "chunk delay p99, ms": lambda told: told[0].chunk_delay_p99_ms,
    "telemetry, CPU s for 1,000": lambda told: told[0].cpu_seconds_per_1000["telemetry"],
    "worker, CPU s for 1,000": lambda told: told[0].cpu_seconds_per_1000["worker"],
    "page, CPU s for 1,000": lambda told: told[1],
}


@contextmanager
def _watching(name: str, url: str, token: str) -> Iterator[None]:
    """Watch the page while the block runs."""
    if name.startswith("nobody"):
        yield
        return
    command = [sys.executable, "-m", "tests.bench.watchers", url, token, *_WATCHERS[name]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as watchers:
        assert watchers.stdin is not None
        assert watchers.stdout is not None
        try:
            pin_to_others(watchers.pid)
            assert watchers.stdout.readline() == b"ready\n"
            yield
            watchers.stdin.write(b"enough\n")
        finally:
            watchers.stdin.close()
            watchers.terminate()


def _measure(scene: Scene, work: Work) -> Watched:
    before = _count_page_seconds(scene)
    figures = measure(scene, work)
    return figures, (_count_page_seconds(scene) - before) * 1000 / figures.answers


def _count_page_seconds(scene: Scene) -> float:
    assert scene.contestant.spantap is not None
    pages = scene.contestant.spantap.children().get("page", [])
    return sum(map(read_cpu_seconds, pages))


def measure_watched(work: Work, rounds: int) -> dict[str, list[Watched]]:
    """Put a load on a proxy again and again, watched by one after the other."""
    port, token = find_free_port(), secrets.token_urlsafe()
    settings = {"SPANTAP_PAGE_PORT": str(port), "SPANTAP_PAGE_TOKEN": token}
    url = f"http://127.0.0.1:{port}"
    found: dict[str, list[Watched]] = {name: [] for name in _WATCHERS}
    for number in range(rounds):
        with set_scene("spantap", chunks=work.chunks, rate=work.rate, settings=settings) as scene:
            for name in list(found)[:: 1 if number % 2 else -1]:
                with _watching(name, url, token):
                    found[name].append(_measure(scene, work))
    return found


def render(found: dict[str, list[Watched]]) -> str:
    """Render a table: medians, and ratios to who is not watched."""
    lines = [f"| | {' | '.join(found)} |", "| --- |" + " ---: |" * len(found)]
    for what, read in _FIGURES.items():
        columns = {name: [read(told) for told in all_of] for name, all_of in found.items()}
        alone = columns["nobody"]
        cells = []
        for name, values in columns.items():
            known = [value for value in values if value is not None]
            if not known:
                break
            cell = f"{statistics.median(known):,.3g}"
            if name != "nobody":
                ratios = [one / base for one, base in zip(known, alone, strict=True) if base]
                cell += f" ({statistics.median(ratios):.3f} x)"
            cells.append(cell)
        if cells:
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
