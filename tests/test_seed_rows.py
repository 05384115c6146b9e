"""Every row of ``docs/contract/sources.md#the-codecs-sources`` has a test that cites it.

A test cites a row in its docstring, by the page and the anchor of the row.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
_PAGE = _TESTS.parent / "docs" / "contract" / "sources.md"
ROWS = re.findall(r'^- <a id="([a-z0-9-]+)"></a>', _PAGE.read_text(encoding="utf-8"), re.MULTILINE)

_CITED = re.compile(r"docs/contract/sources\.md#([a-z0-9-]+)")


@cache
def _cited_rows() -> frozenset[str]:
    return frozenset(row for path in _TESTS.rglob("test_*.py") for row in _rows_of(path))


def _rows_of(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8")
    if not _CITED.search(text):
        return set()
    functions = (
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_")
    )
    return {row for one in functions for row in _CITED.findall(ast.get_docstring(one) or "")}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_cited_by_a_test(row: str) -> None:
    """Somewhere a test says in its docstring that it proves the row."""
    assert row in _cited_rows()


def test_the_rows_are_found() -> None:
    """Each stands once, and there are those of five systems and of their neighbours."""
    assert len(ROWS) == len(set(ROWS)) > 100
    assert {"s0-1", "s1-1", "s2-1", "s3-1", "s4-1", "s4-t1", "n1"} <= set(ROWS)


def test_no_test_cites_a_row_that_does_not_exist() -> None:
    """A row that is mistyped proves nothing."""
    assert _cited_rows() <= set(ROWS)
