"""The supervisor's answer about open calls (:mod:`proxy.processes.open_calls`)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from proxy.processes.open_calls import NO_CALLS, AskOpen

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.processes.open_calls import OpenCalls

ANSWER_SECONDS: Final = 0.15
"""How long telemetry may take. It needs a millisecond, unless it is busy with a large body."""


class OpenCallsQuestion:
    """Asks telemetry which calls are open; one question serves all who ask at the same time.

    Args:
        ask: sends the question to the present telemetry process; false if there is none.
    """

    def __init__(self, ask: Callable[[AskOpen], bool]) -> None:
        self._ask = ask
        self._answer: asyncio.Future[OpenCalls] | None = None

    def hear(self, answer: OpenCalls) -> None:
        """Take telemetry's answer; a late one has nobody who waits for it."""
        waiting, self._answer = self._answer, None
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def tell(self) -> OpenCalls:
        """Return the open calls; none if telemetry does not answer in time."""
        waiting = self._answer
        if waiting is None:
            if not self._ask(AskOpen()):
                return NO_CALLS
            waiting = self._answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(waiting)
        except TimeoutError:
            if self._answer is waiting:
                self._answer = None
            return NO_CALLS
