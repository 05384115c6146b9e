"""Real processes for the end-to-end tests: started with a clean environment, ended by their id."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ("ServerProcess", "clean_environment", "find_free_port", "get", "wait_until")

_FOREIGN_PREFIXES = ("OTEL_", "OPENINFERENCE_", "PHOENIX_", "SPANTAP_")

_END_SECONDS = 20.0
"""How long a process may take to end after SIGTERM."""


class ServerProcess:
    """A server in a process of its own, whose output goes to a file.

    Args:
        command: program and arguments.
        environment: variables on top of :func:`clean_environment`.
        log: where its output goes, appended.
    """

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], log: Path
    ) -> None:
        self.log = log
        self._command = command
        self._environment = {**clean_environment(), **environment}

    def __enter__(self) -> Self:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.end()

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(errors="replace")

    def wait_for(self, url: str, seconds: float) -> None:
        """Wait until ``url`` answers 200."""

        def answers() -> bool:
            status = self._process.poll()
            assert status is None, f"it ended with status {status}:\n{self.output}"
            try:
                return get(url).ok
            except requests.ConnectionError:
                return False

        wait_until(answers, seconds, f"{url} answers")

    def end(self) -> int:
        """SIGTERM, and SIGKILL if that is not heard; the exit status."""
        self._process.terminate()
        try:
            return self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def clean_environment() -> dict[str, str]:
    """This process's variables without those that would steer the programs under test.

    The page is on any port: those that test side by side cannot all have its own.
    """
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_FOREIGN_PREFIXES) and not name.lower().endswith("_proxy")
    }
    return {**own, "SPANTAP_PAGE_PORT": "0"}


FIRST_PORT, SLOTS, SLOT_PORTS = 16_000, 16, 1_000
"""Below those that systems give to clients (Linux from 32768, macOS from 49152): no connection
takes one between a look and the start of a server. Processes that test side by side have their
own."""


def _list_ports() -> Iterator[int]:
    """The ports of this process of tests, over and over, from some one of them on."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    slot = int(worker) % SLOTS if worker.isdecimal() else secrets.randbelow(SLOTS)
    first, begin = FIRST_PORT + slot * SLOT_PORTS, secrets.randbelow(SLOT_PORTS)
    return itertools.cycle(first + (begin + n) % SLOT_PORTS for n in range(SLOT_PORTS))


_ports = _list_ports()


def find_free_port() -> int:
    """A port of loopback that was free a moment ago, and that no other test here was told of."""
    while True:
        port = next(_ports)
        with socket.socket() as sock, suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port


def get(url: str, **parameters: str | int) -> requests.Response:
    """GET from loopback, past any proxy that the environment names."""
    with requests.Session() as session:
        session.trust_env = False
        return session.get(url, params=parameters, timeout=30)


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll until ``condition`` holds; fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)
