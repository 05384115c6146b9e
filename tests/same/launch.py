"""A version of spantap as its users run it: commands that end, and a server on ports of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ("Server", "Version")

_TOKEN = "same-token-0123456789abcdef"
_WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        port: of its traffic, or of its page where it has no traffic.
    """

    process: subprocess.Popen[bytes]
    port: int

    def get(self, path: str) -> tuple[int, bytes]:
        """Ask the page for a path below ``/api/``: its status and its bytes."""
        return _get(f"http://127.0.0.1:{self.port}/api/{path}")

    def stop(self) -> None:
        """End it in order; all that it has recorded is in its store then."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(_WAIT_SECONDS)

    def kill(self) -> None:
        """End it, and all that it started, as a crash of the machine would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(_WAIT_SECONDS)


@dataclass(frozen=True)
class Version:
    """A checkout of spantap.

    Attributes:
        name: for messages.
        tree: the checkout's folder.
        home: an empty folder in place of the user's.
    """

    name: str
    tree: Path
    home: Path

    def run(self, *arguments: str) -> str:
        """Run a command to its end: its exit status and all that it wrote."""
        done = subprocess.run(
            [sys.executable, "-m", "proxy", *arguments],
            cwd=self.home,
            env=self._environment({}),
            capture_output=True,
            timeout=_WAIT_SECONDS * 5,
            check=False,
        )
        told = (done.stdout + done.stderr).decode("utf-8", "replace")
        return f"{done.returncode}\n{told.replace(str(self.home), 'HOME')}"

    def run_script(self, script: Path, told: str) -> str:
        """Run a script that imports this version's tests, with that as its input."""
        return subprocess.run(
            [sys.executable, str(script)],
            cwd=self.home,
            env=self._environment({}),
            input=told,
            text=True,
            stdout=subprocess.PIPE,
            timeout=_WAIT_SECONDS * 5,
            check=True,
        ).stdout

    @contextmanager
    def serving(self, store: Path, upstream: str, settings: Mapping[str, str]) -> Iterator[Server]:
        """Run the proxy until the end."""
        port, admin = _free_port(), _free_port()
        ports = {"SPANTAP_PORT": str(port), "SPANTAP_ADMIN_PORT": str(admin)}
        if (self.tree / "proxy" / "page").is_dir():  # else it knows no such setting
            ports["SPANTAP_PAGE"] = "false"
        arguments = ["serve", "--upstream", upstream, "--store", str(store)]
        with self._start(arguments, {**settings, **ports}, port) as server:
            self._await(server, f"http://127.0.0.1:{admin}/readyz")
            yield server

    def kill_soon(self, store: Path, seconds: float) -> None:
        """Run the proxy for so long, then kill it."""
        with self._start(["serve", "--store", str(store)], {}, 0) as server:
            time.sleep(seconds)
            server.kill()

    @contextmanager
    def paging(self, store: Path) -> Iterator[Server]:
        """Run the page of a store until the end."""
        port = _free_port()
        arguments = ["page", "--no-browser", "--port", str(port), "--store", str(store)]
        with self._start(arguments, {"SPANTAP_PAGE_TOKEN": _TOKEN}, port) as server:
            self._await(server, f"http://127.0.0.1:{port}/api/status")
            yield server

    @contextmanager
    def _start(
        self, arguments: list[str], settings: Mapping[str, str], port: int
    ) -> Iterator[Server]:
        with (self.home / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "proxy", *arguments],
                cwd=self.home,
                env=self._environment(settings),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        server = Server(process, port)
        try:
            yield server
        finally:
            if process.poll() is None:
                server.stop()

    def _await(self, server: Server, url: str) -> None:
        until = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < until and server.process.poll() is None:
            if _get(url)[0] == 200:
                return
            time.sleep(0.02)
        log = (self.home / "log").read_text("utf-8", "replace")
        raise RuntimeError(f"{self.name} does not start:\n{log[-2000:]}")

    def _environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(self.tree),
            "HOME": str(self.home),
            "TZ": "UTC",
            "COLUMNS": "160",
            **settings,
        }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def _get(url: str) -> tuple[int, bytes]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {_TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=_WAIT_SECONDS) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""
