"""What telemetry holds of the bodies of exchanges that are open, all workers' together (R5).

A limit for each exchange alone would let a thousand of them take a thousand times as much: a
request is held from its arrival until its answer has ended. Rules:

1. What counts is memory: a body's bytes while it is gathered, what its values take once decoded
   (:mod:`codec.json_size`), of a stream what is folded beyond the little that each has, and what
   decoders of content codings remember.
2. Where room lacks, the largest gives up what it holds, and so on until there is; one that would
   be the largest itself is refused. So many usual calls lose nothing beside a few huge ones.
3. What is held belongs to a :class:`Holding`, which gives back all of it at once: nothing can be
   taken and forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.json_size import decoded_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("MAX_DECODED_BYTES", "MAX_OPEN_BODIES_BYTES", "Holding", "OpenBodies")

MAX_DECODED_BYTES = 96 * 1024 * 1024
"""What the values of one body may take: those of any text or image that is captured, of 20 MB with
emoji among them too, or of a conversation of 150,000 short messages."""

MAX_OPEN_BODIES_BYTES = 192 * 1024 * 1024
"""Some hundreds of open chats of 256 KiB each, or the largest body that is decoded and half of
another. Beside it the process has some 200 MiB more at most, for the span in the making."""


class OpenBodies:
    """Counts what is held. For one thread.

    Args:
        max_bytes: of all together.

    Attributes:
        held_bytes: now.
    """

    def __init__(self, max_bytes: int = MAX_OPEN_BODIES_BYTES) -> None:
        self._max_bytes = max_bytes
        self._holdings: set[Holding] = set()  # those that hold something
        self.held_bytes = 0

    def admit(self, holding: Holding, size_bytes: int) -> bool:
        """Whether there is room for so much more of one, which then counts as held (rule 2)."""
        wanted_bytes = holding.held_bytes + size_bytes
        while self.held_bytes + size_bytes > self._max_bytes:
            largest = max(self._holdings, key=_size, default=holding)
            if largest is holding or largest.held_bytes <= wanted_bytes:
                return False
            largest.give_up()
        self.held_bytes += size_bytes
        self._holdings.add(holding)
        return True

    def release(self, holding: Holding) -> None:
        """Count what one holds no more."""
        self.held_bytes -= holding.held_bytes
        self._holdings.discard(holding)


class Holding:
    """What is held of one body.

    Args:
        bodies: where it counts.
        on_give_up: forgets the body, because others need the room.

    Attributes:
        held_bytes: now.
    """

    __slots__ = ("_bodies", "_on_give_up", "held_bytes")

    def __init__(self, bodies: OpenBodies, on_give_up: Callable[[], None]) -> None:
        self._bodies = bodies
        self._on_give_up = on_give_up
        self.held_bytes = 0

    def take(self, size_bytes: int) -> bool:
        """Whether there is room for so much more, which then counts as held."""
        if size_bytes and not self._bodies.admit(self, size_bytes):
            return False
        self.held_bytes += size_bytes
        return True

    def take_decoded(self, body: bytes) -> int | None:
        """Hold a JSON body and its values, instead of all so far.

        Returns:
            What the values will take; ``None`` where there is no room, and then nothing is held.
        """
        self.release()
        size_bytes = decoded_bytes(body)
        fits = size_bytes <= MAX_DECODED_BYTES and self.take(len(body) + size_bytes)
        return size_bytes if fits else None

    def give_back(self, size_bytes: int) -> None:
        """Give back bytes that are held no more."""
        self._bodies.held_bytes -= size_bytes
        self.held_bytes -= size_bytes
        if not self.held_bytes:
            self._bodies.release(self)

    def give_up(self) -> None:
        """The body is forgotten, and nothing held."""
        self._on_give_up()
        self.release()

    def release(self) -> None:
        """Hold nothing any more; once more does no harm."""
        if self.held_bytes:
            self._bodies.release(self)
            self.held_bytes = 0


def _size(holding: Holding) -> int:
    return holding.held_bytes
