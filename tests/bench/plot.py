"""``python plot.py RESULTS PNG``: the figures of a run as a picture.

It needs matplotlib and nothing else, and so runs in an environment of its own, which
``make performance`` makes. Bars are medians, dots the rounds.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import textwrap
from pathlib import Path
from typing import Any

_COLOURS = {"bare": "#8a8f98", "spantap": "#1f77b4", "nginx": "#2ca02c", "litellm": "#d62728"}


def _draw_works(axes: Any, works: dict[str, Any], title: str, figure: Any) -> None:
    """Bars for each load and contestant, on a scale that shows the slowest beside the fastest."""
    names = [name for name in _COLOURS if any(name in found for found in works.values())]
    for at, name in enumerate(names):
        for place, found in enumerate(works.values()):
            values = [figure(one) for one in found.get(name, ())]
            if values:
                where = place + (at - (len(names) - 1) / 2) * 0.2
                label = name if not place else None
                axes.bar(where, statistics.median(values), 0.18, color=_COLOURS[name], label=label)
                axes.plot([where] * len(values), values, "k.", markersize=3)
    axes.set_xticks(range(len(works)), [textwrap.fill(name, 12) for name in works], fontsize=7)
    axes.set_yscale("log")
    axes.set_title(title, fontsize=9)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=7)


def _draw_growth(axes: Any, growths: dict[str, Any]) -> None:
    for name, points in growths.items():
        counts = [point["count"] for point in points]
        axes.plot(counts, [point["cpu_us"] / 1000 for point in points], "o-", label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title("CPU ms of one exchange (of all open streams together) by count", fontsize=9)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)


def main(results: str, png: str) -> None:
    """Draw one picture."""
    # By name, for types are checked where it is not installed.
    importlib.import_module("matplotlib").use("Agg")
    plt = importlib.import_module("matplotlib.pyplot")
    told = json.loads(Path(results).read_bytes())  # noqa: TID251 - spantap is not here
    works = told["works"]
    paced = {
        name: found
        for name, found in works.items()
        if found["bare"][0]["chunk_delay_p99_ms"] is not None
    }
    figure, grid = plt.subplots(2, 2, figsize=(15, 8))
    _draw_works(grid[0][0], works, "answers/s", lambda one: one["answers_per_second"])
    _draw_works(
        grid[0][1],
        works,
        "CPU seconds per 1,000 answers, all processes",
        lambda one: sum(one["cpu_seconds_per_1000"].values()),
    )
    _draw_works(grid[1][0], paced, "chunk delay p99, ms", lambda one: one["chunk_delay_p99_ms"])
    _draw_growth(grid[1][1], told["growths"])
    figure.suptitle(f"spantap {told['machine']['spantap']}, {told['date']}", fontsize=10)
    figure.tight_layout()
    figure.savefig(png, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
