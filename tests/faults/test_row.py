"""Rows: collected in a file, and rendered as the table of the documentation."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.faults.row import RESULTS_VARIABLE, report

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_rows_become_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each; of a row that was run again the last figures, where it was."""
    results = tmp_path / "results.jsonl"
    monkeypatch.setenv(RESULTS_VARIABLE, str(results))
    for name, sent in (
        ("backend down | up", 30_000),
        ("backend slow", 1),
        ("backend down | up", 9),
    ):
        report(name, sent=sent, lost=0, client_saw="every answer", figures={"log lines": 2})
    line = [sys.executable, "-m", "tests.faults.row", str(results)]
    table = subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()
    assert table[2:] == [
        r"| backend down \| up | 9 | 0 | every answer | - | log lines: 2 | `make faults` |",
        "| backend slow | 1 | 0 | every answer | - | log lines: 2 | `make faults` |",
    ]
