"""The proxy of a launch: the one that already has the store, or one that is started for it.

A store has one owner (:mod:`telemetry.store.lock`), and so one proxy. A second launch uses the
first one's proxy, or that of ``spantap serve``, so that all calls are in one place.

A proxy that is started for a launch has free ports on loopback, and runs as long as any launch is
connected to it (:mod:`proxy.processes.launches`): it notices the end of a launch by the connection,
however the launch ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING

from proxy.processes.launch_channel import (
    MAX_LINE_BYTES,
    START_SECONDS,
    Joined,
    Left,
    decode_line,
    encode_line,
    find_control_socket,
)
from proxy.processes.scratch import settings_file
from telemetry.errors import ConfigurationError, StoreError, StoreLocked
from telemetry.own_files import open_own
from telemetry.store.lock import find_holder

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.processes.intercept_orders import EndedPort
    from proxy.processes.launch_channel import Join, LaunchMessage

LOOK_SECONDS = 0.05
"""The time between two attempts to find it."""

END_SECONDS = 30.0
"""How long the end of a launch waits until its calls are stored and sent to a backend: as long as
the supervisor waits for its children. It rarely takes a second."""

MAX_LOG_BYTES = 1024 * 1024
"""A longer log, which thousands of launches have written, is emptied first."""

MAX_QUOTED_CHARACTERS = 2000
"""How much of a log is quoted if a start fails."""


_WARNING = re.compile(r"(?m)^.*\b(?:WARNING|ERROR|CRITICAL)\b")
"""A line of the log, in either of its forms, that somebody should read."""


class Membership:
    """A launch's connection to its proxy.

    Attributes:
        joined: where the proxy is.
        own: the proxy, if it was started for this launch.
        intercepted: what its interception did, once the launch has left.
        has_answered: the proxy was still there when the launch left.
    """

    def __init__(self, sock: socket.socket, joined: Joined, own: OwnProxy | None) -> None:
        self.joined = joined
        self.own = own
        self.intercepted: EndedPort | None = None
        self.has_answered = False
        self._sock = sock
        self._lines = sock.makefile("rb")

    def leave(self) -> bool:
        """End the launch; true if the proxy stays for others, and then nothing more is known.

        Otherwise return when all calls are stored.
        """
        with contextlib.suppress(OSError):
            self._sock.settimeout(END_SECONDS)
            self._sock.shutdown(socket.SHUT_WR)
            left = self._read()
            if isinstance(left, Left):
                self.has_answered = True
                self.intercepted = left.intercept
                if left.stays:
                    return True
            if left is not None:
                self._read()  # stored, or the end
        return False

    def wait_for_end(self) -> None:
        """Wait until the proxy has ended, because no other launch uses it."""
        with contextlib.suppress(OSError):
            while self._read() is not None:
                pass
        if self.own is not None:
            self.own.wait()

    def _read(self) -> LaunchMessage | None:
        return decode_line(self._lines.readline())


class OwnProxy:
    """A proxy that was started for this launch.

    It logs to ``<store>.log``, because standard error is the command's.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path, log_begin: int) -> None:
        self.log = log
        self._process = process
        self._log_begin = log_begin

    def wait(self) -> None:
        """Wait until the proxy has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)

    def count_warnings(self) -> int:
        """Count the lines of its log that somebody should read."""
        return len(_WARNING.findall(self.read_log()))

    def read_log(self) -> str:
        """Read what it has logged."""
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            file.seek(self._log_begin)
            return file.read(MAX_LOG_BYTES).decode("utf-8", "replace")
        return ""


def join_proxy(store: Path, handed: bytes, asked: Join) -> Membership:
    """Join the store's proxy, or start one.

    Args:
        store: its path.
        handed: all settings as JSON, for a proxy that we start.
        asked: what the launch wants of it.

    Raises:
        ConfigurationError: a proxy cannot be started, none answers and the store is held, or the
            launch wants more than fits into a message.
    """
    if (size := len(encode_line(asked))) > MAX_LINE_BYTES:
        raise ConfigurationError(
            f"the base URLs and hosts of this launch take {size:,} bytes, and at most "
            f"{MAX_LINE_BYTES:,} can be sent to a proxy: name fewer"
        )
    deadline = time.monotonic() + START_SECONDS
    while True:
        if (found := find_proxy(store, asked)) is not None:
            return found
        holder = _find_holder(store)
        if holder is None:
            started = _start(store, handed, asked)
            if isinstance(started, Membership):
                return started
            if StoreLocked.WORDS not in started or time.monotonic() > deadline:
                raise ConfigurationError(started)
        elif time.monotonic() > deadline:
            raise ConfigurationError(
                f"the store {store} is held by process {holder}, which accepts no launches: end "
                "it, or name another store with --store"
            )
        time.sleep(LOOK_SECONDS)


def _find_holder(store: Path) -> str | None:
    """Find the process that holds the store.

    Raises:
        ConfigurationError: that cannot be found out.
    """
    try:
        return find_holder(store)
    except StoreError as error:
        raise ConfigurationError(str(error)) from error


def find_proxy(store: Path, asked: Join) -> Membership | None:
    """Join the proxy that has the store; ``None`` if there is none, or it is just ending."""
    if (control_socket := find_control_socket(store)) is None:
        return None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(OSError):
        sock.settimeout(START_SECONDS)
        sock.connect(control_socket)
        if (joined := _ask(sock, asked)) is not None:
            return Membership(sock, joined, None)
    sock.close()
    return None


def _start(store: Path, handed: bytes, asked: Join) -> Membership | str:
    """Start a proxy; return why it failed if it did.

    Raises:
        ConfigurationError: there is no place for its files.
    """
    ours, theirs = socket.socketpair()
    log, begin = _open_log(store)
    with theirs, log, settings_file(store, handed) as file:
        process = subprocess.Popen(  # noqa: S603 - a program of ours
            [
                *(sys.executable, "-P", "-m", "proxy.processes.supervisor"),
                *(str(file.fileno()), str(theirs.fileno())),
            ],
            pass_fds=(file.fileno(), theirs.fileno()),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # a terminal's Ctrl-C is the command's
        )
    own = OwnProxy(process, log_path(store), begin)
    with contextlib.suppress(OSError):
        ours.settimeout(START_SECONDS)
        if (joined := _ask(ours, asked)) is not None:
            return Membership(ours, joined, own)
    ours.close()
    own.wait()
    return f"the proxy cannot be started: {own.read_log()[-MAX_QUOTED_CHARACTERS:].strip()}"


def _ask(sock: socket.socket, asked: Join) -> Joined | None:
    """Send what we want, and read where the proxy is; ``None`` if it takes no launches."""
    sock.sendall(encode_line(asked))
    answer = b""
    while not answer.endswith(b"\n") and (data := sock.recv(MAX_LINE_BYTES)):
        answer += data
    message = decode_line(answer)
    return message if isinstance(message, Joined) else None


def log_path(store: Path) -> Path:
    """Name the log of proxies that launches start."""
    return store.with_name(f"{store.name}.log")


def _open_log(store: Path) -> tuple[IO[bytes], int]:
    """Open the log to append to it; return its size too.

    Raises:
        ConfigurationError: it cannot be opened.
    """
    path = log_path(store)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        file = open(descriptor, "ab", buffering=0)  # noqa: PTH123, SIM115 - its caller closes it
        size = file.tell()
        if size > MAX_LOG_BYTES:
            file.truncate(0)
            size = 0
    except OSError as error:
        raise ConfigurationError(
            f"the log {path} cannot be written: {error.strerror}; name another store with --store"
        ) from error
    return file, size
