"""What telemetry holds of the bodies of exchanges that are open, all workers' together (R5).

A limit for each exchange alone would let a thousand of them take a thousand times as much: a
request is held from its arrival until its answer has ended. Counted are requests, and answers that
are no streams, for of a stream there is little more than its text.
"""

from __future__ import annotations

__all__ = ("MAX_OPEN_BODIES_BYTES", "OpenBodies")

MAX_OPEN_BODIES_BYTES = 256 * 1024 * 1024
"""A thousand open chats of 256 KiB each. What is decoded of them takes as much again, or some times
that where it is made of many small values."""


class OpenBodies:
    """Counts what is held. For one thread.

    Args:
        max_bytes: of all together.

    Attributes:
        held_bytes: now.
    """

    def __init__(self, max_bytes: int = MAX_OPEN_BODIES_BYTES) -> None:
        self._max_bytes = max_bytes
        self.held_bytes = 0

    def take(self, size_bytes: int) -> bool:
        """Whether there is room for so much more, which then counts as held."""
        if self.held_bytes + size_bytes > self._max_bytes:
            return False
        self.held_bytes += size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """So much is held no more."""
        self.held_bytes -= size_bytes
