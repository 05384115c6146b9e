"""``proxy.processes.scratch``: what killed processes leave in the folder for temporary files."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy.processes.scratch import frames_socket

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files; its path is short, as that of a socket has to be."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def leave(scratch: Path, name: str, *, age_seconds: int = 3600) -> Path:
    """A folder with a socket that nobody listens on."""
    folder = scratch / name
    folder.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(f"{folder}/frames")
    made = (folder / "frames").stat().st_mtime - age_seconds
    os.utime(folder / "frames", (made, made))
    (folder / "frames.51").touch()
    return folder


def test_a_start_removes_what_killed_ones_have_left(scratch: Path) -> None:
    """Folders of ours whose socket nobody answers; no others."""
    leave(scratch, "spantap-left")
    others = {
        leave(scratch, "spantap-new", age_seconds=0),
        leave(scratch, "another"),
        scratch / "spantap-empty",
        scratch / "spantap-link",
    }
    (scratch / "spantap-empty").mkdir()
    (scratch / "spantap-link").symlink_to("another")
    with frames_socket("traces.db") as running:
        live = Path(running.getsockname()).parent
        os.utime(live / "frames", (1, 1))
        with frames_socket("traces.db") as second:
            assert set(scratch.iterdir()) == {*others, live, Path(second.getsockname()).parent}
    assert set(scratch.iterdir()) == others
