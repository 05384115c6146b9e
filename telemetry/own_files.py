"""Files that spantap makes: it uses only its own, and some show whether their maker is alive.

Others may be able to write to the folder above: it may be root's, a group's, or a container's
volume that everybody may write to. So a file with the name of one of ours may belong to somebody
else. Functions here never follow a symbolic link. They refuse a file that belongs to another user,
or that everybody may change, because its owner would read what is written to it. They take the
group's rights away: Kubernetes gives the group of ``fsGroup`` rights to each file of a volume
whenever it mounts one. A secret that others could read is refused instead, because they may have
read it.

A file that is held shows whether the process that made it is alive. That process holds a lock
(``flock``) on it, which the kernel releases when the process ends, however it ends. A file never
stands under its name without its lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class RefusedError(PermissionError):
    """The rules refuse a file; ``strerror`` says why."""


def open_own(path: Path, flags: int) -> int:
    """Open a file of ours; with ``os.O_CREAT`` it is made for us alone if there is none.

    Returns:
        Its descriptor, which child programs do not inherit.

    Raises:
        OSError: it cannot be opened, or the rules refuse it; ``strerror`` says why.
    """
    descriptor, mode = _open(path, flags)
    try:
        if mode & 0o077:
            os.fchmod(descriptor, 0o600)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_secret(path: Path, max_bytes: int) -> bytes:
    """Read the beginning of a file of ours that no other user could ever read.

    Raises:
        RefusedError: others could read it, or the rules refuse it.
        OSError: it cannot be read.
    """
    descriptor, mode = _open(path, os.O_RDONLY)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor is not a path
        if mode & 0o077:
            raise _refusal(path, "other users can read or change it")
        return file.read(max_bytes)


def write_secret(path: Path, data: bytes, *, replaces: bool = False) -> None:
    """Make a file for us alone in one step, so that it is always whole.

    Unless it `replaces` the one that is there, that one stays, even if another process makes it
    meanwhile.

    Raises:
        OSError: it cannot be made.
    """
    unnamed = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor is not a path
            file.write(data)
            file.flush()
            os.fsync(descriptor)  # or a crash of the machine may leave an empty file
        if not replaces:
            try:
                os.link(unnamed, path)
            except FileExistsError:
                return
            except OSError:  # the file system has no links: the last one wins
                replaces = True
        if replaces:
            unnamed.rename(path)
    finally:
        unnamed.unlink(missing_ok=True)


def make_own_folder(path: Path) -> None:
    """Make a folder for us alone, and those above it, if there is none.

    Raises:
        OSError: it cannot be made, or the rules refuse it; ``strerror`` says why.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.lstat()
    _check(path, status, stat.S_ISDIR)
    if stat.S_IMODE(status.st_mode) & 0o077:
        path.chmod(0o700)


def check_own(path: Path, *, is_folder: bool = False) -> None:
    """Check a file or folder of ours without opening it; it need not exist.

    Raises:
        OSError: it cannot be looked at, or the rules refuse it; ``strerror`` says why.
    """
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    _check(path, status, stat.S_ISDIR if is_folder else stat.S_ISREG)


def _open(path: Path, flags: int) -> tuple[int, int]:
    """Open a file of ours; return its descriptor, and its permissions.

    Raises:
        OSError: it cannot be opened, or the rules refuse it.
    """
    # Without waiting, because a pipe of that name would have no other end.
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _refusal(path, "it is a symbolic link, which is not followed") from error
        raise
    try:
        status = os.fstat(descriptor)
        _check(path, status, stat.S_ISREG)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, stat.S_IMODE(status.st_mode)


def _check(path: Path, status: os.stat_result, is_right: Callable[[int], bool]) -> None:
    """Refuse a link, and a file that others own or may change."""
    if stat.S_ISLNK(status.st_mode):
        raise _refusal(path, "it is a symbolic link, which is not followed")
    if not is_right(status.st_mode):
        wanted = "folder" if is_right is stat.S_ISDIR else "regular file"
        raise _refusal(path, f"it is no {wanted}")
    if status.st_uid != os.geteuid():
        raise _refusal(
            path,
            f"it belongs to user {status.st_uid}, who could read it, and this is user"
            f" {os.geteuid()}",
        )
    if status.st_mode & stat.S_IWOTH:
        raise _refusal(path, "every user may change it")


def _refusal(path: Path, why: str) -> RefusedError:
    return RefusedError(errno.EPERM, why, str(path))


def hold(path: Path) -> int:
    """Make a file that only its owner may read, and hold it.

    Returns:
        Its descriptor, for writing. Closing it releases the file.

    Raises:
        OSError: the file cannot be made or locked.
    """
    unnamed = path.with_name(f".{path.name}.new")
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unnamed.rename(path)
    except OSError:
        os.close(descriptor)
        unnamed.unlink(missing_ok=True)
        raise
    return descriptor


def is_held(path: Path) -> bool:
    """Tell whether the process that made the file is alive; false if there is no such file.

    If that cannot be found out, for example for lack of descriptors, it counts as alive.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
