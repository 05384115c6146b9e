"""What spantap costs beside a bare relay: ``make bench``, ``python -m tests.bench``.

Contestants take turns (A B A B ...), each time with processes, upstream and backend of their own;
what is told is the median of the rounds. A run in which an answer or a span is missing does not
count: it ends.
"""

from __future__ import annotations

import argparse
import compileall
import dataclasses
from pathlib import Path

from tests.bench.big_bodies import measure_stall
from tests.bench.growth import measure_growth
from tests.bench.measuring import Work, measure
from tests.bench.open_streams import CHUNKS, CHUNKS_PER_SECOND, hold_open
from tests.bench.plan import FULL, QUICK, SLOW, Plan, slow_work
from tests.bench.results import Results
from tests.bench.saturation import saturate
from tests.bench.scene import OBSTACLES, set_scene
from tests.bench.tables import render_sections, render_work

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("codec", "telemetry", "proxy", "tests")

_SLIM = ("bare", "spantap")
"""Who takes part where a floor or a rival says nothing more."""


def run_work(work: Work, names: list[str], rounds: int, results: Results) -> None:
    """One load on everybody, in turn."""
    found = results.works[work.name] = {}
    for number in range(rounds):
        for name in names:
            own = slow_work(work) if name == SLOW else work
            if own is None or (name == SLOW and number):
                continue
            with set_scene(name, chunks=own.chunks, rate=own.rate, api=own.api) as scene:
                found.setdefault(name, []).append(measure(scene, own))


def hold_streams(plan: Plan, names: list[str], results: Results) -> None:
    """Memory, idle and with streams open."""
    results.open_streams = {}
    for _ in range(plan.rounds):
        for name in names:
            with set_scene(name, chunks=CHUNKS, rate=CHUNKS_PER_SECOND) as scene:
                results.open_streams.setdefault(name, []).append(
                    hold_open(scene, plan.open_streams)
                )


def send_images(plan: Plan, names: list[str], results: Results) -> None:
    """Delays beside large chats."""
    results.big_bodies = {}
    work = plan.big_bodies
    for _ in range(plan.rounds):
        for name in names:
            with set_scene(name, chunks=work.chunks, rate=work.rate) as scene:
                results.big_bodies.setdefault(name, []).append(measure_stall(scene, work))


def run_plan(plan: Plan, results: Results, *, only: str, names: list[str]) -> None:
    """All parts whose names hold `only`; of the others the results keep what they have."""
    slim = [name for name in names if name in _SLIM]
    for work in plan.works:
        if only in work.name:
            print(f"{work.name} ...", flush=True)
            run_work(work, names, plan.rounds, results)
            print(render_work(results.works[work.name]), flush=True)
    if only in "memory":
        print("memory ...", flush=True)
        hold_streams(plan, slim, results)
    if only in "large bodies":
        print("large bodies ...", flush=True)
        send_images(plan, slim, results)
    if only in "saturation" and "spantap" in names:
        print("saturation ...", flush=True)
        results.saturation = saturate(plan.saturation)
    for name, counts in plan.growths.items():
        if only in f"growth with {name}":
            print(f"growth with {name} ...", flush=True)
            results.growths[name] = measure_growth(name, counts, plan.growth_rounds)


def main() -> None:
    """Run what was asked for, and print it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a round of an eighth of everything")
    parser.add_argument("--rounds", type=int, help="of each contestant and part")
    parser.add_argument("--only", default="", help="parts whose names hold this")
    parser.add_argument("--contestants", default=",".join(OBSTACLES), help="who takes part")
    parser.add_argument(
        "--out", type=Path, help="a file for all figures, as JSON; with --only it keeps the others"
    )
    options = parser.parse_args()
    plan = QUICK if options.quick else FULL
    if options.rounds:
        plan = dataclasses.replace(plan, rounds=options.rounds, growth_rounds=options.rounds)
    names = []
    for name in options.contestants.split(","):
        if obstacle := OBSTACLES[name]:
            print(f"without {name}: {obstacle}")
        else:
            names.append(name)
    for folder in _PACKAGES:  # as installing does: a start that compiles is nobody's
        compileall.compile_dir(_ROOT / folder, quiet=2)
    keeps = options.only and options.out and options.out.exists()
    results = Results.read(options.out) if keeps else Results.begin()
    run_plan(plan, results, only=options.only, names=names)
    if options.out:
        results.write(options.out)
    for name, text in render_sections(results).items():
        if name != "works":  # those were told as they came
            print(f"\n{name}\n\n{text}", end="")


if __name__ == "__main__":
    main()
