"""Turns of the spool: when it is read beside workers, and what is recorded in which order.

A call that goes on from another one finds it only if that was recorded before. Calls come from
several sockets, and those that a worker turned aside from the spool, hours later perhaps.

Rules:

1. Workers come first: a block of the spool is read while none of them has sent anything, and the
   store has room.
2. Behind each of their turns what little lies in the spool is read as well, before anything of the
   turn is recorded: a worker whose socket was full for a moment turned a call or two aside, and
   what goes on from these may end next.
3. Where more lies there, telemetry is behind. What comes is then held, and recorded in the order in
   which calls ended (:mod:`telemetry.observing.arrivals`), until the spool is read: for
   :data:`MAX_BEHIND_SECONDS` at most, but as long as the store fails, for nothing can be stored
   meanwhile. What is in the spool by then is recorded when its turn comes.
4. After a start it is the same, and workers that live are waited for, for one of them may have the
   call before: until :data:`SETTLE_SECONDS` after all have come back, for
   :data:`MAX_SETTLE_SECONDS` at most.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from telemetry.observing.arrivals import Arrivals
    from telemetry.observing.spool_reader import SpoolReader

LOOK_SECONDS: Final = 0.01
"""The time between two looks at the spool while workers send: the next call of an agent takes
longer, and a look 0.05 ms."""

MAX_TURNS: Final = 4
"""Turns of the workers before a look at the spool; who has more to send is busy."""

LITTLE_BYTES: Final = 1 << 20
"""What is little in the spool (rule 2), compressed: some hundred calls, a tenth of a second."""

MAX_BEHIND_SECONDS: Final = 5.0
"""How long calls may wait for those in the spool: some thousands are read meanwhile, as many as
hundreds of agents make in a minute. Who looks at the list waits as long for the newest."""

SETTLE_SECONDS: Final = 0.2
"""How long workers may take to send again what they held; some take longer, and are not waited
for."""

MAX_SETTLE_SECONDS: Final = 1.0
"""How long a start waits for workers that do not come."""

_STEP_SECONDS: Final = 0.02


class SpoolTurns:
    """Reads the spool when its turn is. Not safe for concurrent calls.

    Args:
        spool: what is read.
        arrivals: holds calls, and records them.
        has_room: the store keeps up.
        read_spool: feeds a block of the spool; false where there was none.
        read_workers: feeds what workers have sent; false where there was nothing.
    """

    def __init__(
        self,
        spool: SpoolReader,
        arrivals: Arrivals,
        *,
        has_room: Callable[[], bool],
        read_spool: Callable[[], bool],
        read_workers: Callable[[], bool],
    ) -> None:
        self._spool = spool
        self._arrivals = arrivals
        self._has_room = has_room
        self._read_spool = read_spool
        self._read_workers = read_workers
        self._awaited: set[str] = set()  # workers, by token
        self._reads = False  # there was a block, and there may be another
        self._is_behind = False
        self._has_given_up = False  # until the spool is read
        self._reads_from = self._until = self._next_look = 0.0

    def begin(self, living: Iterable[str]) -> None:
        """Begin after a start: the workers with these tokens may come back (rule 4)."""
        self._awaited.update(living)
        self._spool.look()
        if self._awaited:
            self._fall_behind(MAX_SETTLE_SECONDS)
        elif not self._spool.is_empty:
            self._fall_behind(SETTLE_SECONDS)

    def greet(self, token: str) -> None:
        """Note that a worker has come."""
        if token in self._awaited:
            self._awaited.remove(token)
            if not self._awaited:
                self._reads_from = min(self._reads_from, time.monotonic() + SETTLE_SECONDS)

    def wait_seconds(self) -> float | None:
        """Say how long to wait for workers; ``None`` where it does not matter here."""
        if self._is_behind:
            reads = time.monotonic() >= self._reads_from and self._has_room()
            return 0.0 if reads else _STEP_SECONDS
        return 0.0 if self._reads else None

    def take(self, *, is_ready: bool, is_drained: bool) -> None:
        """Take a turn, behind that of the workers, whose calls are held meanwhile.

        Args:
            is_ready: one of them had sent something.
            is_drained: all that they had sent is read.
        """
        self._reads = False
        if self._is_behind:
            self._catch_up(is_drained=is_drained)
        elif not is_ready:
            self._read_beside()
        elif time.monotonic() < self._next_look or not self._must_wait():
            self._arrivals.release()

    def end(self) -> None:
        """Let go of what is held."""
        self._is_behind = False
        self._arrivals.release()

    def _read_beside(self) -> None:
        """Read while workers rest (rule 1): what is little at once, in its order."""
        if not self._has_room():
            return
        if self._has_given_up:
            self._reads = self._read_spool()
            self._has_given_up = self._reads
        elif self._is_far():
            self._fall_behind()
        elif not self._spool.is_empty:  # also where all is read: a segment ends with a further read
            self._arrivals.hold()
            self._read_little()
            self._arrivals.release()

    def _read_little(self) -> None:
        """Read what was there at the last look; a worker may write as quickly as it is read."""
        while self._has_room() and self._read_spool() and self._spool.unread_bytes:
            pass

    def _must_wait(self) -> bool:
        """Read what little there is in the spool (rule 2); true where more is to be waited for.

        What changed over to the spool may have begun to be sent before.
        """
        self._next_look = time.monotonic() + LOOK_SECONDS
        turns = 0
        while turns < MAX_TURNS and self._read_workers():
            turns += 1
        self._spool.look()
        if not self._spool.unread_bytes:
            self._has_given_up = False
            return False
        if self._has_given_up:
            return False
        if turns == MAX_TURNS or self._is_far() or not self._has_room():
            self._fall_behind()
            return True
        self._read_little()
        return False

    def _is_far(self) -> bool:
        return self._spool.unread_bytes > LITTLE_BYTES

    def _fall_behind(self, wait_seconds: float = 0.0) -> None:
        """Hold what comes until the spool is read, from so many seconds on."""
        self._is_behind = True
        self._reads_from = time.monotonic() + wait_seconds
        self._until = self._reads_from + MAX_BEHIND_SECONDS
        self._arrivals.hold()

    def _catch_up(self, *, is_drained: bool) -> None:
        """Read a block, once all that workers have sent is read.

        They come first here, too: what changed over to the spool is forgotten there.
        """
        now, is_read = time.monotonic(), False
        if now >= self._reads_from and is_drained:
            if self._has_room():
                is_read = not self._read_spool()
            elif self._spool.unread_bytes:
                self._until = now + MAX_BEHIND_SECONDS
            else:
                is_read = True
        if is_read or now >= self._until:
            self._has_given_up = not is_read
            self.end()
