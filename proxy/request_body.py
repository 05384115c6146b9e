"""The body of a client's request, as the relay reads it, and how much memory all bodies hold.

Whoever reads a body gets the same error for the client's mistakes: a
:class:`proxy.errors.GatewayError` with 400 for broken framing, with 408 for silence.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from codec.text.blocks import Blocks
from codec.text.scan import MAX_WHOLE_BYTES
from proxy.clock import SystemClock
from proxy.errors import broken_request_body, late_request_body
from proxy.logging.logs import limit_lines, log_limited

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("spantap.exchange")

READ_AHEAD_BYTES = 32 * 1024
"""How much of a body may wait to be read, apart from one more read; then the client waits."""

READ_AHEAD_PIECES = 1024
"""How many pieces of a body may wait: a piece of one byte takes as much memory as fifty bytes."""

BLOCK_BYTES = 16 * 1024
"""A read of this size is kept as it is; smaller ones are joined until they reach it."""


class RequestBody:
    """One request's body: fed as it comes, and read by one reader at a time.

    Args:
        idle_seconds: the longest wait between two reads; 0 means no limit. Bytes of the framing,
            such as endless extensions of a chunk, do not shorten the wait.
        on_room: called when a body that was full has been read.

    Attributes:
        is_whole: all of the body has come.
    """

    __slots__ = (
        "_broken",
        "_idle_seconds",
        "_on_room",
        "_reads",
        "_size",
        "_waiter",
        "_watcher",
        "is_whole",
    )

    def __init__(self, *, idle_seconds: float, on_room: Callable[[], None]) -> None:
        self._idle_seconds = idle_seconds or None
        self._on_room = on_room
        self._reads: list[bytes] = []
        self._size = 0
        self._broken = ""
        self._waiter: asyncio.Future[None] | None = None
        self._watcher: Callable[[bytes], None] | None = None
        self.is_whole = False

    def watch(self, watcher: Callable[[bytes], None]) -> None:
        """Call a watcher, which never raises, with everything that the reader gets."""
        self._watcher = watcher

    @property
    def is_full(self) -> bool:
        """Whether enough waits to be read for now."""
        return self._size > READ_AHEAD_BYTES or len(self._reads) > READ_AHEAD_PIECES

    def feed(self, data: bytes) -> None:
        """Add bytes that came."""
        self._reads.append(data)
        self._size += len(data)
        self._wake()

    def end(self) -> None:
        """Note that all of the body has come."""
        self.is_whole = True
        self._wake()

    def fail(self, reason: str) -> None:
        """Note that the body broke off: the next read raises, even if more had come before."""
        self._broken = reason
        self.is_whole = False
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def at_eof(self) -> bool:
        """Tell whether all of the body was read."""
        return self.is_whole and not self._reads

    def pop(self) -> bytes:
        """Return the rest if all of it has come, else nothing."""
        return self._join_reads() if self.is_whole else b""

    async def read(self) -> bytes:
        """Return the bytes that are there, or wait for some; empty at the end.

        Raises:
            GatewayError: the body broke off, for example because the client left; its framing is
                broken; or no more came in time.
        """
        if not (self._reads or self.is_whole or self._broken):
            try:
                async with asyncio.timeout(self._idle_seconds):
                    self._waiter = asyncio.get_running_loop().create_future()
                    await self._waiter
            except TimeoutError as error:
                raise late_request_body() from error
            finally:
                self._waiter = None
        if self._broken:
            raise broken_request_body(self._broken)
        return self._join_reads()

    def _join_reads(self) -> bytes:
        reads, was_full = self._reads, self.is_full
        data = reads[0] if len(reads) == 1 else b"".join(reads)
        self._reads = []
        self._size = 0
        if was_full:
            self._on_room()
        if self._watcher is not None:
            self._watcher(data)
        return data


class GatheredBody:
    """A body that comes in many reads.

    Only a short one becomes one object. Copying 20 MB would keep all others waiting for 17 ms, and
    freeing them for 4 ms, so a long body stays in blocks.
    """

    __slots__ = ("_blocks", "_last", "_size_bytes")

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._last = bytearray()  # joins small reads: not an object for each read of a slow client
        self._size_bytes = 0

    def __len__(self) -> int:
        return self._size_bytes

    def feed(self, data: bytes) -> None:
        """Add a read."""
        self._size_bytes += len(data)
        is_block = len(data) >= BLOCK_BYTES
        if not is_block:
            self._last += data
        if self._last and (is_block or len(self._last) >= BLOCK_BYTES):
            self._blocks.append(bytes(self._last))
            self._last.clear()
        if is_block:
            self._blocks.append(data)

    def pop(self) -> bytes | Blocks:
        """Return the whole body, once."""
        if self._last:
            self._blocks.append(bytes(self._last))
        is_long = self._size_bytes > MAX_WHOLE_BYTES
        return Blocks(self._blocks) if is_long else b"".join(self._blocks)


class BodyBudget:
    """The memory that all calls of a worker together may hold for their requests' bodies.

    A byte counts from its read until no call holds it. A limit for each call would let a few
    clients use all memory. Without room nothing waits or fails; less is done with the body.

    Args:
        max_bytes: the limit for all calls together. Each call that found no room may still hold
            one more read.

    Attributes:
        held_bytes: how much all calls hold now.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._full_lines = limit_lines(SystemClock())
        self.held_bytes = 0

    def reserve(self, size_bytes: int) -> bool:
        """Count more bytes as held; false if there is no room for them."""
        if self.held_bytes + size_bytes <= self._max_bytes:
            self.held_bytes += size_bytes
            return True
        text = (
            "relayed a request as it is: the bodies of open calls take "
            f"{self.held_bytes} bytes (max_bodies_bytes)"
        )
        log_limited(_log, self._full_lines, text)
        return False


class BodyShare:
    """One call's part of a :class:`BodyBudget`."""

    __slots__ = ("_budget", "_held_bytes")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._held_bytes = 0

    def reserve(self, size_bytes: int) -> bool:
        """Count more bytes as held by this call; false if there is no room for them."""
        is_reserved = self._budget.reserve(size_bytes)
        if is_reserved:
            self._held_bytes += size_bytes
        return is_reserved

    def give_back(self) -> None:
        """Give back everything that this call holds."""
        self._budget.held_bytes -= self._held_bytes
        self._held_bytes = 0
