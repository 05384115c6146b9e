"""Time that passes when a test says so: a clock, and an event loop, that can be put forward."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

SETTLING_ROUNDS = 50
"""Rounds of a loop, some 10 us each: a connection and a request through a proxy take ten."""


class TurnedClock:
    """A clock that only moves when it is told to."""

    def __init__(self) -> None:
        self.now_ns = 1_700_000_000_000_000_000

    def wall_ns(self) -> int:
        return self.now_ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def turn(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1_000_000_000)


class TurnedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time can be put forward: whatever is due then happens next."""

    offset = 0.0

    def time(self) -> float:
        return super().time() + self.offset

    async def turn(self, seconds: float, *, step: float = 10.0) -> None:
        """Let so many seconds pass in steps, with a little real time for each.

        Before a step the loop makes some rounds, in which what needs no time happens: a busy
        machine may give the process none for a while, and a connection that is made at once would
        take ten seconds. What threads and other processes do is not waited for.
        """
        end = self.offset + seconds
        while self.offset < end:
            for _ in range(SETTLING_ROUNDS):
                await asyncio.sleep(0)
            self.offset = min(self.offset + step, end)
            await asyncio.sleep(0.001)


def run_turned(main: Callable[[TurnedLoop], Coroutine[Any, Any, None]]) -> None:
    """Run it on a loop whose time it can turn."""
    with asyncio.Runner(loop_factory=TurnedLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, TurnedLoop)
        runner.run(main(loop))
