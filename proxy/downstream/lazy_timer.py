"""A timer that is put off again and again, at the cost of a comparison."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("LazyTimer",)


class LazyTimer:
    """Calls back when its time is over; a later time moves no timer of the loop's.

    Args:
        on_due: called then; not again until another time is set.
    """

    __slots__ = ("_due", "_handle", "_loop", "_on_due")

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_due = on_due
        self._due = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """Let it be due in so many seconds from now, and not before."""
        self._due = self._loop.time() + seconds
        if self._handle is not None and self._handle.when() > self._due:
            self.stop()
        if self._handle is None:
            self._handle = self._loop.call_at(self._due, self._look)

    def stop(self) -> None:
        """Do not call back any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look(self) -> None:
        self._handle = None
        if self._loop.time() < self._due:
            self._handle = self._loop.call_at(self._due, self._look)
        else:
            self._on_due()
