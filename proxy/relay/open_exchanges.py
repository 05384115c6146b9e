"""The exchanges that are open: counted, waited for, and cut when shutdown cannot wait longer."""

from __future__ import annotations

import asyncio


class OpenExchange:
    """One open exchange.

    Attributes:
        cut: we ended it at shutdown, so its cancellation is not the client's doing.
    """

    __slots__ = ("_task", "cut")

    def __init__(self, task: asyncio.Task[object]) -> None:
        self._task = task
        self.cut = False

    def end(self) -> None:
        """Cut it now."""
        self.cut = True
        self._task.cancel()


class OpenExchanges:
    """All open exchanges of a worker."""

    def __init__(self) -> None:
        self._exchanges: set[OpenExchange] = set()
        self._none_left: asyncio.Event | None = None  # while somebody waits for it

    def __len__(self) -> int:
        return len(self._exchanges)

    def begin(self) -> OpenExchange:
        """Count the current task's exchange as open, until it is discarded."""
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("handlers run in tasks")
        exchange = OpenExchange(task)
        self._exchanges.add(exchange)
        return exchange

    def discard(self, exchange: OpenExchange) -> None:
        """Remove an exchange that has ended."""
        self._exchanges.discard(exchange)
        if self._none_left is not None and not self._exchanges:
            self._none_left.set()
            self._none_left = None

    async def wait_until_none(self, timeout_seconds: float) -> bool:
        """Wait until the last one has ended; false if some are left after the timeout."""
        if not self._exchanges:
            return True
        none_left = self._none_left = self._none_left or asyncio.Event()
        try:
            async with asyncio.timeout(timeout_seconds):
                await none_left.wait()
        except TimeoutError:
            return False
        return True

    def cut_all(self) -> int:
        """Cut all open exchanges, and return how many there were."""
        exchanges = list(self._exchanges)
        for exchange in exchanges:
            exchange.end()
        return len(exchanges)
