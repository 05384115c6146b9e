"""The room for the bodies of all open exchanges, of all workers together (R5).

A request is held from its arrival until its answer has ended, so a limit for each exchange alone
would let a thousand of them take a thousand times as much.

The room counts memory: a body's bytes while it is gathered, its values once decoded
(:mod:`codec.text.json_size`), the folded parts of a stream beyond a small free amount, and the
memory of decoders of content codings.

When there is too little room, pictures of answers go first, which take only room that is free. Then
the largest holding gives up its content, until there is enough; a holding that would itself be the
largest is refused. So a few huge calls take nothing from many
usual ones. A worker's budget of requests (:mod:`proxy.request_body`) only counts, because a body on
its way to the upstream cannot be given up. The budget of one answer (:mod:`codec.budget`) borrows
from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.text.json_size import decoded_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DECODED_BYTES = 96 * 1024 * 1024
"""The most memory for the values of one body: enough for any text or image that is captured, or for
a conversation of 150,000 short messages."""

MAX_OPEN_BODIES_BYTES = 192 * 1024 * 1024
"""Enough for some hundreds of open chats of 256 KiB each, or for one and a half of the largest
bodies. The process takes at most some 200 MiB more, while it makes a span."""


class OpenBodies:
    """The room for all bodies together. For one thread."""

    def __init__(self, max_bytes: int = MAX_OPEN_BODIES_BYTES) -> None:
        self._max_bytes = max_bytes
        self._holdings: set[Holding] = set()  # those that hold something
        self.held_bytes = 0

    def admit(self, holding: Holding, size_bytes: int) -> bool:
        """Reserve bytes for a holding; return false if there is no room.

        Before that, larger holdings give up their content.
        """
        wanted_bytes = holding.held_bytes + size_bytes
        while self.held_bytes + size_bytes > self._max_bytes:
            if holding.is_spare:
                return False
            if (spare := next(filter(_is_spare, self._holdings), None)) is not None:
                spare.give_up()
                continue
            largest = max(self._holdings, key=_size, default=holding)
            if largest is holding or largest.held_bytes <= wanted_bytes:
                return False
            largest.give_up()
        self.held_bytes += size_bytes
        self._holdings.add(holding)
        return True

    def release(self, holding: Holding) -> None:
        """Give back all that a holding has."""
        self.held_bytes -= holding.held_bytes
        self._holdings.discard(holding)


class Holding:
    """The room that one body takes; `on_give_up` forgets the body, if others need the room.

    It gives back everything at once, so that nothing is reserved and forgotten. A spare one takes
    only room that is free, and is the first that gives it up.
    """

    __slots__ = ("_bodies", "_on_give_up", "held_bytes", "is_spare")

    def __init__(
        self, bodies: OpenBodies, on_give_up: Callable[[], None], *, is_spare: bool = False
    ) -> None:
        self._bodies = bodies
        self._on_give_up = on_give_up
        self.is_spare = is_spare
        self.held_bytes = 0

    def reserve(self, size_bytes: int) -> bool:
        """Reserve bytes; return false if there is no room for them."""
        if size_bytes and not self._bodies.admit(self, size_bytes):
            return False
        self.held_bytes += size_bytes
        return True

    def reserve_decoded(self, body: bytes) -> int | None:
        """Reserve room for a JSON body and its values, instead of all that is reserved so far.

        Returns:
            The size of the values; ``None`` if there is no room, and then nothing is reserved.
        """
        self.release()
        size_bytes = decoded_bytes(body)
        fits = size_bytes <= MAX_DECODED_BYTES and self.reserve(len(body) + size_bytes)
        return size_bytes if fits else None

    def give_back(self, size_bytes: int) -> None:
        """Give back some bytes."""
        self._bodies.held_bytes -= size_bytes
        self.held_bytes -= size_bytes
        if not self.held_bytes:
            self._bodies.release(self)

    def give_up(self) -> None:
        """Forget the body and give back its room."""
        self._on_give_up()
        self.release()

    def release(self) -> None:
        """Give back all; a second call does nothing."""
        if self.held_bytes:
            self._bodies.release(self)
            self.held_bytes = 0

    def close(self) -> None:
        """Give back everything for good, and do not call `on_give_up` any more.

        Holding and body refer to each other. This breaks the cycle, so that the memory is free at
        once, and not only after the garbage collector has found it.
        """
        self.release()
        self._on_give_up = _nothing


def _nothing() -> None:
    """Give up nothing, because the body is gone."""


def _is_spare(holding: Holding) -> bool:
    return holding.is_spare


def _size(holding: Holding) -> int:
    return holding.held_bytes
