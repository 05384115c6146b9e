"""The exchanges that are open: counted, waited for, and cut when shutdown cannot wait longer."""

from __future__ import annotations

import asyncio
from typing import Self

__all__ = ("OpenExchange", "OpenExchanges")


class OpenExchange:
    """One open exchange.

    Attributes:
        cut: it was ended by us at shutdown, so its cancellation is not the client's doing.
    """

    __slots__ = ("_owner", "_task", "cut")

    def __init__(self, task: asyncio.Task[object], owner: OpenExchanges) -> None:
        self._task = task
        self._owner = owner
        self.cut = False

    def __enter__(self) -> Self:
        """Count it as open."""
        self._owner.exchanges.add(self)
        return self

    def __exit__(self, *exception: object) -> None:
        """Count it as ended."""
        self._owner.discard(self)

    def end(self) -> None:
        """Cut it now."""
        self.cut = True
        self._task.cancel()


class OpenExchanges:
    """All open exchanges of a worker.

    Attributes:
        exchanges: they add themselves.
    """

    def __init__(self) -> None:
        self.exchanges: set[OpenExchange] = set()
        self._none_left: asyncio.Event | None = None  # while somebody waits for it

    def __len__(self) -> int:
        return len(self.exchanges)

    def entered(self) -> OpenExchange:
        """The current task's exchange, counted for as long as a block with it runs."""
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("handlers run in tasks")
        return OpenExchange(task, self)

    def discard(self, exchange: OpenExchange) -> None:
        """Remove one that has ended."""
        self.exchanges.discard(exchange)
        if self._none_left is not None and not self.exchanges:
            self._none_left.set()
            self._none_left = None

    async def wait_until_none(self, timeout_seconds: float) -> bool:
        """Wait for the last one to end; false if some are left after the time-out."""
        if not self.exchanges:
            return True
        none_left = self._none_left = self._none_left or asyncio.Event()
        try:
            async with asyncio.timeout(timeout_seconds):
                await none_left.wait()
        except TimeoutError:
            return False
        return True

    def cut_all(self) -> int:
        """Cut what is open, and return how many that were."""
        exchanges = list(self.exchanges)
        for exchange in exchanges:
            exchange.end()
        return len(exchanges)
