"""Real backends and a real demo upstream for all end-to-end tests.

They run where ``SPANTAP_E2E=1`` asks for them, as ``make e2e`` does after ``install.sh``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.failing import running_failing_upstream
from tests.e2e.jaeger import Jaeger
from tests.e2e.phoenix import Phoenix
from tests.e2e.spantap import Upstream, running_upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs an installation that nobody asked for."""
    if os.environ.get("SPANTAP_E2E") == "1":
        return
    skip = pytest.mark.skip(reason="needs backends and Chromium: run `make e2e`")
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phoenix]:
    """One Phoenix for all tests; each uses a project of its own."""
    with Phoenix(tmp_path_factory.mktemp("phoenix")).running() as running:
        yield running


@pytest.fixture(scope="session")
def jaeger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    """One Jaeger for all tests; each uses a service name of its own."""
    with Jaeger(tmp_path_factory.mktemp("jaeger")).running() as running:
        yield running


@pytest.fixture(scope="session")
def upstream_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """One demo upstream for all tests."""
    with running_upstream(tmp_path_factory.mktemp("upstream")) as port:
        yield port


@pytest.fixture(scope="session")
def upstreams(
    upstream_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Upstream, ...]]:
    """The demo upstream, the same as one that costs money, one that reasons, and one that fails."""
    with (
        running_upstream(tmp_path_factory.mktemp("deepseek"), dialect="deepseek") as thinking,
        running_failing_upstream() as failing,
    ):
        yield (
            Upstream(name="default", port=upstream_port),
            Upstream(name="openai", port=upstream_port, provider="openai"),
            Upstream(name="deepseek", port=thinking, provider="deepseek"),
            Upstream(name="failing", port=failing),
        )
