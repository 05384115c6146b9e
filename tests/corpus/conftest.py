"""The server and the proxy of the replays, one for each file of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.corpus.replay import Bench, open_bench

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture(name="bench", scope="module", loop_scope="module")
async def _bench() -> AsyncIterator[Bench]:
    async with open_bench() as bench:
        yield bench
