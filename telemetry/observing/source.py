"""The frames of one worker, and the state of its exchanges.

An exchange is settled once the end of this process can no longer lose any of it: its span is
committed, or given up for good and counted, or not wanted. Only then may its sender forget the
frames (R8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from telemetry.frames.frame import End

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from telemetry.frames.frame import Frame
    from telemetry.observing.exchange import Exchange
    from telemetry.observing.observation import Observation
    from telemetry.observing.observer import Observer
    from telemetry.observing.open_call import OpenExchange


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """A receipt for an exchange: settled when its span is."""

    settled: list[int]
    number: int

    def settle(self) -> None:
        """Report the exchange as settled."""
        self.settled.append(self.number)


class FrameSource:
    """The frames of one worker. Like its service, it is not safe for concurrent calls.

    Args:
        observer: observes only this worker's exchanges, which the worker has numbered.
        record: called with each record, and the receipt to settle.
    """

    def __init__(
        self, observer: Observer, record: Callable[[Exchange, Receipt | None], None]
    ) -> None:
        self._observer = observer
        self._record = record
        self._settled: list[int] = []

    def __len__(self) -> int:
        """Count the exchanges that are open."""
        return len(self._observer)

    def look(self) -> list[OpenExchange]:
        """Look at all that is open; any thread may."""
        return self._observer.look()

    def observations(self) -> Sequence[Observation]:
        """Return all that is open, as it came."""
        return self._observer.observations()

    def feed(self, *frames: Frame) -> None:
        """Observe frames; the span of an exchange that ends waits for the next commit."""
        observe = self._observer.feed
        for frame in frames:
            exchange = observe(frame)
            if type(frame) is not End:
                continue
            if exchange is not None:
                self._record(exchange, Receipt(self._settled, frame.exchange))
            else:
                self._settled.append(frame.exchange)  # not begun, or it failed: no span comes

    def pop_settled(self) -> list[int]:
        """Return the numbers of the exchanges that were settled since the last call."""
        numbers = self._settled[:]
        self._settled.clear()
        return numbers

    def lose(self, at_ns: int, message: str) -> int:
        """End all open exchanges as ``worker_lost``, because the worker is gone; count them (R3).

        The `message` says how the worker ended; the end was noticed at `at_ns`.
        """
        exchanges = self._observer.lose(at_ns, message)
        for number, exchange in exchanges:
            self._record(exchange, Receipt(self._settled, number))
        return len(exchanges)

    def forget(self, number: int) -> None:
        """Forget an exchange without a record: another source has its frames from the beginning."""
        self._observer.forget(number)

    def forget_all(self) -> None:
        """Forget all that is open without a record: its worker sends it again."""
        self._observer.forget_all()
