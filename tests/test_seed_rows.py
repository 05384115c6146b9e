"""Every row of the acceptance list has a test that cites it.

The rows are behaviours of five source systems (S0 to S4, with the unit tests S4.T) and what their
neighbours suggest besides (N). A test cites a row by its number, in its docstring.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
_COUNTS = {"S0.": 16, "S1.": 18, "S2.": 10, "S3.": 14, "S4.": 26, "S4.T": 16, "N": 13}
ROWS = [f"{series}{number}" for series, count in _COUNTS.items() for number in range(1, count + 1)]

_CITED = re.compile(r"\b(S[0-4]\.T?|N)(\d+)(?:\s*(?:-|to)\s*(?:S[0-4]\.T?|N)?(\d+))?\b")


@cache
def _cited_rows() -> frozenset[str]:
    return frozenset(row for path in _TESTS.rglob("test_*.py") for row in _rows_of(path))


def _rows_of(path: Path) -> set[str]:
    rows = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not node.name.startswith("test_"):
            continue
        for series, first, last in _CITED.findall(ast.get_docstring(node) or ""):
            rows |= {f"{series}{n}" for n in range(int(first), int(last or first) + 1)}
    return rows


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_cited_by_a_test(row: str) -> None:
    """Somewhere a test says in its docstring that it proves the row."""
    assert row in _cited_rows()


def test_no_test_cites_a_row_that_does_not_exist() -> None:
    """A number that is mistyped proves nothing."""
    assert _cited_rows() <= set(ROWS)
