"""Threads that read the store for the page, each with a separate reader.

There are four lines (:class:`Line`) with separate threads, so that one delays another only by its
share of the interpreter. If too many requests wait in a line, one more is refused at once instead
of waiting for minutes.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeVar, TypeVarTuple

from telemetry.errors import StoreError
from telemetry.reading.stored_calls import open_calls

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from telemetry.reading.calls import Calls

MAX_THREADS: Final = 2
"""How many lists are read at a time: each takes milliseconds, and more would share the same
interpreter."""

MAX_WAITING: Final = 64
"""How many lists may wait: ten pages that open at once, with some requests each. At milliseconds a
read that is less than a second."""

MAX_SEARCHES: Final = 2

MAX_WAITING_SEARCHES: Final = 32
"""How many searches may wait: two at a time with a quarter of a second each, that is four
seconds."""

MAX_LOOKS: Final = 2

MAX_WAITING_LOOKS: Final = 64
"""How many calls may wait: with a tenth of a second for each large one, that is three seconds."""

MAX_WAITING_COMPARISONS: Final = 64
"""How many comparisons may wait: one at a time with half a second for each large one, that is half
a minute."""

_Args = TypeVarTuple("_Args")
_T = TypeVar("_T")


class Busy(Exception):  # noqa: N818 - names the condition, as the store's errors do
    """Raised if too many requests wait for the store."""


class Line(Enum):
    """A line that work waits in."""

    LISTS = "lists"
    SEARCHES = "searches"
    """For work that reads many rows, or their content."""
    CALLS = "calls"
    """For work that reads whole calls."""
    COMPARISONS = "comparisons"


class _Threads:
    """The threads of a line, and the work that waits for them.

    A thread's next work begins after the loop took its last result. So no more results than threads
    are in memory before somebody counts them, even if the threads leave the loop little time.

    Args:
        threads: how many threads there are.
        waiting: how much work may wait.
    """

    def __init__(self, threads: int, waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, "spantap-read")
        self._turns = asyncio.Semaphore(threads)
        self._most = threads + waiting
        self._under_way = 0

    async def run(self, work: Callable[[], _T]) -> _T:
        """Do some work on one of the threads, or raise :exc:`Busy`."""
        if self._under_way >= self._most:
            raise Busy("too many requests wait for the store; try again in a second")
        self._under_way += 1
        try:
            async with self._turns:
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._under_way -= 1

    async def close(self) -> None:
        """Wait for work in progress; waiting work does not begin."""
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)


class Reads:
    """Reads the store at a path, from :meth:`run`'s first call to :meth:`close`.

    Args:
        path: of the store; there need not be one yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = {
            Line.LISTS: _Threads(MAX_THREADS, MAX_WAITING),
            Line.SEARCHES: _Threads(MAX_SEARCHES, MAX_WAITING_SEARCHES),
            Line.CALLS: _Threads(MAX_LOOKS, MAX_WAITING_LOOKS),
            Line.COMPARISONS: _Threads(1, MAX_WAITING_COMPARISONS),
        }
        self._own = threading.local()
        self._opened: list[Calls] = []

    async def run(
        self,
        function: Callable[[Calls, *_Args], _T],
        *args: *_Args,
        line: Line = Line.LISTS,
    ) -> _T:
        """Call a function with a reader, on a thread of a line; it must not keep the reader.

        Raises:
            Busy: too many requests wait in that line.
            StoreError: the store cannot be read.
        """
        return await self._lines[line].run(lambda: function(self._take_reader(), *args))

    async def close(self) -> None:
        """Wait for reads in progress, and close the readers; nothing is read after that."""
        for line in self._lines.values():
            await line.close()
        for reader in self._opened:
            reader.close()
        self._opened.clear()

    def _take_reader(self) -> Calls:
        """Return this thread's reader, opened again if the store was replaced or migrated."""
        reader: Calls | None = getattr(self._own, "reader", None)
        if reader is not None and not self._is_current(reader):
            self._own.reader = None
            self._opened.remove(reader)
            reader.close()
            reader = None
        if reader is None:
            reader = self._own.reader = open_calls(self.path, is_kept=True)
            self._opened.append(reader)
        return reader

    @staticmethod
    def _is_current(reader: Calls) -> bool:
        try:
            return reader.is_current()
        except StoreError:
            return False
