"""The dialects by name."""

from __future__ import annotations

import pytest

from codec.dialects import DIALECTS, find_dialect
from tests.docs.blocks import DOCS, Page

PAGE = Page(DOCS / "contract" / "wire.md")


def test_every_row_of_the_table_is_there() -> None:
    """The table is in ``docs/contract/wire.md#dialects``; each dialect is known by its own name."""
    assert set(DIALECTS) == {name.strip("`") for name, _ in PAGE.rows("Dialect")}
    assert all(name == dialect.name for name, dialect in DIALECTS.items())
    assert find_dialect("deepseek") is DIALECTS["deepseek"]


def test_an_unknown_dialect_is_told_the_known_ones() -> None:
    """The message lists all names."""
    with pytest.raises(ValueError, match=r"unknown dialect 'klingon': there is openai") as caught:
        find_dialect("klingon")
    assert all(name in str(caught.value) for name in DIALECTS)
