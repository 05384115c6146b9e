"""The page's port: watched here, and served by a process that runs only while somebody looks.

Until somebody connects, there is no process, and nothing of the page is loaded. A connection starts
the process, which inherits the listener and accepts the connection. The process ends by itself when
nobody watches (:mod:`proxy.page.process`); then the port is watched again.

The end of the process affects nothing else. It gets no secret that it does not need: neither the
key that encrypts credentials, nor variables that hold keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import sys
from typing import TYPE_CHECKING, Final

from proxy.processes.child import describe_status
from proxy.processes.messages import MessageReader, Ready, encode_message
from proxy.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.processes.messages import Start

_log = logging.getLogger("spantap.supervisor")

FIRST_WAIT_SECONDS = 0.25
"""The wait before the port is watched again, if a process has ended at once. Each further wait is
twice as long."""

MAX_WAIT_SECONDS = 15.0
"""The longest wait, because what made the process end may have been repaired."""

STEADY_SECONDS = 1.0
"""If a process lived this long after it was ready, it did not end because of its start."""

END_SECONDS = 2.0
"""How long it may take to end; it has nothing to save."""

_READ_BYTES = 4096

_SECRET: Final = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL|HEADERS", re.IGNORECASE)
"""Names of variables that are not handed down, because they may hold a secret."""


class PagePort:
    """The port, from its binding to :meth:`end`.

    Args:
        listener: a listening socket that does not block.
        start: the first message to the process.

    Attributes:
        is_ready: there is a process, and it serves the page.
        restarts: how many processes ended unasked; the next connection starts another.
    """

    def __init__(self, listener: socket.socket, start: Start) -> None:
        self._listener = listener
        self._start = start
        self._process: asyncio.subprocess.Process | None = None
        self._channel: socket.socket | None = None
        self._failures = 0
        self.is_ready = False
        self.restarts = 0
        self._running: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the present process."""
        return self._process.pid if self._process is not None else None

    def begin(self) -> None:
        """Watch the port from now on."""
        self._running = spawn(self._run(), name="page port")

    async def end(self) -> None:
        """End the process, and stop watching the port."""
        if self._running is None:
            return
        self._running.cancel()
        await asyncio.wait({self._running})
        await self._end_process()

    async def _run(self) -> None:
        while True:
            await self._wait_for_connection()
            try:
                await self._live()
            except OSError as error:
                _log.error("the page process cannot be started: %s", error)
                self._failures += 1
            if self._failures:
                self._turn_away()
                await asyncio.sleep(self._wait_seconds())

    async def _wait_for_connection(self) -> None:
        loop, connected = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._listener, connected.set)
        try:
            await connected.wait()
        finally:
            loop.remove_reader(self._listener)

    async def _live(self) -> None:
        """Run one process to its end; log it if the process ended unasked.

        Raises:
            OSError: it cannot be started.
        """
        process = await self._spawn()
        loop = asyncio.get_running_loop()
        since = await self._hear()
        status = await process.wait()
        self._process = None
        self.is_ready = False
        is_steady = since is not None and loop.time() - since >= STEADY_SECONDS
        if status == 0 and since is not None:
            self._failures = 0
            return
        self._failures = 0 if is_steady else self._failures + 1
        self.restarts += 1
        _log.warning(
            "the page process %s %s; the next connection starts it again",
            process.pid,
            describe_status(status),
        )

    async def _spawn(self) -> asyncio.subprocess.Process:
        ours, theirs = socket.socketpair()
        descriptors = [theirs.fileno(), self._listener.fileno()]
        with theirs:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",  # a folder `proxy` in the working directory must not be imported
                    "-m",
                    "proxy.page.process",
                    *map(str, descriptors),
                    pass_fds=descriptors,
                    stdin=asyncio.subprocess.DEVNULL,
                    start_new_session=True,  # a terminal's Ctrl-C is only for the supervisor
                    env=without_secrets(os.environ),
                )
            except BaseException:
                ours.close()
                raise
        self._channel = ours
        return self._process

    async def _hear(self) -> float | None:
        """Start the process's work, and read its messages to its end; return when it was ready."""
        channel = self._channel
        if channel is None:
            raise AssertionError("it was started")
        reader, writer = await asyncio.open_unix_connection(sock=channel)
        messages, since = MessageReader(), None
        try:
            writer.write(encode_message(self._start))
            while data := await reader.read(_READ_BYTES):
                for message in messages.feed(data):
                    if isinstance(message, Ready):
                        since = asyncio.get_running_loop().time()
                        self.is_ready = True
        except (OSError, ValueError) as error:
            _log.debug("the page process sent something else: %s", type(error).__name__)
        finally:
            writer.transport.abort()  # without the channel the process ends
            self._channel = None
        return since

    def _turn_away(self) -> None:
        """Close the waiting connections, because the process cannot start."""
        with contextlib.suppress(OSError):
            while True:
                self._listener.accept()[0].close()

    def _wait_seconds(self) -> float:
        return min(FIRST_WAIT_SECONDS * 2.0 ** min(self._failures - 1, 16), MAX_WAIT_SECONDS)

    async def _end_process(self) -> None:
        """Wait for the process, whose channel is closed; kill it if it does not end."""
        process = self._process
        if process is None:
            return
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        self.is_ready = False


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those that may hold a secret."""
    return {name: text for name, text in environ.items() if not _SECRET.search(name)}
