"""Rows: printed, collected in a file, and rendered as the table of the documentation."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.faults.row import RESULTS_VARIABLE, Row, read_rows, report

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ROW = Row(
    name="backend down | up",
    sent=30_000,
    lost=0,
    client_saw="every answer",
    added_latency="p50 +0.1 ms",
    figures={"log lines": 2, "store": "90 MB"},
)


def test_a_row_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block with a line for each fact and figure."""
    monkeypatch.delenv(RESULTS_VARIABLE, raising=False)
    report(ROW)
    printed = capsys.readouterr().out.splitlines()
    assert printed[1] == "backend down | up"
    assert {"  sent: 30000", "  lost: 0", "  client saw: every answer"} < set(printed)
    assert {"  log lines: 2", "  store: 90 MB", "  command: make faults"} < set(printed)


def test_the_last_run_of_a_row_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file grows; a row that was run again stays where it was, with its new figures."""
    results = tmp_path / "results.jsonl"
    monkeypatch.setenv(RESULTS_VARIABLE, str(results))
    other = replace(ROW, name="backend slow")
    for row in (ROW, other, replace(ROW, sent=900)):
        report(row)
    assert read_rows(results) == [replace(ROW, sent=900), other]


def test_the_results_are_rendered_as_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Markdown, with one line for each row; a bar in a name does not end its cell."""
    results = tmp_path / "results.jsonl"
    monkeypatch.setenv(RESULTS_VARIABLE, str(results))
    report(replace(ROW, figures={"lines": 2}, command="pytest"))
    line = [sys.executable, "-m", "tests.faults.row", str(results)]
    table = subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()
    assert table == [
        "| Fault | Sent | Lost | The client saw | Added latency | Figures | Command |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        r"| backend down \| up | 30,000 | 0 | every answer | p50 +0.1 ms | lines: 2 | `pytest` |",
    ]
