"""The hot paths cost what is recorded; more is a regression.

A path that costs 15 % more than recorded is a regression. One that costs 15 % less is a record that
lets the next regression pass: `make costs` writes it down in the same change.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codec.chat.usage_filter import UsageFilter
from codec.text.jsontext import decode_json
from tests.cost.__main__ import count_bytecodes
from tests.e2e.processes import clean_environment

TOLERANCE = 0.15
RECORD: dict[str, Any] = decode_json(Path(__file__).with_name("recorded.json").read_bytes())


@pytest.mark.skipif(
    not platform.python_version().startswith(f"{RECORD['python']}."),
    reason=f"recorded with Python {RECORD['python']}",
)
@pytest.mark.timeout(300)
def test_hot_paths_cost_what_is_recorded() -> None:
    """Counted in a process of its own, where no other tracer is."""
    tracers = ("COVERAGE_", "PYTHON")
    environment = {k: v for k, v in clean_environment().items() if not k.startswith(tracers)}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.cost"],
        cwd=Path(__file__).parents[2],
        env=environment | {"PYTHONHASHSEED": "0"},
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    counted = decode_json(ended.stdout)["bytecodes"]
    recorded = RECORD["bytecodes"]
    assert counted == pytest.approx(recorded, rel=TOLERANCE), "record what is right: `make costs`"


def test_work_that_is_done_again_is_counted_again() -> None:
    """Twice the work has twice the bytecodes, each time."""

    def feed(times: int) -> None:
        for _ in range(times):
            UsageFilter().feed(b"data: {}\n\n")

    count_bytecodes(lambda: feed(1))  # Python 3.13.0 does not count in code that it first traces
    once, twice = count_bytecodes(lambda: feed(1)), count_bytecodes(lambda: feed(2))
    assert twice == 2 * once > 0
