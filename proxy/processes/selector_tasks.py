"""Tasks that other threads give to a thread that waits in a selector."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("spantap.telemetry")

_READ_BYTES: Final = 4096
"""How many wake-ups are read together: each is a byte."""


class SelectorTasks:
    """A queue of tasks with a descriptor, so that a selector can wait for them.

    The queue has no limit: its callers must bound the number of tasks.
    """

    def __init__(self) -> None:
        self._asked: deque[Callable[[], None]] = deque()
        self._woken, self._waker = socket.socketpair()
        for sock in (self._woken, self._waker):
            sock.setblocking(False)  # noqa: FBT003 - its only parameter
        self._defects = RateLimit(time.monotonic_ns)

    def fileno(self) -> int:
        """Return the descriptor; it is readable once there are tasks."""
        return self._woken.fileno()

    def ask(self, task: Callable[[], None]) -> None:
        """Ask for a task, without waiting for it; any thread may call this."""
        self._asked.append(task)
        with contextlib.suppress(OSError):  # full, so the thread is awake; or closed
            self._waker.send(b"!")

    def run(self) -> None:
        """Do all tasks, in the order in which they were asked for."""
        with contextlib.suppress(OSError):
            self._woken.recv(_READ_BYTES)
        while self._asked:
            task = self._asked.popleft()
            try:
                task()
            except Exception as error:  # noqa: BLE001 - the thread must go on
                if self._defects.admit() is not None:
                    _log.error("a task failed: %s", type(error).__name__)

    def close(self) -> None:
        """Close the descriptors; later tasks are not done."""
        self._woken.close()
        self._waker.close()
