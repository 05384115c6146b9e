"""Threads that read the store, each with a reader of its own, for one process that serves it.

Rules:

1. There are :data:`MAX_THREADS`. Of what waits for one there is :data:`MAX_WAITING`; one more is
   refused at once, and not left to wait for minutes.
2. A reader is opened where it is first needed, and again where the store was replaced or migrated.
3. What may search for long (:meth:`Reads.search`) takes :data:`MAX_SEARCHES` threads at most, and
   waits in a line of its own: whoever searches does not delay another's list.
4. Each use begins with nothing chosen, whatever the one before did.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

from telemetry.errors import StoreError
from telemetry.store.paged_reader import PagedReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ("MAX_THREADS", "MAX_WAITING", "Busy", "Reads")

MAX_THREADS: Final = 4
"""Reads at a time: more of them would share the same interpreter. A search of content takes one for
a quarter of a second, and the list beside it must not wait for that."""

MAX_WAITING: Final = 64
"""What may wait: ten pages that open at once, with some requests each. At milliseconds a read that
is less than a second."""

MAX_SEARCHES: Final = 2
"""Threads that searches may take: half of them are left to what takes milliseconds."""

MAX_WAITING_SEARCHES: Final = 32
"""A quarter of a second each, two at a time: four seconds."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Busy(Exception):  # noqa: N818 - names the condition, as the store's errors do
    """Raised where as many requests wait for the store as may."""


class Reads:
    """Reads the store at a path, from :meth:`run`'s first call to :meth:`close`.

    Args:
        path: of the store; there need not be one yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._threads = ThreadPoolExecutor(MAX_THREADS, "spantap-read")
        self._under_way = 0
        self._searches = asyncio.Semaphore(MAX_SEARCHES)
        self._searching = 0
        self._own = threading.local()
        self._opened: list[PagedReader] = []

    async def run(
        self,
        function: Callable[Concatenate[PagedReader, _P], _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """Call a function with a reader, on a thread; it must not keep the reader.

        Raises:
            Busy: too much waits already (rule 1).
            StoreError: the store cannot be read.
        """
        if self._under_way >= MAX_THREADS + MAX_WAITING:
            raise Busy("too many requests wait for the store; try again in a second")
        self._under_way += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(
                self._threads, lambda: function(self._take_reader(), *args, **kwargs)
            )
        finally:
            self._under_way -= 1

    async def search(
        self,
        function: Callable[Concatenate[PagedReader, _P], _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """Call a function as :meth:`run` does, that may take its time (rule 3).

        Raises:
            Busy: too many searches wait already.
            StoreError: the store cannot be read.
        """
        if self._searching >= MAX_SEARCHES + MAX_WAITING_SEARCHES:
            raise Busy("too many searches wait for the store; try again in a second")
        self._searching += 1
        try:
            async with self._searches:
                return await self.run(function, *args, **kwargs)
        finally:
            self._searching -= 1

    async def close(self) -> None:
        """Wait for what is being read, and close the readers; nothing is read any more."""
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        for reader in self._opened:
            reader.close()
        self._opened.clear()

    def _take_reader(self) -> PagedReader:
        """Return this thread's reader, opened again where it has to be (rules 2 and 4)."""
        reader: PagedReader | None = getattr(self._own, "reader", None)
        if reader is not None and not self._is_current(reader):
            self._own.reader = None
            self._opened.remove(reader)
            reader.close()
            reader = None
        if reader is None:
            reader = self._own.reader = PagedReader(self.path)
            self._opened.append(reader)
        reader.choose_anew()
        return reader

    @staticmethod
    def _is_current(reader: PagedReader) -> bool:
        try:
            return reader.is_current()
        except StoreError:
            return False
