"""Puts each fault of :mod:`tests.seeded.faults` into a copy of the checkout, and runs its tests.

``python -m tests.seeded`` ends with 1 where a fault is not noticed, or its line is not there any
more. ``python -m tests.seeded --find COUNT`` proposes faults: each turns a comparison, a number or
an order of one line that stands once in the product.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.seeded.faults import FAULTS, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("codec", "telemetry", "proxy")
_SEED = 46
_LONGEST_SECONDS = 600

_TURNS: tuple[tuple[str, str], ...] = (
    (r" < ", " <= "),
    (r" <= ", " < "),
    (r" > ", " >= "),
    (r" >= ", " > "),
    (r" == ", " != "),
    (r" is not None", " is None"),
    (r" and ", " or "),
    (r"\bmin\(", "max("),
    (r"\+ 1\b", "+ 2"),
    (r"\[-1\]", "[0]"),
    (r"\breversed\(", "tuple("),
)


def find_line(tree: Path, line: str) -> Path | None:
    """Find the one file of the product with that line, wherever it was moved."""
    files = [file for file, found in _list_lines(tree) if found.strip() == line]
    return files[0] if len(files) == 1 else None


def is_noticed(tree: Path, fault: Fault) -> bool | None:
    """Whether a fault's tests fail with it; ``None`` where its line is gone."""
    if (file := find_line(tree, fault.line)) is None:
        return None
    whole = file.read_text("utf-8")
    file.write_text(whole.replace(f" {fault.line}\n", f" {fault.turned}\n", 1), "utf-8")
    try:
        return bool(_run_tests(tree, fault.tests))
    finally:
        file.write_text(whole, "utf-8")


def _run_tests(tree: Path, tests: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *tests.split()],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "SPANTAP_RECORDINGS": _recordings()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_LONGEST_SECONDS,
        check=False,
    ).returncode


def _recordings() -> str:
    return os.environ.get("SPANTAP_RECORDINGS", str(_ROOT.parent / "shared"))


def _list_lines(tree: Path) -> Iterator[tuple[Path, str]]:
    for package in _PACKAGES:
        for file in sorted((tree / package).rglob("*.py")):
            for line in file.read_text("utf-8").splitlines():
                yield file, line


def _find_tests(tree: Path, room: str) -> str:
    """The folder of a room's tests, or of the tests of the room around it."""
    folder = Path("tests", room)
    while not (tree / folder).is_dir():
        folder = folder.parent
    return str(folder)


def propose(tree: Path, count: int) -> Iterator[Fault]:
    """Propose faults, spread over the rooms."""
    lines = [*_list_lines(tree)]
    places = dict[str, list[tuple[Path, str]]]()
    for file, line in lines:
        if line.startswith("    ") and len(line) > 24 and '"' not in line and "#" not in line:
            places.setdefault(line, []).append((file, line))
    rooms = dict[str, list[Fault]]()
    for line, [(file, _), *others] in places.items():
        turned = next(
            (re.sub(*turn, line, count=1) for turn in _TURNS if re.search(turn[0], line)), line
        )
        if turned != line and not others:
            room = str(file.parent.relative_to(tree))
            fault = Fault(line.strip(), turned.strip(), _find_tests(tree, room))
            rooms.setdefault(room, []).append(fault)
    dice = random.Random(_SEED)
    names = sorted(rooms)
    while count > 0:
        for room in dice.sample(names, len(names)):
            if count > 0 and rooms[room]:
                yield rooms[room].pop(dice.randrange(len(rooms[room])))
                count -= 1


def main() -> int:
    """Try the faults, or propose some."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        shutil.copytree(_ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        if sys.argv[1:2] == ["--find"]:
            for fault in propose(tree, int(sys.argv[2])):
                if _run_tests(tree, fault.tests) == 0 and is_noticed(tree, fault):
                    print(f"    {tuple(fault)!r},", flush=True)
            return 0
        failing = [
            tests for tests in sorted({fault.tests for fault in FAULTS}) if _run_tests(tree, tests)
        ]
        if failing:
            print(f"these fail without any fault, and notice nothing: {', '.join(failing)}")
            return 1
        missed = 0
        for fault in FAULTS:
            noticed = is_noticed(tree, fault)
            if not noticed:
                missed += 1
                print(f"{'not noticed' if noticed is False else 'not there'}: {fault.line.strip()}")
        print(f"{len(FAULTS) - missed} of {len(FAULTS)} faults were noticed")
        return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
