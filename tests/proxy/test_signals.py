"""The first signal begins the end, the second is the end, and what fails meanwhile is told."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from proxy.signals import ShutdownSignals


async def test_what_a_step_of_the_end_raised_is_raised() -> None:
    """A proxy that could not drain must not end as if it had."""

    async def step() -> None:
        await asyncio.sleep(0)
        raise RuntimeError("cannot drain")

    signals = ShutdownSignals(asyncio.get_running_loop())
    with pytest.raises(RuntimeError, match="cannot drain"):
        await signals.unless_second(step)


async def test_a_step_is_left_at_the_second_signal_and_none_follows() -> None:
    """It is cancelled, which is no failure."""
    signals = ShutdownSignals(asyncio.get_running_loop())
    os.kill(os.getpid(), signal.SIGTERM)
    await signals.first.wait()
    begun: list[str] = []

    async def step() -> None:
        begun.append("step")
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    async with asyncio.timeout(5):
        await signals.unless_second(step)
        await signals.unless_second(step)
    assert begun == ["step"]


async def test_a_step_that_fails_while_it_is_left_is_told_too() -> None:
    """The second signal excuses the hurry, not the failure."""
    signals = ShutdownSignals(asyncio.get_running_loop())
    signals.first.set()

    async def step() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("cannot close")

    with pytest.raises(RuntimeError, match="cannot close"):
        await signals.unless_second(step)
