"""Turns of the loop, shared between relaying and sending to telemetry."""

from __future__ import annotations

import asyncio
from time import monotonic

_SHARE = 0.25
"""How long our work may last, as a share of the time that all others took for their turn. In a busy
worker their turn takes many milliseconds. If we sent only one batch in each turn, frames would
leave more slowly than they come."""


class Turns:
    """Lets others have their turns between ours, so that we use only a share of the time."""

    def __init__(self) -> None:
        self._until = 0.0

    async def pass_on(self) -> None:
        """Let all others have their turn, unless some of our share is left."""
        begin = monotonic()
        if begin < self._until:
            return
        await asyncio.sleep(0)
        now = monotonic()
        self._until = now + _SHARE * (now - begin)
