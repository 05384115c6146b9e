"""One owner per store: an advisory lock with the holder's process id in it.

The lock is ``flock`` on ``<store>.lock``, so the kernel frees it when its holder dies, however it
dies. The file itself stays: removing it would let two processes hold locks on two files of one
name.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from telemetry.errors import StoreLocked, StoreUnavailable

__all__ = ("StoreLock",)


class StoreLock:
    """The right to write to one store, held until :meth:`release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Take the lock of the store at `path`.

        Raises:
            StoreLocked: another process has it, or another owner in this one.
            StoreUnavailable: the lock file cannot be made or locked.
        """
        lock_path = Path(f"{path}.lock")
        try:
            lock_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(
                f"the lock file {lock_path} cannot be opened: {error.strerror};"
                " mend the permissions of its folder, or name another store"
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _read_pid(self._descriptor)
            os.close(self._descriptor)
            if isinstance(error, BlockingIOError):
                raise StoreLocked(path, holder) from error
            raise StoreUnavailable(
                f"the lock file {lock_path} cannot be locked: {error.strerror};"
                " put the store on a local file system"
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let the next owner in; done twice, it does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _read_pid(descriptor: int) -> int | None:
    """The process id in a lock file, ``None`` where the holder has not written it yet."""
    text = os.pread(descriptor, 20, 0).strip()
    return int(text) if text.isdigit() else None
