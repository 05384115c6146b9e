"""How often a child process looks for garbage that refers to itself.

Reference counts free nearly all that a call leaves behind; cycles are rare. The collector goes
through the objects of all open calls each time, and through all modules now and then, which shows
as a pause of every stream.
"""

from __future__ import annotations

import gc

__all__ = ("collect_rarely",)

YOUNG_OBJECTS = 10_000
"""More objects than were freed since the last look, before the next one; Python's own figure, 700,
is less than what a burst of a hundred calls makes."""


def collect_rarely() -> None:
    """Call once everything is loaded: what is there then stays, and is never gone through again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
