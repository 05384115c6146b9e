"""What reading a large store came to, as it is kept and as the table in the documents.

``python -m tests.bench.store_figures RESULTS DOCUMENT`` fills the table in.
"""

from __future__ import annotations

import datetime as dt
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from telemetry.reading.stored_calls import open_calls
from tests.bench.results import describe_machine
from tests.bench.tables import fill_in, render_table

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("Reading", "ReadingResults")

SECTION = "store"
"""The name of the table's place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A figure, with every round of it.

    Attributes:
        goal: ``None`` where the figure is there to be compared with.
        is_least: the goal is to be reached, rather than kept to.
        rounds: in `unit`, by the clock.
        cpu_seconds: of the process that reads; empty where it was not looked at.
        cpu_rates: in `unit`, by the CPU time of that process.
    """

    what: str
    unit: str
    goal: float | None
    rounds: list[float]
    is_least: bool = False
    cpu_seconds: list[float] = field(default_factory=list)
    cpu_rates: list[float] = field(default_factory=list)

    @property
    def figure(self) -> float:
        """The median."""
        return statistics.median(self.rounds)

    @property
    def is_met(self) -> bool:
        """Whether the figure meets the goal; always where there is none."""
        if self.goal is None:
            return True
        return self.figure >= self.goal if self.is_least else self.figure <= self.goal


@dataclass(slots=True, kw_only=True)
class ReadingResults:
    """All figures, by part."""

    date: str
    machine: dict[str, str]
    calls: int
    size_bytes: int
    parts: dict[str, list[Reading]] = field(default_factory=dict)

    @classmethod
    def begin(cls, store: Path) -> ReadingResults:
        """None so far, of a store."""
        with open_calls(store) as reader:
            calls = reader.count()
        return cls(
            date=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            machine=describe_machine(),
            calls=calls,
            size_bytes=store.stat().st_size,
        )

    @classmethod
    def read(cls, path: Path) -> ReadingResults:
        """Read the results in a file.

        Raises:
            msgspec.DecodeError: the file holds something else.
        """
        return msgspec.json.decode(path.read_bytes(), type=cls)

    def write(self, path: Path) -> None:
        """Keep them."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")

    def render(self) -> str:
        """The table, medians of the rounds."""
        rows = [_row(reading) for part in self.parts.values() for reading in part]
        head = f"{self.calls:,} calls, {self.size_bytes / 1e9:.1f} GB, {self.date}"
        return render_table((head, "goal", "figure", "by CPU time", ""), rows)


def _row(reading: Reading) -> Sequence[str]:
    goal, verdict = "-", "-"
    if reading.goal is not None:
        goal = f"at {'least' if reading.is_least else 'most'} {reading.goal:g} {reading.unit}"
        verdict = "met" if reading.is_met else "**not met**"
    by_cpu = "-"
    if reading.cpu_seconds:
        by_cpu = f"{statistics.median(reading.cpu_seconds):.3g} s"
    elif reading.cpu_rates:
        by_cpu = f"{statistics.median(reading.cpu_rates):.3g} {reading.unit}"
    return reading.what, goal, f"{reading.figure:.3g} {reading.unit}", by_cpu, verdict


if __name__ == "__main__":
    _document = Path(sys.argv[2])
    _table = ReadingResults.read(Path(sys.argv[1])).render()
    _document.write_text(fill_in(_document.read_text(), {SECTION: _table}))
