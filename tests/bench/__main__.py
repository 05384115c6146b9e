"""What spantap costs beside a bare relay: ``make bench``, ``python -m tests.bench``.

Contestants take turns (A B A B ...), each time with processes, upstream and backend of their own;
what is told is the median of the rounds. A run in which an answer or a span is missing does not
count: it ends.
"""

from __future__ import annotations

import argparse
import compileall
import dataclasses
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tests.bench.big_bodies import measure_stall
from tests.bench.growth import measure_growth
from tests.bench.measuring import Work, measure
from tests.bench.open_streams import CHUNKS, CHUNKS_PER_SECOND, hold_open
from tests.bench.plan import FULL, QUICK, SLOW, Plan, slow_work
from tests.bench.results import Results
from tests.bench.saturation import saturate
from tests.bench.scene import OBSTACLES, set_scene
from tests.bench.tables import render_sections, render_work
from tests.bench.web_sockets import measure_sockets

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bench.measuring import Figures
    from tests.bench.scene import Scene
    from tests.load.tool import LoadApi

Figure = TypeVar("Figure")

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("codec", "telemetry", "proxy", "tests")

_SLIM = ("bare", "spantap")
"""Who takes part where a floor or a rival says nothing more."""


def take_turns(
    names: list[str],
    rounds: int,
    look: Callable[[Scene], Figure],
    *,
    chunks: int,
    rate: float,
    api: LoadApi = "chat",
) -> dict[str, list[Figure]]:
    """Look at everybody in turn; what came of each, by name."""
    found: dict[str, list[Figure]] = {}
    for _ in range(rounds):
        for name in names:
            with set_scene(name, chunks=chunks, rate=rate, api=api) as scene:
                found.setdefault(name, []).append(look(scene))
    return found


def run_work(work: Work, names: list[str], rounds: int) -> dict[str, list[Figures]]:
    """One load on everybody, in turn; on the slow one once, and less of it."""
    fast = [name for name in names if name != SLOW]
    load = partial(measure, work=work)
    found = take_turns(fast, rounds, load, chunks=work.chunks, rate=work.rate, api=work.api)
    if SLOW in names and (less := slow_work(work)) is not None:
        load = partial(measure, work=less)
        found |= take_turns([SLOW], 1, load, chunks=less.chunks, rate=less.rate)
    return found


def run_plan(plan: Plan, results: Results, *, only: str, names: list[str]) -> None:
    """All parts whose names hold `only`; of the others the results keep what they have."""
    slim = [name for name in names if name in _SLIM]
    for work in plan.works:
        if only in work.name:
            print(f"{work.name} ...", flush=True)
            results.works[work.name] = run_work(work, names, plan.rounds)
            print(render_work(results.works[work.name]), flush=True)
    if only in "memory":
        print("memory ...", flush=True)
        hold = partial(hold_open, streams=plan.open_streams)
        results.open_streams = take_turns(
            slim, plan.rounds, hold, chunks=CHUNKS, rate=CHUNKS_PER_SECOND
        )
    if only in "large bodies":
        print("large bodies ...", flush=True)
        bodies = plan.big_bodies
        stall = partial(measure_stall, work=bodies)
        results.big_bodies = take_turns(
            slim, plan.rounds, stall, chunks=bodies.chunks, rate=bodies.rate
        )
    if only in "saturation" and "spantap" in names:
        print("saturation ...", flush=True)
        results.saturation = saturate(plan.saturation)
    if only in "websockets":
        print("websockets ...", flush=True)
        results.web_sockets = measure_sockets(plan.web_sockets, slim, plan.rounds)
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
