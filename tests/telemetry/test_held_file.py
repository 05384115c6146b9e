"""``telemetry.held_file``: a file tells whether its maker lives."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from telemetry.held_file import hold, is_held

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys, time
from pathlib import Path
from telemetry.held_file import hold
hold(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_file_is_held_until_its_descriptor_is_closed(tmp_path: Path) -> None:
    """It can be written meanwhile, by its owner alone, and asking does not take it."""
    path = tmp_path / "life"
    assert not is_held(path)
    descriptor = hold(path)
    assert is_held(path)
    assert is_held(path)
    os.write(descriptor, b"x")
    os.close(descriptor)
    assert not is_held(path)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"x", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_of_a_process_that_was_killed_is_not_held(tmp_path: Path) -> None:
    """The kernel lets go of it."""
    path = tmp_path / "life"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_held(path)
        holder.kill()
    assert not is_held(path)


def test_a_file_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    """Where a folder has its name already."""
    (tmp_path / "life").mkdir()
    with pytest.raises(OSError, match="life"):
        hold(tmp_path / "life")
    assert [path.name for path in tmp_path.iterdir()] == ["life"]


def test_who_cannot_be_asked_may_live(tmp_path: Path) -> None:
    """Without a descriptor to look with nobody is taken for dead."""
    path = tmp_path / "life"
    os.close(hold(path))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(path, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        assert is_held(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not is_held(path)
