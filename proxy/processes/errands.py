"""Work that other threads ask of one that waits in a selector.

Rules:

1. Who asks does not wait. What was asked is done in its order, on the selector's thread.
2. An errand that fails is logged, and ends nothing.
"""

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
"""Calls that are heard together: each is a byte."""


class Errands:
    """A queue of work, which a selector can wait for: it has a descriptor.

    What asks bounds how much it asks.
    """

    def __init__(self) -> None:
        self._asked: deque[Callable[[], None]] = deque()
        self._woken, self._waker = socket.socketpair()
        for sock in (self._woken, self._waker):
            sock.setblocking(False)  # noqa: FBT003 - its only parameter
        self._defects = RateLimit(time.monotonic_ns)

    def fileno(self) -> int:
        """Return the descriptor that can be read once there is work."""
        return self._woken.fileno()

    def ask(self, work: Callable[[], None]) -> None:
        """Ask for work to be done; any thread may."""
        self._asked.append(work)
        with contextlib.suppress(OSError):  # full: it is awake, or closed
            self._waker.send(b"!")

    def run(self) -> None:
        """Do all that was asked."""
        with contextlib.suppress(OSError):
            self._woken.recv(_READ_BYTES)
        while self._asked:
            work = self._asked.popleft()
            try:
                work()
            except Exception as error:  # noqa: BLE001 - rule 2
                if self._defects.admit() is not None:
                    _log.error("an errand failed: %s", type(error).__name__)

    def close(self) -> None:
        """Close the descriptors; what is asked later is not done."""
        self._woken.close()
        self._waker.close()
