"""What is counted: a piece of work, and how many units of something are in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cost.counters import Counter

__all__ = ("HotPath", "Prepare")

Prepare: TypeAlias = "Callable[[], Callable[[], object]]"
"""Makes ready, uncounted, one run of what is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HotPath:
    """A path of which a regression is to be noticed.

    Attributes:
        name: what a unit is.
        prepare: the work.
        units: in it.
        without: the same work without these units, where their cost is the difference.
    """

    name: str
    prepare: Prepare
    units: int = 1
    without: Prepare | None = None

    def warm_up(self) -> None:
        """Run it all once, uncounted."""
        for prepare in (self.prepare, self.without):
            if prepare is not None:
                prepare()()

    def cost(self, counter: Counter) -> int:
        """What a unit costs."""
        whole = counter.count(self.prepare())
        rest = 0 if self.without is None else counter.count(self.without())
        return round((whole - rest) / self.units)
