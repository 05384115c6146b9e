"""Files that tell whether the process that made them lives.

That process holds a lock (``flock``) on the file, and the kernel releases it when the process
ends, however it ends. A file never stands under its name without its lock.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def hold(path: Path) -> int:
    """Make a file that its owner alone may read, and hold it.

    Returns:
        Its descriptor, for writing; to close it is to let go.

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
    """Tell whether the process that made the file lives; false where there is no such file.

    Where that cannot be told, for example for lack of descriptors, it counts as alive.
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
