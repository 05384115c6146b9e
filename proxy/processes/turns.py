"""Turns of the loop, shared between relaying and what is sent to telemetry."""

from __future__ import annotations

import asyncio
from time import monotonic

_SHARE = 0.25
"""The share of the time that all others took. In a busy worker they take many milliseconds for a
turn: with one batch in each, frames would leave it more slowly than they come."""


class Turns:
    """Turns of work: others have theirs between, and no more than a share of the time is used."""

    def __init__(self) -> None:
        self._until = 0.0

    async def pass_on(self) -> None:
        """Let all others have their turn, unless our share of the last one is left."""
        begin = monotonic()
        if begin < self._until:
            return
        await asyncio.sleep(0)
        now = monotonic()
        self._until = now + _SHARE * (now - begin)
