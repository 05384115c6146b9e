"""Remembers for a while which models at which upstream reject ``stream_options``."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.clock import Clock

__all__ = ("RejectionKey", "Rejections")

MAX_REMEMBERED = 1024
"""Least recently used entries go first (``design.md`` section 4)."""

MAX_KEY_BYTES = 2048
"""Longest target and model: the client chooses both, and real ones take about a hundred."""

REMEMBERED_SECONDS = 600
"""An upstream may learn the option any day; one extra request per ten minutes finds out."""

RejectionKey = tuple[str, str, bytes | None]
"""Upstream name, target with query, model as JSON text."""


class Rejections:
    """An LRU with a time to live."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ns: OrderedDict[RejectionKey, int] = OrderedDict()

    def add(self, key: RejectionKey) -> None:
        """Remember that ``key`` rejected the option and took the request without it."""
        if len(key[1]) + len(key[2] or b"") > MAX_KEY_BYTES:
            return
        self._until_ns[key] = self._clock.monotonic_ns() + REMEMBERED_SECONDS * 1_000_000_000
        self._until_ns.move_to_end(key)
        if len(self._until_ns) > MAX_REMEMBERED:
            self._until_ns.popitem(last=False)

    def __contains__(self, key: RejectionKey) -> bool:
        until_ns = self._until_ns.get(key)
        if until_ns is None:
            return False
        if until_ns <= self._clock.monotonic_ns():
            del self._until_ns[key]
            return False
        self._until_ns.move_to_end(key)
        return True
