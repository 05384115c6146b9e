"""Room on the disk that is held while the disk has some, and given up when it is full.

On a full disk SQLite cannot even delete: it first writes to the WAL, and folding the WAL in takes
room, too. Once the reserve is given up, a store recovers by itself. Until it is held again the
store must not grow, or the room would be gone for nothing.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

from telemetry.own_files import open_own

RESERVE_BYTES = 16 << 20
"""The most that a WAL holds before it is folded in: 4 MB, plus the largest commit of spans."""

_SHARE = 8
"""The share of a small disk: an eighth."""

_FULL_BYTES = 1 << 20
"""A disk with less room than this counts as full, whatever the error was."""


class DiskReserve:
    """The file ``<store>.reserve``; for one thread at a time.

    Attributes:
        held: whether it is there, whole.
    """

    def __init__(self, store: Path) -> None:
        """Prepare for the store at `store`."""
        self._path = Path(f"{store.resolve()}.reserve")
        self.held = False

    def hold(self) -> None:
        """Hold the reserve if there is twice as much room, because somebody has made some."""
        if self.held:
            return
        with contextlib.suppress(OSError):
            status = os.statvfs(self._path.parent)
            size_bytes = min(RESERVE_BYTES, status.f_blocks * status.f_frsize // _SHARE)
            descriptor = open_own(self._path, os.O_RDWR | os.O_CREAT)
            with os.fdopen(descriptor, "r+b") as file:
                missing_bytes = size_bytes - os.fstat(file.fileno()).st_size
                if 2 * missing_bytes <= status.f_bavail * status.f_frsize:
                    _allocate(file, size_bytes)
                    self.held = True

    def give_up(self) -> None:
        """Give the room back to the disk."""
        self.held = False
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def is_needed(self) -> bool:
        """Tell whether the disk is full; false if that is not known."""
        with contextlib.suppress(OSError):
            status = os.statvfs(self._path.parent)
            return status.f_bavail * status.f_frsize < _FULL_BYTES
        return False


def _allocate(file: BinaryIO, size_bytes: int) -> None:
    """Give a file its room on the disk, if there is as much."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size_bytes)
    else:  # macOS
        file.write(bytes(size_bytes))
        file.flush()
