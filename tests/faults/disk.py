"""Disks with faults: a small one that is full, and files that cannot be written any more.

Both need rights that not every machine gives; where they lack, the test is skipped and says so.
"""

from __future__ import annotations

import contextlib
import errno
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import RawIOBase
    from pathlib import Path

__all__ = ("full", "immutable", "small_disk")

_BLOCK_BYTES = 4096


@contextmanager
def small_disk(folder: Path, *, size_bytes: int) -> Iterator[Path]:
    """A file system in memory of its own, mounted in `folder`; gives where."""
    mount_point = folder / "disk"
    mount_point.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", mount_point)
    try:
        yield mount_point
    finally:
        subprocess.check_call(["umount", mount_point])


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """The disk without room for another block; at the end the room is there again."""
    ballast = disk / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file:
            _fill(file)
        yield
    finally:
        ballast.unlink()


@contextmanager
def immutable(*paths: Path) -> Iterator[None]:
    """Files that nobody can write, not even who has them open already (ext4's ``i`` attribute)."""
    with contextlib.ExitStack() as stack:
        for path in paths:
            _run("chattr", "+i", path)
            stack.callback(subprocess.check_call, ["chattr", "-i", path])
        yield


def _fill(file: RawIOBase) -> None:
    """Write until there is no room for another block."""
    while True:
        try:
            file.write(bytes(_BLOCK_BYTES))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return


def _run(*line: str | Path) -> None:
    """Run a command, or skip the test with what it says."""
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"not permitted here: {done.stderr.strip()}")
