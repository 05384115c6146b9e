"""Threads that read the store, each with a reader of its own, for one process that serves it.

Rules:

1. There are four lines (:class:`Line`), with threads of their own. One delays another only by its
   share of the interpreter.
2. Of what waits in a line there is a bound; one more is refused at once, and not left to wait for
   minutes.
3. A reader is opened where it is first needed, and again where the store was replaced or migrated.
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
"""Lists at a time: each takes milliseconds, and more of them would share the same interpreter."""

MAX_WAITING: Final = 64
"""Lists that may wait: ten pages that open at once, with some requests each. At milliseconds a read
that is less than a second."""

MAX_SEARCHES: Final = 2

MAX_WAITING_SEARCHES: Final = 32
"""A quarter of a second each, two at a time: four seconds."""

MAX_LOOKS: Final = 2

MAX_WAITING_LOOKS: Final = 64
"""A tenth of a second each where a call is large: three seconds."""

MAX_WAITING_COMPARISONS: Final = 64
"""Half a second each where calls are large, one at a time: half a minute."""

_Args = TypeVarTuple("_Args")
_T = TypeVar("_T")


class Busy(Exception):  # noqa: N818 - names the condition, as the store's errors do
    """Raised where as many requests wait for the store as may."""


class Line(Enum):
    """A line that work waits in."""

    LISTS = "lists"
    SEARCHES = "searches"
    """What looks at many rows, or at their content."""
    CALLS = "calls"
    """What reads calls whole."""
    COMPARISONS = "comparisons"


class _Threads:
    """The threads of a line, and what waits for them.

    Args:
        threads: how many there are.
        waiting: how much may wait for one.
    """

    def __init__(self, threads: int, waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, "spantap-read")
        self._most = threads + waiting
        self._under_way = 0

    async def run(self, work: Callable[[], _T]) -> _T:
        """Do some work on one of the threads, or raise :exc:`Busy`."""
        if self._under_way >= self._most:
            raise Busy("too many requests wait for the store; try again in a second")
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._under_way -= 1

    async def close(self) -> None:
        """Wait for what is under way; what waits is not begun."""
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
            Busy: too much waits in that line already (rule 2).
            StoreError: the store cannot be read.
        """
        return await self._lines[line].run(lambda: function(self._take_reader(), *args))

    async def close(self) -> None:
        """Wait for what is being read, and close the readers; nothing is read any more."""
        for line in self._lines.values():
            await line.close()
        for reader in self._opened:
            reader.close()
        self._opened.clear()

    def _take_reader(self) -> Calls:
        """Return this thread's reader, opened again where it has to be (rule 3)."""
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
