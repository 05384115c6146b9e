"""Whether the files of an open store are still those at its path.

SQLite does not look: it goes on in a file that was removed or moved away, where nobody finds what
it writes, and in a write-ahead log that was cut, until the file itself is damaged by it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from telemetry.store.schema import shm_path, wal_path

if TYPE_CHECKING:
    import os
    from pathlib import Path

__all__ = ("Change", "OpenedFiles")


class Change(Enum):
    """What somebody else did to them."""

    NONE = "none, or none that the system tells"
    FILE_GONE = "the file was removed, or another lies in its place"
    WAL_GONE = "its write-ahead log was removed, or another lies in its place"
    WAL_CUT = "its write-ahead log was cut"


class OpenedFiles:
    """The file and the write-ahead log that a connection has just opened, by device and inode."""

    def __init__(self, path: Path) -> None:
        """Remember the files of the store at `path`.

        Raises:
            OSError: they cannot be looked at.
        """
        self._path = path
        self._wal = wal_path(path)
        self._shm = shm_path(path)
        self._file_id = _identify(_look(path))
        self._wal_id = _identify(_look(self._wal))
        self._wal_bytes = 0

    def note_wal(self) -> None:
        """Remember how long the log is; nobody else has it shorter."""
        try:
            status = _look(self._wal)
        except OSError:
            return
        self._wal_bytes = 0 if status is None else status.st_size

    def find_change(self) -> Change:
        """What was done to them since they were opened, and since the log was last noted."""
        try:
            file, wal = _look(self._path), _look(self._wal)
        except OSError:
            return Change.NONE
        if _identify(file) != self._file_id:
            return Change.FILE_GONE
        if _identify(wal) != self._wal_id:
            return Change.WAL_GONE
        if wal is not None and wal.st_size < self._wal_bytes:
            return Change.WAL_CUT
        return Change.NONE

    def remove_wal(self) -> None:
        """Remove the log and its index where they still lie: beside another file they are damage.

        Raises:
            OSError: they stay.
        """
        if self._wal_id == _identify(_look(self._wal)):
            for path in (self._wal, self._shm):
                path.unlink(missing_ok=True)


def _look(path: Path) -> os.stat_result | None:
    """The status of a file, ``None`` where there is none.

    Raises:
        OSError: the system does not tell.
    """
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _identify(status: os.stat_result | None) -> tuple[int, int] | None:
    return None if status is None else (status.st_dev, status.st_ino)
