"""Whether something waits in a socket that nobody has read yet."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Iterable

__all__ = ("any_readable", "has_unread")


def any_readable(sockets: Iterable[socket.socket]) -> bool:
    """Whether bytes, an end, or (of a listener) a connection wait in one of `sockets`, all open."""
    poll = select.poll()
    for sock in sockets:
        poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def has_unread(transport: asyncio.BaseTransport | None) -> bool:
    """Whether bytes or an end wait in a connection's socket; also true where it is closed."""
    if transport is None or transport.is_closing():  # asyncio's, of TLS: it may know no socket then
        return True
    sock = transport.get_extra_info("socket")
    if sock is None or (descriptor := sock.fileno()) < 0:
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
