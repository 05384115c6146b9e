"""Time that a test turns does not overtake what needs none."""

from __future__ import annotations

import asyncio

from tests.proxy.turned_time import TurnedLoop, run_turned


def test_what_needs_no_time_happens_before_time_is_turned() -> None:
    """Ten rounds of the loop, and less than ten seconds for them."""

    async def work() -> str:
        async with asyncio.timeout(5):
            for _ in range(10):
                await asyncio.sleep(0)
        return "done"

    async def main(loop: TurnedLoop) -> None:
        working = asyncio.ensure_future(work())
        await asyncio.sleep(0)  # it has begun
        await loop.turn(50)
        assert await working == "done"

    run_turned(main)
