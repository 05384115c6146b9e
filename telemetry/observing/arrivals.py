"""Calls as they arrive: after a start of telemetry, in the order in which they ended.

What several workers, and the spool, hold back while there is no telemetry comes in any order. A
call that is recorded before the one that it goes on from is not known to do so.

Rules:

1. While calls are held none is recorded, and so none is settled: a kill loses none (R8).
2. They are recorded in the order of their ends: a successor begins when its predecessor has ended.
3. At most :data:`MAX_HELD_CALLS` are held, with :data:`MAX_HELD_BYTES` of requests and answers that
   are not large (R5): past it they are recorded, in their order, and the next ones are held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.observing.exchange import Exchange
    from telemetry.observing.source import Receipt

__all__ = ("MAX_HELD_BYTES", "MAX_HELD_CALLS", "Arrivals")

MAX_HELD_CALLS: Final = 2_000
"""Calls of a second or two of a busy service."""

MAX_HELD_BYTES: Final = 8 * 1024 * 1024
"""Requests that are held, as they came; decoded they are some times as much."""


class Arrivals:
    """Passes calls on, or holds them for a while. Not safe for concurrent calls.

    Args:
        record: is given each call, and the receipt to settle.

    Attributes:
        is_holding: calls are held.
    """

    def __init__(self, record: Callable[[Exchange, Receipt | None], None]) -> None:
        self._record = record
        self._held: list[tuple[Exchange, Receipt | None]] = []
        self._held_bytes = 0
        self.is_holding = False

    def hold(self) -> None:
        """Hold calls until :meth:`release`."""
        self.is_holding = True

    def take(self, exchange: Exchange, receipt: Receipt | None) -> None:
        """Take a call that has ended."""
        if not self.is_holding:
            self._record(exchange, receipt)
            return
        self._held.append((exchange, receipt))
        self._held_bytes += exchange.request_size_bytes
        if (
            len(self._held) >= MAX_HELD_CALLS
            or self._held_bytes >= MAX_HELD_BYTES
            or exchange.is_large
        ):
            self._record_held()

    def release(self) -> None:
        """Record all that is held, and hold no more."""
        self.is_holding = False
        self._record_held()

    def _record_held(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        for exchange, receipt in sorted(held, key=_find_end):
            self._record(exchange, receipt)


def _find_end(held: tuple[Exchange, Receipt | None]) -> int:
    return held[0].end_ns
