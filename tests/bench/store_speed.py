"""How fast a store of a million calls is read: ``python -m tests.bench.store_speed``.

Rules:

1. A figure is the median of its rounds. Beside the time on the clock, which whoever else is on the
   machine makes longer, stands the CPU time of the process that reads.
2. A command is a whole process, from its start to its end, its output in a pipe.
3. The store's pages are in the memory of the machine, as those of one in use are: the first round
   of each is not counted.
4. What a reader does to a call that is relayed meanwhile is told beside what a program does that
   reads nothing and takes as much CPU: both take cores from the load and its upstream.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from telemetry.finding.filter import parse_filter
from telemetry.finding.where import ALL_CALLS
from telemetry.reading.stored_calls import open_calls
from telemetry.store.opening import connect_reader
from telemetry.store.schema import APPLICATION_ID, MIGRATIONS
from telemetry.store.store import Store
from tests.bench.big_store import copy_rows, play_recordings, write_store
from tests.bench.contestants import pin_to_others, pinned, running_observing
from tests.bench.scene import Scene
from tests.bench.span_sink import SpanSink
from tests.bench.store_figures import Reading, ReadingResults
from tests.corpus.recordings import FOLDER
from tests.e2e.processes import clean_environment
from tests.load.tool import ClientLoad, LoadUpstream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from telemetry.store.rows import SpanRow

ROUNDS: Final = 5

SEARCHED_BYTES: Final = 300_000_000
"""The bytes of spans that one round of a search reads."""

TEXTS: Final = {
    "plain": "zebra crossing absent",
    "Cyrillic": "такого текста нет",
    "quoted": 'say "nothing of it" there',
}

FOLLOWED_PER_SECOND: Final = 2_000

_FOLLOW_SECONDS: Final = 3
_COMMIT_SECONDS: Final = 0.25
_BESIDE_CALLS: Final = 100_000
_CALLS_PER_SECOND: Final = 200
_LOAD_SECONDS: Final = 4


@dataclass(slots=True)
class _Taken:
    """Time on the clock and of the CPU, in seconds."""

    wall: float = 0.0
    cpu: float = 0.0


@contextlib.contextmanager
def _timing() -> Iterator[_Taken]:
    taken = _Taken()
    wall, cpu = time.perf_counter(), time.process_time()
    yield taken
    taken.wall, taken.cpu = time.perf_counter() - wall, time.process_time() - cpu


def _run(*arguments: str, program: Sequence[str] = ("-m", "spantap")) -> _Taken:
    """Run a command (rule 2).

    Raises:
        AssertionError: it failed.
    """
    begun = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *program, *arguments],
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, arguments
    return _Taken(time.perf_counter() - begun, used.ru_utime + used.ru_stime)


def _repeat(look: Callable[[], _Taken], rounds: int) -> list[_Taken]:
    look()  # rule 3
    return [look() for _ in range(rounds)]


def _seconds(what: str, goal: float | None, look: Callable[[], _Taken], rounds: int) -> Reading:
    taken = _repeat(look, rounds)
    return Reading(
        what=what,
        unit="s",
        goal=goal,
        rounds=[one.wall for one in taken],
        cpu_seconds=[one.cpu for one in taken],
    )


def measure_reads(store: Path, rounds: int) -> list[Reading]:
    """Calls of the reader, and commands."""

    def newest() -> _Taken:
        with _timing() as taken, open_calls(store) as reader:
            assert len([*reader.rows(reader.numbers(100))]) == 100
        return taken

    def no_match() -> _Taken:
        wanted = parse_filter(["upstream:nowhere"], now_ns=time.time_ns(), zone=UTC)
        with _timing() as taken, open_calls(store) as reader:
            assert not reader.that(wanted.where()).numbers(100)
        return taken

    with open_calls(store) as reader:
        [long] = reader.page(1).rows

    def command(*arguments: str) -> Callable[[], _Taken]:
        return lambda: _run(*arguments, "--store", str(store))

    def nothing() -> _Taken:
        return _run(program=("-c", "pass"))

    return [
        _seconds("newest 100 calls, from the store", 0.05, newest, rounds),
        _seconds("a filter that fits none, from the store", None, no_match, rounds),
        _seconds("a start of Python that does nothing", None, nothing, rounds),
        _seconds("`traces --limit 100`", 0.3, command("traces", "--limit", "100"), rounds),
        _seconds("`traces upstream:nowhere`", 0.5, command("traces", "upstream:nowhere"), rounds),
        _seconds("`stats --by model`", 0.5, command("stats", "--by", "model"), rounds),
        _seconds(
            "`traces show`, a call of 200 messages",
            0.3,
            command("traces", "show", long.span_id),
            rounds,
        ),
    ]


def measure_search(store: Path, rounds: int) -> list[Reading]:
    """Searches for texts that are nowhere."""

    def search(text: str) -> _Taken:
        with _timing() as taken, open_calls(store) as reader:
            for step in reader.that(ALL_CALLS.also(texts=(text,))).search():
                if step.size_bytes >= SEARCHED_BYTES or step.is_done:
                    break
        megabytes = step.size_bytes / 1e6
        return _Taken(megabytes / taken.wall, megabytes / taken.cpu)

    found = []
    for name, text in TEXTS.items():
        speeds = _repeat(partial(search, text), rounds)
        found.append(
            Reading(
                what=f"search for a {name} text",
                unit="MB/s",
                goal=300,
                is_least=True,
                rounds=[one.wall for one in speeds],
                cpu_rates=[one.cpu for one in speeds],
            )
        )
    return found


def measure_follow(folder: Path, rounds: int) -> Reading:
    """How long after the last commit ``--follow`` has listed it, at 2,000 calls/s."""
    base = play_recordings(FOLDER or Path())
    return Reading(
        what=f"`traces --follow` at {FOLLOWED_PER_SECOND:,} calls/s: behind at the end",
        unit="s",
        goal=1.0,
        rounds=[_follow(folder / f"follow-{number}.db", base, number) for number in range(rounds)],
    )


def _follow(path: Path, base: Sequence[SpanRow], seed: int) -> float:
    count = FOLLOWED_PER_SECOND * _FOLLOW_SECONDS
    each = int(FOLLOWED_PER_SECOND * _COMMIT_SECONDS)
    rows = [*copy_rows(base, count + 1, end_ns=time.time_ns(), seed=seed)]
    command = [sys.executable, "-m", "spantap", "traces", "--follow", "--store", str(path)]
    came = threading.Semaphore(0)
    with Store.open(path, delivers=False) as store:
        store.add(rows[:1])
        with subprocess.Popen(
            command,
            env=clean_environment() | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:

            def read() -> None:
                assert process.stdout is not None
                for _ in process.stdout:
                    came.release()

            reading = threading.Thread(target=read)
            reading.start()
            for _ in range(2):  # the titles, and the call that is there
                assert came.acquire(timeout=30)
            begun = time.monotonic()
            for number in range(count // each):
                store.add(rows[1 + number * each : 1 + (number + 1) * each])
                wait = begun + (number + 1) * _COMMIT_SECONDS - time.monotonic()
                if number < count // each - 1:
                    time.sleep(max(0.0, wait))
            ended = time.monotonic()
            for _ in range(count):
                assert came.acquire(timeout=60), "calls are missing"
            behind = time.monotonic() - ended
            process.terminate()
            reading.join()
    return behind


def measure_migration(store: Path, folder: Path) -> Reading:
    """How long the first start takes on a store of the first version, whose bytes are left out."""
    path = folder / "older.db"
    with contextlib.closing(connect_reader(store)) as newer:
        names = "seq, span_id, trace_id, name, start_ns, end_ns, model, status, outcome"
        names += ", prompt_tokens, completion_tokens, total_tokens, size_bytes, state, recorded_ns"
        older = sqlite3.connect(path, isolation_level=None)
        for statement in MIGRATIONS[0]:
            older.execute(statement)
        marks = ", ".join("?" * len(names.split(", ")))
        older.execute("BEGIN")
        older.executemany(
            f"INSERT INTO spans ({names}) VALUES ({marks})",
            newer.execute(f"SELECT {names} FROM spans ORDER BY seq"),
        )
        older.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        older.execute("PRAGMA user_version = 1")
        older.execute("COMMIT")
        older.close()
    with _timing() as taken:
        Store.open(path, delivers=False).close()
    with open_calls(path) as reader:
        assert reader.count() > 0
    return Reading(
        what="migration from the first version",
        unit="s",
        goal=10.0,
        rounds=[taken.wall],
        cpu_seconds=[taken.cpu],
    )


_READ = """
import sys, time
from pathlib import Path
from telemetry.finding.where import ALL_CALLS, ask_word
from telemetry.reading.stored_calls import open_calls
while True:
    with open_calls(Path(sys.argv[1])) as reader:
        reader.aggregate("model")
        reader.that(ALL_CALLS.also(ask_word("upstream", "nowhere"))).numbers(100)
"""

_BURN = "while True: sum(range(100_000))"


def measure_beside(folder: Path, rounds: int) -> list[Reading]:
    """What a reader in a loop does to the first byte of calls (rule 4)."""
    found: dict[str, list[float]] = {"nothing": [], "a loop": [], "a reader": []}
    path = folder / "traces.db"
    write_store(path, _BESIDE_CALLS, folder=FOLDER or Path())
    programs = {"nothing": None, "a loop": (_BURN,), "a reader": (_READ, str(path))}
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(LoadUpstream(chunks=20, rate=0))
        pin_to_others(upstream.pid)
        sink = stack.enter_context(SpanSink())
        contestant = stack.enter_context(running_observing(folder, upstream.port, sink.url))
        stack.enter_context(pinned(contestant))
        scene = Scene(contestant, sink)
        load = ClientLoad(
            port=contestant.port,
            mode="json",
            connections=64,
            requests=_CALLS_PER_SECOND * _LOAD_SECONDS,
            rate=_CALLS_PER_SECOND,
        )
        scene.run(load)
        for _ in range(rounds):
            for name, program in programs.items():
                with _running(program):
                    found[name].append(scene.run(load).ttfb.p99_ns / 1e6)
                scene.settle()
    return [
        Reading(
            what=f"p99 of the first byte at {_CALLS_PER_SECOND} calls/s, beside {name}",
            unit="ms",
            goal=None,
            rounds=times,
        )
        for name, times in found.items()
    ]


@contextlib.contextmanager
def _running(program: Sequence[str] | None) -> Iterator[None]:
    if program is None:
        yield
        return
    environment = clean_environment()
    with subprocess.Popen([sys.executable, "-c", *program], env=environment) as process:
        pin_to_others(process.pid)
        try:
            yield
        finally:
            process.kill()


def main() -> None:
    """Measure what was asked for, and keep it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.store_speed", description=__doc__)
    parser.add_argument("--store", type=Path, default=Path(".bench/store.db"))
    parser.add_argument("--out", type=Path, default=Path(".bench/store.json"))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="parts whose names hold this")
    options = parser.parse_args()
    if not options.store.exists():
        parser.error(f"make {options.store} first: python -m tests.bench.big_store")
    results = (
        ReadingResults.read(options.out)
        if options.only and options.out.exists()
        else ReadingResults.begin(options.store)
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts: dict[str, Callable[[], list[Reading]]] = {
            "reads": lambda: measure_reads(options.store, options.rounds),
            "search": lambda: measure_search(options.store, options.rounds),
            "follow": lambda: [measure_follow(folder, options.rounds)],
            "migration": lambda: [measure_migration(options.store, folder)],
            "beside": lambda: measure_beside(folder, options.rounds),
        }
        for part, run in parts.items():
            if options.only in part:
                results.parts[part] = run()
                print(results.render(), flush=True)
                results.write(options.out)


if __name__ == "__main__":
    main()
