"""Sums of what providers counted, over the calls of a run.

Rules:

1. A count that a call did not tell is missing in its sum; of how many calls a sum is, is told
   where it is not all of them (R6).
2. A sum that no 64-bit attribute holds is not told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from codec.text.integers import count_of

if TYPE_CHECKING:
    from codec.usage import Usage

_COUNTS: Final = {
    "prompt": "prompt_tokens",
    "cache_read": "cached_tokens",
    "cache_write": "cache_write_tokens",
    "completion": "completion_tokens",
}
"""Counts of :class:`codec.usage.Usage`, and what their sums are called."""


class _Sum(msgspec.Struct):
    total: int = 0
    calls: int = 0


class UsageSums(msgspec.Struct):
    """The sums of a run so far."""

    sums: dict[str, _Sum] = {}

    def add(self, usage: Usage) -> None:
        """Add what was told of a call."""
        for count, name in _COUNTS.items():
            if (tokens := getattr(usage, count)) is not None:
                known = self.sums.setdefault(name, _Sum())
                known.total += tokens
                known.calls += 1

    def tell(self, calls: int) -> dict[str, object]:
        """Tell the sums, and ``calls_that_told`` where one is of fewer calls than there were."""
        told: dict[str, object] = {}
        partial: dict[str, int] = {}
        for name in _COUNTS.values():
            known = self.sums.get(name)
            if known is None or count_of(known.total) is None:
                continue
            told[name] = known.total
            if known.calls < calls:
                partial[name] = known.calls
        return told | {"calls_that_told": partial} if partial else told
