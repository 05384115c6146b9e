"""How much is done, told without a clock: calls, of Python and of C."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ("count_calls",)


def count_calls(run: Callable[[], object]) -> int:
    """How many calls are made."""
    calls = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls
