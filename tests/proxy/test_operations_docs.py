"""``docs/operations.md`` lists the log lines that matter."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")

DIRECTIVE = re.compile(r"%[-#0 +]*[\d.]*[a-zA-Z]")
FIXED_CHARS = 8
"""A pattern with less of its own would be found anywhere."""


@cache
def texts_of_code() -> list[str]:
    """Every string in the code but docstrings, with an ellipsis where values go.

    Read for the first test that asks, not where tests are collected: it takes a second.
    """
    files = (file for name in ("proxy", "telemetry") for file in (ROOT / name).rglob("*.py"))
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    children = (
        child
        for node in nodes
        if not isinstance(node, ast.Expr)
        for child in ast.iter_child_nodes(node)
    )
    return [re.sub("…+", "…", text) for child in children if (text := _text(child))]


def _text(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return DIRECTIVE.sub("…", text)
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) for part in parts)
        case ast.FormattedValue():
            return "…"
    return ""


def listed_lines() -> list[str]:
    """The patterns in the first column of the tables about log lines."""
    section = TEXT.partition("## Log lines")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [pattern for cell in cells for pattern in re.findall(r"`([^`]+)`", cell)]


def test_lines_are_listed() -> None:
    """The tables were found."""
    assert len(listed_lines()) > 30


@pytest.mark.parametrize("pattern", listed_lines())
def test_a_line_that_is_listed_is_in_the_code(pattern: str) -> None:
    """Whoever rewords it is reminded of the document."""
    fixed = pattern.removesuffix("…").strip()
    assert len(fixed.replace("…", "")) >= FIXED_CHARS
    assert any(fixed in text for text in texts_of_code())


def test_a_line_that_is_not_in_the_code_is_noticed() -> None:
    """Neither prose nor docstrings count as code."""
    assert not any("lists the log lines that matter" in text for text in texts_of_code())
    assert not any(
        "Log lines on standard error, and how many of them" in text for text in texts_of_code()
    )
