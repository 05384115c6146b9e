"""Counts of calls that were not observed, on their way from workers to the store."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from telemetry.errors import StoreError
from telemetry.metrics.instruments import REQUESTS_UNOBSERVED, UPGRADES_REFUSED
from telemetry.store.unobserved_calls import UPGRADE

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.metrics.snapshot import Snapshot
    from telemetry.store.store import Store


class UnobservedKeeper:
    """Keeps in the store what the workers have counted."""

    def __init__(self, store: Store, now_ns: Callable[[], int]) -> None:
        self._store = store
        self._now_ns = now_ns
        self._kept: dict[str, int] | None = None  # differs from no counts: what is old goes

    def keep(self, numbers: Snapshot | None) -> None:
        """Keep the numbers of all workers since the proxy began; a failure loses nothing."""
        if numbers is None:
            return
        counts = {
            before + str(one.labels[0]): int(one.value)
            for counter, before in ((REQUESTS_UNOBSERVED, ""), (UPGRADES_REFUSED, UPGRADE))
            for one in numbers.numbers.get(counter.name, ())
        }
        if counts != self._kept:
            with contextlib.suppress(StoreError):
                self._store.keep_unobserved(numbers.start_ns, counts, self._now_ns())
                self._kept = counts
