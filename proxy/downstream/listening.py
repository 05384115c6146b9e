"""Listening sockets. They are bound before anything is served, so that "port taken" is said once.

A port that is taken, or an address that is not ours, raises a ``ConfigurationError``.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import TYPE_CHECKING

from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

LISTEN_BACKLOG = 2048
"""Connections that may wait to be accepted: a burst of reconnecting streams after a restart."""

ACCEPTED_AT_ONCE = 64
"""Connections that asyncio accepts in one turn of the loop, if only one worker has the port. If no
descriptors are left, that many accepts fail in one turn. If there are several workers, each accepts
one at a time; otherwise the first would get all that wait, and the others nothing."""

_OTHER_PORT = {
    "traffic": "--port or SPANTAP_PORT",
    "admin": "--admin-port or SPANTAP_ADMIN_PORT",
    "page": "--page-port or SPANTAP_PAGE_PORT",
    "demo upstream": "--port",
    "interception": "--intercept-port or SPANTAP_INTERCEPT_PORT",
}
"""The flag and the variable that set another number for each of our ports."""


class PortTaken(ConfigurationError):  # noqa: N818 - names the condition, as others do
    """Another program has a port.

    Attributes:
        fact: which port cannot be had, and why; not which process has it, nor what to do.
    """

    def __init__(self, fact: str, advice: str) -> None:
        super().__init__(f"{fact}; {advice}")
        self.fact = fact


def name_other_port(what: str) -> str:
    """Say what to do if the port of that name cannot be used."""
    return f"name another port with {_OTHER_PORT[what]}"


def bind(what: str, host: str, port: int) -> socket.socket:
    """Bind without listening; `what` names the port in the message."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigurationError(f"cannot resolve the {what} host {host!r}: {error}") from error
    with _explained(sock, what, host, port):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    return sock


def listen(what: str, host: str, port: int) -> socket.socket:
    """Bind and listen; see :func:`bind`."""
    sock = bind(what, host, port)
    with _explained(sock, what, host, port):
        sock.listen(LISTEN_BACKLOG)
    sock.setblocking(False)  # noqa: FBT003 - its only parameter
    return sock


@contextlib.contextmanager
def _explained(sock: socket.socket, what: str, host: str, port: int) -> Iterator[None]:
    """If the block fails, close the socket and say what that means."""
    try:
        yield
    except OSError as error:
        sock.close()
        fact = f"cannot listen on {host}:{port} ({what} port): {error.strerror or error}"
        if error.errno == errno.EADDRINUSE:
            advice = f"another program listens there: {name_other_port(what)}"
            raise PortTaken(fact, advice) from error
        raise ConfigurationError(fact) from error
