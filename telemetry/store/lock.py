"""One owner per store: an advisory lock with the holder's process id in it.

The lock is ``flock`` on ``<store>.lock``, so the kernel frees it when its holder dies. The file
itself stays: if it were removed, two processes could hold locks on two files of one name. If the
store is a symbolic link, the lock lies beside the file that it leads to.

:func:`find_holder` shares the lock for some microseconds and writes nothing; an owner that comes
just then waits. The lines of the file:

1. The process ids that a user may end: the supervisor's, then the holder's, in case the supervisor
   is gone.
2. The file that an owner has last found to be a store: device and inode. It distinguishes a store
   that is damaged beyond recognition from a file that never was one.
3. A store's id, and how many spans were ever recorded in it; written after a commit, never before.
   It distinguishes a store that has lost its write-ahead log from one that has lost nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from telemetry.errors import StoreLocked, StoreUnavailable
from telemetry.own_files import open_own

_MAX_BYTES = 160
"""The most that is read of a lock file: five numbers of 64 bits and an id, and room to spare."""

_WAIT_SECONDS = 0.5
"""How long an owner waits for a process that only looks: far longer than a look takes."""

_RETRY_SECONDS = 0.01


class StoreLock:
    """The right to write to one store, held until :meth:`release` or the end of the process."""

    def __init__(self, path: Path, holder_pid: int | None = None) -> None:
        """Acquire the lock of the store at `path`.

        Error texts name `holder_pid` as the process to end; by default it is this one.

        Raises:
            StoreLocked: another process has it, or another owner in this one.
            StoreUnavailable: the lock file cannot be made, locked or written.
        """
        lock_path = _lock_path(path)
        try:
            lock_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = open_own(lock_path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StoreUnavailable(
                f"the lock file {lock_path} cannot be opened: {error.strerror};"
                " fix the permissions of its folder, or name another store"
            ) from error
        try:
            _lock(self._descriptor)
        except OSError as error:
            holder = _read_pid(self._descriptor)
            os.close(self._descriptor)
            if isinstance(error, BlockingIOError):
                raise StoreLocked(path, holder) from error
            raise StoreUnavailable(
                f"the lock file {lock_path} cannot be locked: {error.strerror};"
                " put the store on a local file system"
            ) from error
        self._holder_pid = os.getpid() if holder_pid is None else holder_pid
        self._store = _read_line(self._descriptor, 1)
        self._recorded = _read_line(self._descriptor, 2)
        try:
            self._write()
        except OSError as error:
            os.close(self._descriptor)
            raise StoreUnavailable(
                f"the lock file {lock_path} cannot be written: {error.strerror};"
                " make room on its disk, or name another store"
            ) from error

    def vouch_for(self, path: Path) -> None:
        """Write down that the file at `path` is a store, if that is possible."""
        with contextlib.suppress(OSError):
            self._store = _identify(path)
            self._write()

    def vouches_for(self, path: Path) -> bool:
        """Tell whether the file at `path` was a store when its owner, now or before, opened it."""
        try:
            return self._store == _identify(path)
        except OSError:
            return False

    def note_recorded(self, store_id: str, recorded: int) -> None:
        """Write down how many spans were ever recorded, if that is possible."""
        self._recorded = f"{store_id} {recorded}"
        with contextlib.suppress(OSError):
            self._write()

    def recorded(self, store_id: str | None = None) -> int:
        """Read how many spans the store with that id had, or the last one; 0 if unknown."""
        known_id, _, recorded = self._recorded.partition(" ")
        is_it = store_id in {None, known_id}
        return int(recorded) if is_it and recorded.isdecimal() else 0

    def is_in_place(self, path: Path) -> bool:
        """Tell whether another process that wants the store at `path` would find this lock."""
        held = os.fstat(self._descriptor)
        try:
            return _identify(_lock_path(path)) == f"{held.st_dev}:{held.st_ino}"
        except OSError:
            return False

    def release(self) -> None:
        """Let the next owner in; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self) -> None:
        pids = str(self._holder_pid)
        if self._holder_pid != os.getpid():
            pids += f" {os.getpid()}"
        content = f"{pids}\n{self._store}\n{self._recorded}".rstrip("\n").encode() + b"\n"
        os.pwrite(self._descriptor, content, 0)
        os.ftruncate(self._descriptor, len(content))


def find_holder(path: Path) -> str | None:
    """Find the process that owns the store at `path`, ``None`` if there is none.

    Raises:
        StoreUnavailable: the lock cannot be read.
    """
    lock_path = _lock_path(path)
    try:
        descriptor = os.open(lock_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return str(_read_pid(descriptor) or "unknown")
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnavailable(
            f"the lock file {lock_path} cannot be read: {error.strerror}"
        ) from error
    return None


def has_lock_file(path: Path) -> bool:
    """Tell whether the store at `path` has, or once had, an owner."""
    return _lock_path(path).exists()


def _lock_path(path: Path) -> Path:
    return Path(f"{path.resolve()}.lock")


def _lock(descriptor: int) -> None:
    """Acquire the lock; wait for processes that only look.

    Raises:
        OSError: it is held, or there are no locks.
    """
    until_seconds = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until_seconds:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _identify(path: Path) -> str:
    status = path.stat()
    return f"{status.st_dev}:{status.st_ino}"


def _read_pid(descriptor: int) -> int | None:
    """Read the process id to end from a lock file, ``None`` if it is not written yet.

    The first id of a living process is returned. If no such process lives here, the first id is
    returned, because the holder may be in another container.
    """
    words = _read_line(descriptor, 0).split()
    if not words or not all(word.isdecimal() for word in words):
        return None
    pids = [int(word) for word in words]
    return next(filter(_lives, pids), pids[0])


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _read_line(descriptor: int, number: int) -> str:
    """Read one line of a lock file, empty if it has none."""
    lines = os.pread(descriptor, _MAX_BYTES, 0).decode("ascii", "replace").splitlines()
    return lines[number].strip() if number < len(lines) else ""
