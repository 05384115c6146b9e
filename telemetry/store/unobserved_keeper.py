"""What the workers have counted of calls relayed unobserved, kept in the store."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from telemetry.errors import StoreError
from telemetry.metrics.instruments import REQUESTS_UNOBSERVED

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.metrics.snapshot import Snapshot
    from telemetry.store.store import Store

__all__ = ("UnobservedKeeper",)


class UnobservedKeeper:
    """Keeps in the store what the workers have counted.

    Args:
        store: where to.
        now_ns: nanoseconds since the epoch.
    """

    def __init__(self, store: Store, now_ns: Callable[[], int]) -> None:
        self._store = store
        self._now_ns = now_ns
        self._kept: dict[str, int] | None = None  # at first what is old goes

    def take(self, numbers: Snapshot | None) -> None:
        """The numbers of all workers since the proxy began; a store that fails gets the next."""
        series = numbers.numbers.get(REQUESTS_UNOBSERVED.name, ()) if numbers is not None else ()
        counts = {str(one.labels[0]): int(one.value) for one in series}
        if numbers is not None and counts != self._kept:
            with contextlib.suppress(StoreError):
                self._store.keep_unobserved(numbers.start_ns, counts, self._now_ns())
                self._kept = counts
