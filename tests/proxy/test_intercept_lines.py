"""What the end of a run says of processes that stay."""

from __future__ import annotations

import pytest

from proxy.commands.intercept_lines import describe_interception
from proxy.interception.interception import InterceptReport
from proxy.processes.intercept_orders import EndedPort, Staying


@pytest.mark.parametrize(
    ("count", "begin"),
    [
        (1, "still running: process 1 (sh). The way"),
        (2, "still running: process 1 (sh) and process 2 (sh). The way"),
        (5000, "still running: process 1 (sh), process 2 (sh), process 3 (sh), process 4 "),
    ],
)
def test_processes_that_stay_take_one_line(count: int, begin: str) -> None:
    """However many there are."""
    staying = tuple(Staying(pid, "sh") for pid in range(1, count + 1))
    [line] = describe_interception(EndedPort(report=InterceptReport(), staying=staying), 77)
    assert line.startswith(begin)
    assert "spantap (process 77)" in line
    assert len(line) < 400
