"""The frames of one worker, and what has become of its exchanges.

Rules:

1. An exchange is settled once the end of this process can lose nothing of it any more: its span is
   committed, or given up for good and counted, or none is wanted. Whoever sent the frames may
   forget them then, and not before (R8).
2. A worker that is gone without having ended its exchanges ends them all: ``worker_lost`` (R3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from telemetry.frames.frame import End

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.frames.frame import Frame
    from telemetry.observing.exchange import Exchange
    from telemetry.observing.observer import Observer

__all__ = ("FrameSource", "Receipt")


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """A receipt for an exchange: settled when its span is."""

    settled: list[int]
    number: int

    def settle(self) -> None:
        """Nothing of the exchange can be lost any more (rule 1)."""
        self.settled.append(self.number)


class FrameSource:
    """What one worker emits. Not safe for concurrent calls, as its service is not.

    Args:
        observer: of this worker's exchanges alone: their numbers are its own.
        take: is given each record, and the receipt to settle.
    """

    def __init__(
        self, observer: Observer, take: Callable[[Exchange, Receipt | None], None]
    ) -> None:
        self._observer = observer
        self._take = take
        self._settled: list[int] = []

    def __len__(self) -> int:
        """How many of its exchanges are open."""
        return len(self._observer)

    def feed(self, *frames: Frame) -> None:
        """Take frames; where one ends an exchange, its span waits for the next commit."""
        observe = self._observer.feed
        for frame in frames:
            exchange = observe(frame)
            if type(frame) is not End:
                continue
            if exchange is not None:
                self._take(exchange, Receipt(self._settled, frame.exchange))
            else:
                self._settled.append(frame.exchange)  # not begun, or past saving: no span comes

    def take_settled(self) -> list[int]:
        """The numbers of the exchanges that were settled since the last call (rule 1)."""
        numbers = self._settled[:]
        self._settled.clear()
        return numbers

    def lose(self, at_ns: int, message: str) -> int:
        """The worker is gone: end what is open (rule 2).

        Args:
            at_ns: when that was noticed, nanoseconds since the epoch.
            message: how it ended, in words.

        Returns:
            How many exchanges that were.
        """
        exchanges = self._observer.lose(at_ns, message)
        for number, exchange in exchanges:
            self._take(exchange, Receipt(self._settled, number))
        return len(exchanges)

    def forget(self, number: int) -> None:
        """Forget an exchange without a record: another source has its frames from the beginning."""
        self._observer.forget(number)

    def forget_all(self) -> None:
        """Forget all that is open without a record: its worker sends it again."""
        self._observer.forget_all()
