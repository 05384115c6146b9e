"""The body of a client's request, as the relay reads it, and what bodies may take in all.

Rules:

1. What goes wrong with a body is the client's doing, and told in one form wherever it is read: a
   :class:`proxy.errors.GatewayError` of 400 for broken framing, of 408 for silence.
2. What the calls of a worker hold of bodies is counted together, from the read of a byte until no
   call holds it: a limit for each would let a few clients take all the memory there is. Where
   there is no room nothing waits and nothing fails; less is done with the body.
3. A body that comes in many reads becomes one object only where it is short: to copy 20 MB would
   keep all others waiting for 17 ms, and to free them for 4 ms. It stays in blocks to its end.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from aiohttp.web_protocol import RequestPayloadError

from codec.blocks import Blocks
from codec.scan import MAX_WHOLE_BYTES
from proxy.clock import SystemClock
from proxy.errors import broken_request_body, late_request_body
from proxy.logging.logs import limit_lines, log_limited

if TYPE_CHECKING:
    from aiohttp.streams import StreamReader

__all__ = ("BodyBudget", "BodyShare", "GatheredBody", "RequestBody")

_log = logging.getLogger("spantap.exchange")

BLOCK_BYTES = 16 * 1024
"""A read of so much is kept as it is; smaller ones are joined until they are so large together."""


class RequestBody:
    """Reads one request's body.

    Args:
        reader: aiohttp's reader of it.
        idle_seconds: the longest wait between two reads; 0 means none. Bytes that frame the body
            and are none of it, such as endless extensions of a chunk, do not shorten the wait.
    """

    __slots__ = ("_idle_seconds", "_reader")

    def __init__(self, reader: StreamReader, *, idle_seconds: float) -> None:
        self._reader = reader
        self._idle_seconds = idle_seconds or None

    def at_eof(self) -> bool:
        """Whether all of it was read."""
        return self._reader.at_eof()

    def take(self) -> bytes:
        """What :meth:`readany` would give, where the whole rest has come; else nothing."""
        reader = self._reader
        return reader.read_nowait() if reader.is_eof() and reader.exception() is None else b""

    async def readany(self) -> bytes:
        """The bytes that are there, or wait for some; empty at the end.

        Raises:
            GatewayError: it broke off, as by a client that left, its framing does not fit, or it
                did not go on in time.
        """
        reader = self._reader
        try:
            if reader.is_eof():  # all of it has come: nothing to wait for
                return await reader.readany()
            async with asyncio.timeout(self._idle_seconds):
                return await reader.readany()
        except (RequestPayloadError, ConnectionError) as error:
            raise broken_request_body(error) from error
        except TimeoutError as error:
            raise late_request_body() from error


class GatheredBody:
    """A body that comes in many reads (rule 3)."""

    __slots__ = ("_blocks", "_last", "_size_bytes")

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._last = bytearray()  # of small reads: a client that trickles costs no object for each
        self._size_bytes = 0

    def __len__(self) -> int:
        """Bytes so far."""
        return self._size_bytes

    def add(self, data: bytes) -> None:
        """Take a read."""
        self._size_bytes += len(data)
        if len(data) < BLOCK_BYTES:
            self._last += data
        if self._last and (len(data) >= BLOCK_BYTES or len(self._last) >= BLOCK_BYTES):
            self._blocks.append(bytes(self._last))
            self._last.clear()
        if len(data) >= BLOCK_BYTES:
            self._blocks.append(data)

    def take(self) -> bytes | Blocks:
        """All of it, once."""
        if self._last:
            self._blocks.append(bytes(self._last))
        return (
            Blocks(self._blocks) if self._size_bytes > MAX_WHOLE_BYTES else b"".join(self._blocks)
        )


class BodyBudget:
    """What all calls of a worker together may hold of their requests' bodies (rule 2).

    Args:
        max_bytes: so much, beside one read of each call that found no room.

    Attributes:
        held_bytes: what they hold now.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._full_lines = limit_lines(SystemClock())
        self.held_bytes = 0

    def take(self, size_bytes: int) -> bool:
        """Count so many bytes more, where there is room for them."""
        if self.held_bytes + size_bytes <= self._max_bytes:
            self.held_bytes += size_bytes
            return True
        held = f"the bodies of open calls take {self.held_bytes} bytes (max_bodies_bytes)"
        log_limited(_log, self._full_lines, f"relayed a request as it is: {held}")
        return False


class BodyShare:
    """One call's part of a :class:`BodyBudget`."""

    __slots__ = ("_budget", "_held_bytes")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._held_bytes = 0

    def take(self, size_bytes: int) -> bool:
        """Count so many bytes more as held by this call; false where there is no room for them."""
        if not self._budget.take(size_bytes):
            return False
        self._held_bytes += size_bytes
        return True

    def give_back(self) -> None:
        """The call holds none of them any more."""
        self._budget.held_bytes -= self._held_bytes
        self._held_bytes = 0
