"""The examples in the documentation are true."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.mark.parametrize("name", ["codec.md"])
def test_the_examples_work(name: str) -> None:
    """Each is run as it stands, one after the other."""
    results = doctest.testfile(str(DOCS / name), module_relative=False)
    assert results.attempted > 10
    assert not results.failed
