"""Checks whether the files of an open store are still those at its path.

SQLite does not check that: it continues to use a file that was removed or moved away, and a
write-ahead log that was cut, until that damages the file itself.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path

from telemetry.store.opening import shm_path, wal_path


class Change(Enum):
    """A change that somebody else made to a store's files."""

    FILE_GONE = "the file was removed, or another lies in its place"
    WAL_GONE = "its write-ahead log was removed, or another lies in its place"
    WAL_CUT = "its write-ahead log was cut"


class OpenedFiles:
    """The file and the write-ahead log that a connection has just opened, by inode and device."""

    def __init__(self, path: Path) -> None:
        """Remember the files of the store at `path`."""
        self._path, self._wal, self._shm = str(path), str(wal_path(path)), str(shm_path(path))
        self._file_id = _identify(self._path)
        self._wal_id = _identify(self._wal)
        self._wal_bytes = 0

    def note_wal(self) -> None:
        """Remember how long the log is; only its owner may make it shorter."""
        try:
            self._wal_bytes = os.stat(self._wal).st_size  # noqa: PTH116 - Path.stat costs twice
        except OSError:
            return

    def find_change(self) -> Change | None:
        """Find what was done to the files since they were opened or the log was last noted.

        ``None`` if nothing was done, or nothing is known. Each use of a store calls this.
        """
        try:
            file, wal = os.stat(self._path), os.stat(self._wal)  # noqa: PTH116 - as above
        except (FileNotFoundError, NotADirectoryError):
            if _identify(self._path) != self._file_id:
                return Change.FILE_GONE
            return Change.WAL_GONE if self._wal_id is not None else None
        except OSError:
            return None
        if file[1:3] != self._file_id:
            return Change.FILE_GONE
        if wal[1:3] != self._wal_id:
            return Change.WAL_GONE
        return Change.WAL_CUT if wal.st_size < self._wal_bytes else None

    def remove_wal(self) -> None:
        """Remove the log and its index: beside another file they would damage it."""
        if self._wal_id == _identify(self._wal):
            for path in (self._wal, self._shm):
                Path(path).unlink(missing_ok=True)


def _identify(path: str) -> tuple[int, ...] | None:
    """Return inode and device of a file, ``None`` if there is none."""
    try:
        return os.stat(path)[1:3]  # noqa: PTH116 - as above
    except (FileNotFoundError, NotADirectoryError):
        return None
