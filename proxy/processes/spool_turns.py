"""Decides when the spool is read in addition to workers, and in which order calls are recorded.

A call that continues another one finds it only if that one was recorded before. Calls come from
several sockets, and from the spool, perhaps hours later.

Workers come first: a block of the spool is read while no worker has sent anything and the store has
room. If there is only a little in the spool, it is read after each turn of the workers, before
anything of that turn is recorded. The reason: a worker whose socket was full for a moment has
spooled a call or two, and a call that continues them may end next.

Reading takes time, in which one worker may send a call while another one's newer call is read. So a
call is recorded only after all workers, and the spool, were read once more.

If there is more in the spool, telemetry is behind. Then calls are held until the spool is read, and
recorded in the order in which they ended (:mod:`telemetry.observing.call_ordering`). They are held
for at most :data:`MAX_BEHIND_SECONDS`; while the store fails longer, because nothing can be stored
meanwhile. What is left in the spool is recorded when its turn comes.

After a start calls are held too, and we wait for living workers, because one of them may have the
earlier call: until :data:`SETTLE_SECONDS` after all have connected again, and for at most
:data:`MAX_SETTLE_SECONDS`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from telemetry.observing.call_ordering import CallOrdering
    from telemetry.observing.spool_reader import SpoolReader

LOOK_SECONDS: Final = 0.01
"""How often the spool is checked while workers send. The next call of an agent takes longer to
come, and a check takes 0.05 ms."""

MAX_TURNS: Final = 4
"""How many turns workers have before a check of the spool; a worker with more to send is busy."""

LITTLE_BYTES: Final = 1 << 20
"""How much is "a little" in the spool, compressed: some hundred calls, a tenth of a second."""

MAX_BEHIND_SECONDS: Final = 5.0
"""How long calls may wait for those in the spool. Meanwhile some thousands are read, as many as
hundreds of agents make in a minute. The newest calls appear in lists this much later."""

SETTLE_SECONDS: Final = 0.2
"""How long workers may take to send again what they held. We do not wait for slower ones."""

MAX_SETTLE_SECONDS: Final = 1.0
"""How long a start waits for workers that do not come."""

_STEP_SECONDS: Final = 0.02


class SpoolTurns:
    """Reads the spool when it is its turn. Not safe for concurrent calls.

    Args:
        spool: reads the spool.
        ordering: holds calls, and records them.
        has_room: says whether the store keeps up.
        read_spool: feeds a block of the spool; false if there was none.
        read_workers: feeds what workers have sent; false if there was nothing.
    """

    def __init__(
        self,
        spool: SpoolReader,
        ordering: CallOrdering,
        *,
        has_room: Callable[[], bool],
        read_spool: Callable[[], bool],
        read_workers: Callable[[], bool],
    ) -> None:
        self._spool = spool
        self._ordering = ordering
        self._has_room = has_room
        self._read_spool = read_spool
        self._read_workers = read_workers
        self._awaited: set[str] = set()  # workers, by token
        self._reads = False  # there was a block, and there may be another
        self._is_behind = False
        self._has_given_up = False  # until the spool is read, calls are no longer held
        self._reads_from = self._until = self._next_look = 0.0

    def begin(self, living: Iterable[str]) -> None:
        """Begin after a start: workers with these tokens may connect again."""
        self._awaited.update(living)
        self._spool.look()
        if self._awaited:
            self._fall_behind(MAX_SETTLE_SECONDS)
        elif not self._spool.is_empty:
            self._fall_behind(SETTLE_SECONDS)

    def greet(self, token: str) -> None:
        """Note that a worker has connected."""
        if token in self._awaited:
            self._awaited.remove(token)
            if not self._awaited:
                self._reads_from = min(self._reads_from, time.monotonic() + SETTLE_SECONDS)

    def wait_seconds(self) -> float | None:
        """Say how long to wait for workers; ``None`` if the spool does not limit that."""
        if self._is_behind:
            reads = time.monotonic() >= self._reads_from and self._has_room()
            return 0.0 if reads else _STEP_SECONDS
        return 0.0 if self._reads or self._ordering.holds_some else None

    def take(self, *, is_ready: bool, is_drained: bool) -> None:
        """Take a turn after that of the workers, whose calls are held meanwhile.

        Args:
            is_ready: a worker had sent something.
            is_drained: everything that workers had sent is read.
        """
        self._reads = False
        if self._is_behind:
            self._catch_up(is_drained=is_drained)
        elif self._ordering.holds_some or (is_ready and time.monotonic() >= self._next_look):
            self._record_or_wait()
        elif is_ready:
            self._ordering.release()
        else:
            self._read_beside()

    def end(self) -> None:
        """Record the calls that are held."""
        self._is_behind = False
        self._ordering.release()

    def _read_beside(self) -> None:
        """Read while workers rest; if there is only a little, all of it in order."""
        if not self._has_room():
            return
        if self._has_given_up:
            self._reads = self._read_spool()
            self._has_given_up = self._reads
        elif self._is_far():
            self._fall_behind()
        elif not self._spool.is_empty:  # also if all is read, because one more read ends a segment
            self._ordering.hold()
            self._read_little()
            self._ordering.is_holding = False  # what came is recorded with the next turn

    def _read_little(self) -> None:
        """Read only what was there at the last check, because a worker may write as fast.

        Other workers may have spooled the calls before those that are read here, so we check again.
        """
        while self._has_room() and self._read_spool() and self._spool.unread_bytes:
            pass
        self._next_look = 0.0

    def _record_or_wait(self) -> None:
        if not self._record_held():
            self._fall_behind()

    def _record_held(self) -> bool:
        """Read all sources once more, then record the calls that were held before.

        The call that one of these continues ended before it, so it had come to some source by then.
        Calls that come meanwhile are held until the next turn.

        Returns:
            False if not all of that can be read now; then nothing is recorded.
        """
        end_ns = self._ordering.find_last_end()
        if time.monotonic() < self._next_look:
            self._read_workers()
        elif not self._read_all():
            return False
        if end_ns is None:
            self._ordering.is_holding = False
        else:
            self._ordering.release(end_ns)
        return True

    def _read_all(self) -> bool:
        """Read what workers have sent, and the little that is in the spool; false if it is more.

        Workers are read first: they may have sent a part of an exchange before they spooled it.
        """
        self._next_look = time.monotonic() + LOOK_SECONDS
        turns = 0
        while turns < MAX_TURNS and self._read_workers():
            turns += 1
        self._spool.look()
        if not self._spool.unread_bytes:
            self._has_given_up = False
        elif not self._has_given_up:
            if turns == MAX_TURNS or self._is_far() or not self._has_room():
                return False
            self._ordering.hold()
            self._read_little()
            return not self._spool.unread_bytes
        return True

    def _is_far(self) -> bool:
        return self._spool.unread_bytes > LITTLE_BYTES

    def _fall_behind(self, wait_seconds: float = 0.0) -> None:
        """Hold calls until the spool is read; reading begins after so many seconds."""
        self._is_behind = True
        self._reads_from = time.monotonic() + wait_seconds
        self._until = self._reads_from + MAX_BEHIND_SECONDS
        self._ordering.hold()

    def _catch_up(self, *, is_drained: bool) -> None:
        """Read a block, once everything that workers have sent is read.

        Workers come first here too: what they sent of an exchange is forgotten when the same
        exchange is read from the spool.
        """
        now, is_read = time.monotonic(), False
        if now >= self._reads_from and is_drained:
            if self._has_room():
                is_read = not self._read_spool()
            elif self._spool.unread_bytes:
                self._until = now + MAX_BEHIND_SECONDS
            else:
                is_read = True
            self._next_look = 0.0
        if is_read and self._record_held():
            self._is_behind = False
        elif now >= self._until:
            self._has_given_up = True
            self.end()
