"""Turns of the loop, counted without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ("count_turns",)


def count_turns(step: Coroutine[Any, Any, Any]) -> int:
    """How often a step that waits for nothing lets others have their turn."""
    turns = 0
    try:
        while True:
            step.send(None)
            turns += 1
    except StopIteration:
        return turns
