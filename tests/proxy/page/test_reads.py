"""Reads of the store on threads: their bounds, and a store that is another one meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest

from proxy.page.reads import (
    MAX_SEARCHES,
    MAX_THREADS,
    MAX_WAITING,
    MAX_WAITING_SEARCHES,
    Busy,
    Line,
    Reads,
)
from telemetry.errors import StoreUnavailable
from tests.proxy.recorded_calls import make_exchange, make_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from telemetry.reading.calls import Calls


@pytest.fixture
async def reads(tmp_path: Path) -> AsyncIterator[Reads]:
    """Reads of a store that is not there yet."""
    reads = Reads(tmp_path / "traces.db")
    yield reads
    await reads.close()


def count(reader: Calls) -> int:
    """How many calls there are."""
    return reader.count()


async def test_past_the_limit_a_read_is_refused_and_none_before_it(reads: Reads) -> None:
    """So many wait, one more is told to come again, and all others are done."""
    make_store(reads.path, make_exchange(1))
    gate = threading.Event()

    def wait(reader: Calls) -> int:
        assert gate.wait(10)
        return reader.count()

    waiting = [asyncio.ensure_future(reads.run(wait)) for _ in range(MAX_THREADS + MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Busy):
        await reads.run(count)
    gate.set()
    assert await asyncio.gather(*waiting) == [1] * (MAX_THREADS + MAX_WAITING)
    assert await reads.run(count) == 1


async def test_searches_leave_threads_to_others(reads: Reads) -> None:
    """As many as there may be delay no list, and one more is refused."""
    make_store(reads.path, make_exchange(1))
    gate = threading.Event()

    def wait(reader: Calls) -> int:
        assert gate.wait(10)
        return reader.count()

    many = MAX_SEARCHES + MAX_WAITING_SEARCHES
    searching = [asyncio.ensure_future(reads.run(wait, line=Line.SEARCHES)) for _ in range(many)]
    await asyncio.sleep(0.05)
    async with asyncio.timeout(5):
        assert await reads.run(count) == 1
    with pytest.raises(Busy):
        await reads.run(count, line=Line.SEARCHES)
    gate.set()
    assert await asyncio.gather(*searching) == [1] * many
    assert await reads.run(count, line=Line.SEARCHES) == 1


async def test_no_more_results_than_threads_wait_for_a_busy_loop(reads: Reads) -> None:
    """While the loop takes no result, a thread that is done begins nothing else."""
    make_store(reads.path, make_exchange(1))
    begun = 0

    def begin(reader: Calls) -> int:
        nonlocal begun
        begun += 1
        return reader.count()

    waiting = [asyncio.ensure_future(reads.run(begin)) for _ in range(20)]
    await asyncio.sleep(0)
    time.sleep(0.3)  # noqa: ASYNC251 - the loop gets no turn, and the threads all the time
    assert begun == MAX_THREADS
    assert await asyncio.gather(*waiting) == [1] * 20


async def test_a_store_that_was_replaced_is_read_anew(reads: Reads, tmp_path: Path) -> None:
    """What lies at the path is read, from its first day on and after it was replaced."""
    with pytest.raises(StoreUnavailable):
        await reads.run(count)
    make_store(reads.path, make_exchange(1))
    assert await reads.run(count) == 1
    other = make_store(tmp_path / "other.db", make_exchange(1), make_exchange(2))
    other.replace(reads.path)
    assert {await reads.run(count) for _ in range(2 * MAX_THREADS)} == {2}
