"""Agents in a store of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.telemetry.conversations.agents import Agents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with Agents(tmp_path / "spans.db") as opened:
        yield opened
