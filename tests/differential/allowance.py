"""What an allowed difference is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.differential.comparison import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.differential.comparison import Difference
    from tests.differential.stage import Pair

__all__ = ("Allowance", "is_extra", "matches")


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """Why a difference may be.

    Attributes:
        name: what one side does and the other does not.
        source: where that is written: a page and its anchor.
        explains: whether it is the reason of a difference between two spans.
    """

    name: str
    source: str
    explains: Callable[[Pair, Difference], bool]

    def __str__(self) -> str:
        return self.name


def matches(difference: Difference, *patterns: str) -> bool:
    """Whether its path is one of these."""
    return any(re.fullmatch(pattern, difference.path) for pattern in patterns)


def is_extra(difference: Difference, *patterns: str) -> bool:
    """Whether only the proxy has it, and its path is one of these."""
    return difference.theirs is ABSENT and matches(difference, *patterns)
