"""Sockets of connections: options, ways to close them, and how many bytes wait in them."""

from __future__ import annotations

import contextlib
import fcntl
import select
import socket
import struct
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_SO_NWRITE = 0x1024
"""macOS's option for how much waits in a socket's send buffer. Python has no name for it."""


def set_up(transport: asyncio.Transport) -> None:
    """Send each write at once, and let the system probe a silent peer.

    asyncio does the first only for sockets that name TCP as their protocol. The sockets that our
    listeners accept do not name it.
    """
    sock = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):  # for example, the connection was just reset
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def half_close(transport: asyncio.Transport) -> None:
    """Close our side after what is written. TLS cannot do that: there the client closes first."""
    if transport.can_write_eof():
        # If the client has just reset the connection, asyncio will notice next.
        with contextlib.suppress(OSError):
            transport.write_eof()


def reset(transport: asyncio.Transport) -> None:
    """End a connection with RST, which no client takes for a clean end.

    A connection that is closing is still open as long as it has bytes to write.
    """
    if not transport.is_closing() or count_buffered(transport):
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


def has_unread(transport: asyncio.BaseTransport) -> bool:
    """Tell whether bytes or an end wait in a connection's socket; true too if it is closed."""
    if transport.is_closing():  # asyncio's transport for TLS may have no socket then
        return True
    sock = transport.get_extra_info("socket")
    if sock is None or (descriptor := sock.fileno()) < 0:
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def count_buffered(transport: asyncio.Transport) -> int:
    """Count the bytes that wait in the transport."""
    try:
        return transport.get_write_buffer_size()
    except AttributeError:  # asyncio's transport for TLS has no protocol after a second close
        return 0


def count_unacknowledged(transport: asyncio.Transport) -> int:
    """Count the bytes that wait here, and those in the kernel's send queue if that is known."""
    sock = transport.get_extra_info("socket")
    if sock.fileno() < 0:  # it is closed, and sends no more
        return 0
    return count_buffered(transport) + _count_sent(sock)


def _count_sent(sock: socket.socket) -> int:
    """Count the bytes in the kernel's send queue: by SIOCOUTQ (tcp(7)), else by an option."""
    try:
        answer = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
    except OSError:
        with contextlib.suppress(OSError):
            return sock.getsockopt(socket.SOL_SOCKET, _SO_NWRITE)
        return 0
    return int(struct.unpack("i", answer)[0])
