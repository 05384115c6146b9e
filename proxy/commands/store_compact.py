"""``spantap store compact``: room that a store does not need, given back to the disk.

Where no proxy runs, the file is written anew: it has no unused part then, and no byte of what was
deleted. A proxy gives its free pages back in short steps (:mod:`proxy.commands.store_owner`) and
goes on recording; that ends when none is left, or as many were given as there were.

Exit statuses: 0; 1 where the store is missing or cannot be written, or a reader is in the way.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from proxy.commands.amounts import describe_size
from proxy.commands.store_command import StoreCommand
from proxy.commands.store_owner import open_owner
from telemetry.store.deletion import MAX_COMPACT_BYTES
from telemetry.store.retention import measure_disk_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TextIO

    from proxy.commands.store_owner import StoreOwner
    from telemetry.store.rows import CompactStep

MAX_HINDERED: Final = 20
"""How many steps in a row may fail for a reader."""

HINDERED_SECONDS: Final = 0.1


def run_compact(
    store: Path, *, out: TextIO, err: TextIO, wait: Callable[[float], object] = time.sleep
) -> int:
    """Give room back, tell how much, and return the exit status."""
    with StoreCommand("spantap store compact", store, err) as command:
        command.check_store()
        before_bytes = measure_disk_bytes(store)
        with open_owner(store) as owner:
            last = _compact(owner, wait)
        given = describe_size(max(0, before_bytes - last.size_bytes))
        out.write(f"gave {given} back; the store has {describe_size(last.size_bytes)}\n")
        if not last.is_folded:
            return command.fail("somebody who reads the store is in the way; run it again.")
    return command.status


def _compact(owner: StoreOwner, wait: Callable[[float], object]) -> CompactStep:
    """Give back what there is, and what is added to that at the same pace.

    Raises:
        StoreError: the owner does not do it.
    """
    step = owner.compact(gives_back=True) if owner.own is None else owner.own.rewrite()
    # A proxy at its limit frees pages all the time, and fills them again.
    steps = step.free_bytes // MAX_COMPACT_BYTES + 1
    hindered = 0
    while steps > 0 and hindered < MAX_HINDERED and (step.free_bytes or not step.is_folded):
        if step.is_folded:
            steps -= 1
            hindered = 0
        else:
            hindered += 1
            wait(HINDERED_SECONDS)
        step = owner.compact(gives_back=True)
    return step
