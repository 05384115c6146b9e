"""The product made slower on purpose, to see that the counts tell."""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING

from codec.usage_filter import UsageFilter

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("WORSENED",)

_filter = UsageFilter.feed


def _filter_again(every: int) -> None:
    """Each so many-th read is filtered twice: that is by 1 / `every` more work."""
    reads = itertools.count(1)
    twin = UsageFilter()

    def feed(self: UsageFilter, data: bytes) -> bytes:
        if not next(reads) % every:
            _filter(twin, data)
        return _filter(self, data)

    UsageFilter.feed = feed  # type: ignore[method-assign]


def _read_again_in_c() -> None:
    """Each read is gone through once more, all by C code."""

    def feed(self: UsageFilter, data: bytes) -> bytes:
        hashlib.sha256(data)
        return _filter(self, data)

    UsageFilter.feed = feed  # type: ignore[method-assign]


WORSENED: dict[str, Callable[[], None]] = {
    "fifth read filtered twice": lambda: _filter_again(5),
    "tenth read filtered twice": lambda: _filter_again(10),
    "reads gone through in C": _read_again_in_c,
}
"""By what is done; each undoes the one before it."""
