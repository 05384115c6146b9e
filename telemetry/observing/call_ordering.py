"""Orders calls: they are recorded in the order of their ends.

Several workers, and the spool, hold calls back while there is no telemetry or it is slow, and these
calls arrive in any order. If a call is recorded before the call that it continues, the two are not
connected. A call begins after the call that it continues has ended. So calls are held for a while,
and then recorded in the order of their ends. Held calls are not recorded, and so not settled: a
kill loses none (R8).

Only a few calls are held (R5). At :data:`MAX_HELD_CALLS` calls, or at :data:`MAX_HELD_BYTES` of
requests, the half that ended first is recorded. An answer that is not large may take as much memory
as its request. A large call is recorded at once, with those that ended before it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.observing.exchange import Exchange
    from telemetry.observing.source import Receipt

MAX_HELD_CALLS: Final = 2_000
"""Calls of a second or two of a busy service."""

MAX_HELD_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the held requests as they came. Decoded requests take several times as much."""


class CallOrdering:
    """Passes calls on, or holds them for a while. Not safe for concurrent calls.

    Args:
        record: gets each call, and the receipt to settle.

    Attributes:
        is_holding: calls that come are held.
    """

    def __init__(self, record: Callable[[Exchange, Receipt | None], None]) -> None:
        self._record = record
        self._held: list[tuple[Exchange, Receipt | None]] = []
        self._held_bytes = 0
        self.is_holding = False

    @property
    def holds_some(self) -> bool:
        """Whether calls are held."""
        return bool(self._held)

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
        if exchange.is_large:
            self._record_until(exchange.end_ns)
        elif len(self._held) >= MAX_HELD_CALLS or self._held_bytes >= MAX_HELD_BYTES:
            ends = sorted(map(_find_end, self._held))
            self._record_until(ends[len(ends) // 2])

    def find_last_end(self) -> int | None:
        """Find when the last one of the held calls ended; ``None`` if none is held."""
        return max(map(_find_end, self._held)) if self._held else None

    def release(self, end_ns: int | None = None) -> None:
        """Record the held calls that ended by a time, or all; hold no further calls."""
        self.is_holding = False
        if self._held:
            self._record_until(end_ns)

    def _record_until(self, end_ns: int | None) -> None:
        """Record the held calls that ended by a time, or all of them."""
        held = sorted(self._held, key=_find_end)
        count = len(held) if end_ns is None else bisect_right(held, end_ns, key=_find_end)
        self._held = held[count:]
        self._held_bytes = sum(exchange.request_size_bytes for exchange, _ in self._held)
        for exchange, receipt in held[:count]:
            self._record(exchange, receipt)


def _find_end(held: tuple[Exchange, Receipt | None]) -> int:
    return held[0].end_ns
