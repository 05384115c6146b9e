"""Notices a peer that takes nothing of what is written to it.

Rules:

1. What counts is what the peer's system acknowledges: bytes that wait here or in the kernel's
   send queue. A peer that reads slowly, but reads, is never taken for one that does not, as far
   as TCP tells: it tells of new room in steps, not byte by byte (RFC 9293 section 3.8.6.2.2),
   of a few KiB over a network, of up to 128 KiB seen on Linux's loopback.
2. Nothing is watched while nothing waits here: what the kernel holds costs us nothing.
3. One timer at most, which looks a few times in the limit; a stall lasts the limit or up to a
   quarter more before it is told. Whoever writes waits while the buffer is full, so that what
   waits then only becomes less.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("StallWatch", "count_buffered", "count_unacknowledged")

_SO_NWRITE = 0x1024
"""Of macOS: how much waits in a socket's send buffer. Python has no name for it."""

LOOKS_IN_LIMIT = 4
"""How often it is looked in the time after which a peer is given up."""


def count_buffered(transport: asyncio.Transport) -> int:
    """Bytes that wait in the transport."""
    try:
        return transport.get_write_buffer_size()
    except AttributeError:  # asyncio's, of TLS: closed twice, it has forgotten its protocol
        return 0


def count_unacknowledged(transport: asyncio.Transport) -> int:
    """Bytes that wait here or in the kernel's send queue, as far as the system tells."""
    sock = transport.get_extra_info("socket")
    if sock.fileno() < 0:  # closed: nothing is sent any more
        return 0
    return count_buffered(transport) + _count_sent(sock)


def _count_sent(sock: socket.socket) -> int:
    """Bytes in the kernel's send queue: SIOCOUTQ of tcp(7), where there is none by an option."""
    try:
        answer = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
    except OSError:
        with contextlib.suppress(OSError):
            return sock.getsockopt(socket.SOL_SOCKET, _SO_NWRITE)
        return 0
    return int(struct.unpack("i", answer)[0])


class StallWatch:
    """Watches over one connection's writing.

    Args:
        limit_seconds: how long a peer may take nothing; 0 means for ever.
        on_stall: called once when it has taken nothing for so long.
    """

    __slots__ = ("_limit_seconds", "_on_stall", "_since", "_timer", "_waiting")

    def __init__(self, limit_seconds: float, on_stall: Callable[[], None]) -> None:
        self._limit_seconds = limit_seconds
        self._on_stall = on_stall
        self._since = 0.0
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        """Watch until nothing waits in the transport's buffer; does nothing if that is done."""
        if self._limit_seconds and self._timer is None:
            self._note(count_unacknowledged(transport))
            self._look_later(transport)

    def stop(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _note(self, waiting: int) -> None:
        self._waiting = waiting
        self._since = asyncio.get_running_loop().time()

    def _look_later(self, transport: asyncio.Transport) -> None:
        delay = self._limit_seconds / LOOKS_IN_LIMIT
        self._timer = asyncio.get_running_loop().call_later(delay, self._look, transport)

    def _look(self, transport: asyncio.Transport) -> None:
        self._timer = None
        if not count_buffered(transport):
            return
        waiting = count_unacknowledged(transport)
        if waiting != self._waiting:
            self._note(waiting)
        elif asyncio.get_running_loop().time() - self._since >= self._limit_seconds:
            self._on_stall()
            return
        self._look_later(transport)
