"""A child's end of the control channel: the socket that the supervisor has given it.

End of file on it means that the supervisor is gone, for whatever reason.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

from proxy.processes.messages import MessageReader, Start, encode_message
from proxy.signal_numbers import SHUTDOWN_SIGNALS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.processes.messages import Message

_log = logging.getLogger("spantap")

COUNTERS_SECONDS = 1.0
"""The time between two reports of a child's numbers: those on the admin port are at most this
old."""

FAILED_TO_START = 2
"""Exit status of a child that cannot follow its settings and has said why."""

CLOSE_SECONDS = 2.0
"""How long the end waits for a supervisor that does not read."""

READ_BYTES = 64 * 1024


class Control:
    """The blocking channel: one thread reads, others write."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.reader = MessageReader()
        self._messages = self._read()
        self._sending = threading.Lock()

    def receive(self) -> Message | None:
        """Wait for a message; ``None`` once the supervisor is gone."""
        return next(self._messages, None)

    def send(self, message: Message) -> None:
        """Send a message, unless the supervisor is gone; any thread may call this."""
        try:
            with self._sending:
                self.sock.sendall(encode_message(message))
        except OSError:
            _log.debug("the supervisor is gone")

    def close(self) -> None:
        """End our side, and wait for the other side to end.

        If a socket is closed while something is unread, the connection is reset, and what was sent
        last is lost.
        """
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
            self.sock.settimeout(CLOSE_SECONDS)
            while self.sock.recv(READ_BYTES):
                pass

    def _read(self) -> Iterator[Message]:
        while data := self._read_some():
            yield from self.reader.feed(data)

    def _read_some(self) -> bytes:
        try:
            return self.sock.recv(READ_BYTES)
        except OSError:
            return b""


def begin_child() -> tuple[Control, Start, list[int]]:
    """Find the channel of this child, and read its first message.

    Returns:
        The channel, the first message, and the other inherited descriptors.

    Raises:
        SystemExit: the supervisor was gone before it sent the message.
    """
    # Only the supervisor ends a child. A terminal's Ctrl-C or end, or a service manager's SIGTERM,
    # reaches all processes of the group at once, and would cut calls that should be drained.
    for number in SHUTDOWN_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    descriptors = [int(argument) for argument in sys.argv[1:]]
    control = Control(socket.socket(fileno=descriptors[0]))
    start = control.receive()
    if not isinstance(start, Start):
        sys.exit(FAILED_TO_START)
    return control, start, descriptors[1:]
