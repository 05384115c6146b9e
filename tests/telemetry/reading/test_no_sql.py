"""Nothing above the engine knows how its rows are kept: neither SQL nor a column's expression."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[3]

_BELOW = ("telemetry/store/", "telemetry/reading/sqlite/")
"""Where SQL is written: by what keeps the rows, and by the engine that reads them."""

_SQL = re.compile(
    r"\b(?:SELECT|INSERT|DELETE|UPDATE)\s+[\w(*{]|\b(?:ORDER|GROUP) BY\b|\bIS (?:NOT )?NULL\b"
    r"|\bWHERE\s+[\w({]|\.execute(?:many)?\(|\bimport sqlite3\b|\.choose\("
)


@pytest.mark.parametrize("room", ["proxy", "telemetry"])
def test_there_is_no_sql_above_the_engine(room: str) -> None:
    """In no module of the commands, the page, the filter language and the read model."""
    found = [
        f"{name}:{number}: {line.strip()}"
        for path in sorted((_ROOT / room).rglob("*.py"))
        if not (name := str(path.relative_to(_ROOT))).startswith(_BELOW)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if _SQL.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("line", ["SELECT seq FROM spans", 'reader.choose("a = 1")', "a IS NULL"])
def test_sql_would_be_found(line: str) -> None:
    """The pattern knows it."""
    assert _SQL.search(line)
