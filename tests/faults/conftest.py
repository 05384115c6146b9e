"""What all rows share: an upstream for load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.upstreams import running_load_upstream

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def load_upstream() -> Iterator[str]:
    """The base URL of an upstream that answers at once, with streams of 20 chunks."""
    with running_load_upstream() as url:
        yield url
