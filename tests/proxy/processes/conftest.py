"""Fixtures of the processes' tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.processes.scratch import frames_socket

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with frames_socket(str(tmp_path / "t.db")) as sock:
        yield sock
