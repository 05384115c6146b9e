"""A child's end of the control channel for an event loop; see :mod:`proxy.processes.control`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import socket
from typing import TYPE_CHECKING

from proxy.processes.control import CLOSE_SECONDS, READ_BYTES
from proxy.processes.messages import encode_message

if TYPE_CHECKING:
    from proxy.processes.control import Control
    from proxy.processes.messages import Message

_log = logging.getLogger("spantap")


class AsyncControl:
    """The channel, for tasks of an event loop. Its socket does not block."""

    def __init__(self, control: Control) -> None:
        """Continue to read where `control` has stopped."""
        self._sock = control.sock
        self._reader = control.reader
        self._sending = asyncio.Lock()
        self._hang_up = select.poll()
        self._hang_up.register(self._sock, select.POLLHUP)

    def is_orphaned(self) -> bool:
        """Tell whether the supervisor is gone, even while its last messages are unread."""
        return bool(self._hang_up.poll(0))

    async def receive(self) -> list[Message]:
        """Wait for messages; the list is empty once the supervisor is gone."""
        loop = asyncio.get_running_loop()
        messages = list(self._reader.feed(b""))
        while not messages:
            try:
                data = await loop.sock_recv(self._sock, READ_BYTES)
            except OSError:
                return []
            if not data:
                return []
            messages.extend(self._reader.feed(data))
        return messages

    async def send(self, message: Message) -> None:
        """Send a message, unless the supervisor is gone."""
        async with self._sending:
            try:
                await asyncio.get_running_loop().sock_sendall(self._sock, encode_message(message))
            except OSError:
                _log.debug("the supervisor is gone")

    async def close(self) -> None:
        """Close the channel as :meth:`proxy.processes.control.Control.close` does."""
        with contextlib.suppress(OSError, TimeoutError):
            self._sock.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(CLOSE_SECONDS):
                while await self.receive():
                    pass
