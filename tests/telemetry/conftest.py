"""Where the tests of this folder have their stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from telemetry.store.store import Store
from tests.telemetry.exporting import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is to be."""
    return tmp_path / "spans.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """A new store."""
    with Store.open(path) as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()
