"""A real Phoenix and a real demo upstream for all end-to-end tests.

They run where ``SPANTAP_E2E=1`` asks for them, as ``make e2e`` does after ``install.sh``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.phoenix import Phoenix
from tests.e2e.spantap import running_upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs an installation that nobody asked for."""
    if os.environ.get("SPANTAP_E2E") == "1":
        return
    skip = pytest.mark.skip(reason="needs Phoenix and Chromium: run `make e2e`")
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phoenix]:
    """One Phoenix for all tests; each uses a project of its own."""
    with Phoenix(tmp_path_factory.mktemp("phoenix")).running() as running:
        yield running


@pytest.fixture(scope="session")
def upstream_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """One demo upstream for all tests."""
    with running_upstream(tmp_path_factory.mktemp("upstream")) as port:
        yield port
