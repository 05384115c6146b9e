"""Finds processes that outlive the command that started them.

They have the environment of the command, and with it the secret of its interception. Other users'
processes cannot be looked at, and need not be: they do not know the secret.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from proxy.processes.intercept_orders import Staying

_PROCESSES = Path("/proc")


def find_staying(secret: str) -> list[Staying]:
    """Find the processes that have a secret in their environment, by their ids.

    None are found on a system without ``/proc``.
    """
    return sorted(
        Staying(pid, _read(pid, "comm").strip().decode("utf-8", "replace"))
        for pid in _list_processes()
        if secret.encode() in _read(pid, "environ")
    )


def _list_processes() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir(_PROCESSES) if name.isdecimal()]  # noqa: PTH208 - names are enough
    return []


def _read(pid: int, name: str) -> bytes:
    """Read a file of a process; nothing if it has ended, or belongs to somebody else."""
    with contextlib.suppress(OSError):
        return (_PROCESSES / str(pid) / name).read_bytes()
    return b""
