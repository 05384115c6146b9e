"""SIGTERM, SIGINT and SIGHUP: the first signal begins an orderly end, the second ends at once."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

from proxy.signal_numbers import SHUTDOWN_SIGNALS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class ShutdownSignals:
    """Handles the signals of a loop's process.

    Attributes:
        first: set at the first signal.
        lingers: the first signal was SIGTERM, so a balancer may need time to notice. At a terminal
            nobody wants to wait for that.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.first = asyncio.Event()
        self.lingers = False
        self._second = asyncio.Event()
        for number in SHUTDOWN_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._note, number)

    @property
    def is_second(self) -> bool:
        """Whether the second signal came."""
        return self._second.is_set()

    def _note(self, number: int) -> None:
        if self.first.is_set():
            self._second.set()
        else:
            self.lingers = number == signal.SIGTERM
            self.first.set()

    async def unless_second(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a step of the end, and cancel it at the second signal."""
        if self._second.is_set():
            return
        second = asyncio.ensure_future(self._second.wait())
        running = asyncio.ensure_future(step())
        await asyncio.wait({second, running}, return_when=asyncio.FIRST_COMPLETED)
        second.cancel()
        running.cancel()
        await asyncio.wait({second, running})
        if not running.cancelled():
            running.result()
