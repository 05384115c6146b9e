"""One row of the fault matrix: what was sent, what was lost, what the client saw, what it cost.

A test measures, calls :func:`report`, and asserts what must hold. Where ``SPANTAP_FAULTS_RESULTS``
names a file, each row is also appended there as a line of JSON, and ::

    python -m tests.faults.row FILE

renders that file as the table of ``docs/reliability.md``.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from telemetry.store.rows import SpanSummary
    from tests.faults.raw import Call

__all__ = ("RESULTS_VARIABLE", "Row", "read_rows", "render_table", "report", "report_calls")

RESULTS_VARIABLE = "SPANTAP_FAULTS_RESULTS"
"""Names the file that rows are appended to; unset: they are printed only."""

_COLUMNS = ("Fault", "Sent", "Lost", "The client saw", "Added latency", "Figures", "Command")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one fault came to.

    `lost` are those of the exchanges begun whose span neither arrived nor is in the store;
    `added_latency` says against what; `command` makes the row again.
    """

    name: str
    sent: int
    lost: int
    client_saw: str
    added_latency: str
    figures: dict[str, str | int | float]
    command: str


def report(
    name: str,
    *,
    sent: int,
    lost: int,
    client_saw: str,
    added_latency: str = "-",
    figures: Mapping[str, str | int | float] | None = None,
    command: str = "make faults",
) -> None:
    """Print a :class:`Row` as a block, and append it to the results file where one is named."""
    row = Row(
        name=name,
        sent=sent,
        lost=lost,
        client_saw=client_saw,
        added_latency=added_latency,
        figures=dict(figures or {}),
        command=command,
    )
    facts = dataclasses.asdict(row)
    measured = facts.pop("figures")
    print()
    for fact, value in (facts | measured).items():
        print(f"  {fact.replace('_', ' ')}: {value}")
    if path := os.environ.get(RESULTS_VARIABLE):
        # In one write, for tests run side by side.
        with Path(path).open("ab", buffering=0) as results:
            results.write(msgspec.json.encode(row) + b"\n")


def report_calls(
    name: str,
    calls: Sequence[Call],
    spans: Mapping[str, SpanSummary],
    *,
    client_saw: str,
    added_latency: str = "none",
    figures: Mapping[str, str | int | float] | None = None,
) -> None:
    """Report a row of calls that are counted one by one, and assert that each has its span."""
    lost = sum(call.trace_id not in spans for call in calls)
    report(
        name,
        sent=len(calls),
        lost=lost,
        client_saw=client_saw,
        added_latency=added_latency,
        figures=figures,
    )
    assert lost == 0, f"{lost} of {len(calls)} calls have no span"


def read_rows(path: Path) -> list[Row]:
    """The rows in a results file, in the order of their first run; of a repeated one the last.

    Raises:
        msgspec.DecodeError: a line is no row.
    """
    decoder = msgspec.json.Decoder(Row)
    rows = [decoder.decode(line) for line in path.read_bytes().splitlines()]
    return list({row.name: row for row in rows}.values())


def render_table(rows: list[Row]) -> str:
    """`rows` as a Markdown table, with a line end after each of its lines."""
    lines = [_COLUMNS, ("---",) * len(_COLUMNS), *map(_cells, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    figures = "; ".join(f"{name}: {value}" for name, value in row.figures.items())
    cells = (
        row.name,
        f"{row.sent:,}",
        f"{row.lost:,}",
        row.client_saw,
        row.added_latency,
        figures,
        f"`{row.command}`",
    )
    return tuple(" ".join(cell.replace("|", r"\|").split()) for cell in cells)


if __name__ == "__main__":
    sys.stdout.write(render_table(read_rows(Path(sys.argv[1]))))
