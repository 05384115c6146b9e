"""Listening sockets, bound before anything is served on them, so that "port taken" is said once."""

from __future__ import annotations

import errno
import socket

from proxy.configuration_error import ConfigurationError

__all__ = ("ACCEPTED_AT_ONCE", "LISTEN_BACKLOG", "listen")

LISTEN_BACKLOG = 2048
"""Connections that may wait to be accepted: a burst of reconnecting streams after a restart."""

ACCEPTED_AT_ONCE = 64
"""Connections that asyncio accepts in one turn of the loop, where it has the port for itself.
Without descriptors left it fails so often in one turn, too. Of several workers each takes one at a
time: whoever is first would take all that wait, and the others have nothing to do."""


def listen(what: str, host: str, port: int) -> socket.socket:
    """Bind and listen.

    Args:
        what: which port this is, for the message.
        host: name or address of ours.
        port: 0 for any free one.

    Raises:
        ConfigurationError: the port is taken, or the address is not ours.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigurationError(f"cannot resolve the {what} host {host!r}: {error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(LISTEN_BACKLOG)
    except OSError as error:
        sock.close()
        reason = error.strerror or str(error)
        hint = "; another program listens there" if error.errno == errno.EADDRINUSE else ""
        message = f"cannot listen on {host}:{port} ({what} port): {reason}{hint}"
        raise ConfigurationError(message) from error
    sock.setblocking(False)  # noqa: FBT003 - its only parameter
    return sock
