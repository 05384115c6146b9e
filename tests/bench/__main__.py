"""What spantap costs beside a bare relay: ``make bench``, ``python -m tests.bench``.

Contestants take turns (A B A B …), each time with processes, upstream and backend of their own;
what is told is the median of the rounds. A run in which an answer or a span is missing does not
count: it ends.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from tests.bench.contestants import (
    NGINX_OBSTACLE,
    Contestant,
    pin_to_others,
    running_bare,
    running_nginx,
    running_observing,
)
from tests.bench.measuring import Figures, Work, measure
from tests.bench.span_sink import SpanSink
from tests.load.tool import LoadUpstream

WORKS = (
    Work(name="JSON", mode="json", connections=32, requests=8000),
    Work(name="200-chunk streams", mode="stream", connections=32, requests=2000),
    Work(
        name="500 streams, 50 chunks/s each",
        mode="stream",
        connections=500,
        requests=1000,
        chunks=400,
        rate=50,
    ),
)


def run(name: str, work: Work) -> Figures:
    """One round of one contestant."""
    with ExitStack() as stack:
        upstream = stack.enter_context(LoadUpstream(chunks=work.chunks, rate=work.rate))
        pin_to_others(upstream.pid)
        sink = stack.enter_context(SpanSink())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running: Contestant
        if name == "bare":
            running = stack.enter_context(running_bare(upstream.port))
        elif name == "nginx":
            running = stack.enter_context(running_nginx(folder, upstream.port))
        else:
            running = stack.enter_context(running_observing(folder, upstream.port, sink.url))
        return measure(running, work, sink)


def middle(rounds: list[Figures]) -> Figures:
    """The median of each figure."""
    members: dict[str, Any] = {}
    for member in dataclasses.fields(Figures):
        values = [getattr(one, member.name) for one in rounds]
        if isinstance(values[0], dict):
            members[member.name] = {
                role: statistics.median(value[role] for value in values) for role in values[0]
            }
        else:
            members[member.name] = statistics.median(values)
    return Figures(**members)


def describe(name: str, figures: Figures, bare: Figures) -> str:
    """A line of the table."""
    cpu = ", ".join(f"{role} {s:.2f}" for role, s in figures.cpu_seconds_per_1000.items())
    return (
        f"  {name:8} {figures.answers_per_second:8.0f}/s"
        f" ({figures.answers_per_second / bare.answers_per_second:.2f} x)"
        f"  chunk delay p50 {figures.chunk_delay_p50_ms:.2f}"
        f" p99 {figures.chunk_delay_p99_ms:.2f} ms"
        f"  first byte {figures.ttfb_p50_ms:.2f} ms"
        f"  CPU {figures.cpu_seconds:.2f} s/1,000 ({figures.cpu_seconds / bare.cpu_seconds:.2f} x:"
        f" {cpu})  memory {figures.memory_bytes / 1e6:.0f} MB"
        f"  backlog {figures.backlog_seconds:.1f} s, {figures.queue_bytes / 1e6:.1f} MB"
        f"  dropped {figures.dropped}"
    )


def main() -> None:
    """Run all loads on all contestants."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each contestant and load")
    parser.add_argument("--only", default="", help="loads whose names hold this")
    parser.add_argument("--out", type=Path, help="a file for the figures, as JSON")
    options = parser.parse_args()
    names = ["bare", "spantap"] + ([] if NGINX_OBSTACLE else ["nginx"])
    results: dict[str, dict[str, Figures]] = {}
    for work in (work for work in WORKS if options.only in work.name):
        rounds: dict[str, list[Figures]] = {name: [] for name in names}
        for _ in range(options.rounds):
            for name in names:
                rounds[name].append(run(name, work))
        results[work.name] = {name: middle(found) for name, found in rounds.items()}
        print(work.name)
        for name, figures in results[work.name].items():
            print(describe(name, figures, results[work.name]["bare"]))
        sys.stdout.flush()
    if options.out:
        options.out.write_bytes(msgspec.json.format(msgspec.json.encode(results)))


if __name__ == "__main__":
    main()
