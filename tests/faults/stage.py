"""The stage of the fault matrix: the installed ``spantap serve`` and a look at it from outside.

Everything here is what an operator has too: the command, its configuration file, its log, its admin
port, its store, signals, and ``/proc``::

    with running_spantap(tmp_path, upstream=upstream_url, endpoint=backend_url) as spantap:
        ... traffic to spantap.port ...
        assert spantap.metrics()["spantap_spans_recorded_total"] == 3
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.processes import clean_environment, find_free_port, get, wait_until
from tests.e2e.spantap import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ("RunningSpantap", "is_long", "running_spantap", "scale", "scaled")

_START_SECONDS = 60.0
"""A second on an idle machine; the rest is for a loaded one."""

_END_SECONDS = 60.0
"""How long SIGTERM may take: draining (30 s) and flushing (5 s) bound it."""

_SHORT_SCALE = 0.03
"""What `make slow` has time for: 300 of 10,000."""

_MARK = "FAULTS_STAGE"
"""A variable that tells our processes from all others, whoever their parent is by now."""

HELD = "spantap_bodies_held_bytes"
"""The metric of what telemetry holds of bodies."""

_LET_GO_SECONDS = 30.0
"""A spool may have to be read first."""

_ROLES = {
    "worker": b"proxy.processes.worker",
    "telemetry": b"proxy.processes.telemetry",
}
"""The module in the command line of a child, by what it does."""


def scale() -> float:
    """Which part of the full counts to run: 1.0 in the long form, little in the short one."""
    return float(os.environ.get("SPANTAP_FAULTS_SCALE", _SHORT_SCALE))


def scaled(count: int, *, least: int = 1) -> int:
    """That part of `count`, but `least`."""
    return max(least, round(count * scale()))


def is_long() -> bool:
    """Whether this is the long form: faults may take minutes."""
    return scale() >= 1


class RunningSpantap:
    """``spantap serve`` on ports of its own, with a store, a log and settings in one folder."""

    def __init__(
        self,
        folder: Path,
        *,
        upstream: str,
        endpoint: str | None,
        environment: Mapping[str, str],
        workers: int,
        store: Path,
    ) -> None:
        self.port, self.admin_port = find_free_port(), find_free_port()
        self.store = store
        self._log = folder / "serve.log"
        self._config = folder / "spantap.toml"
        self._config.write_text(
            f'upstream = "{upstream}"\n'
            f"port = {self.port}\n"
            f"admin_port = {self.admin_port}\n"
            f'store = "{self.store}"\n'
            f"workers = {workers}\n"
            "drain_seconds = 30\n"
        )
        backend = {} if endpoint is None else {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        mark = {_MARK: str(folder)}
        self._environment = clean_environment() | mark | backend | dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, again where it has ended, on the same ports and store; wait until ready."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [PROGRAM, "serve", "--config", str(self._config)],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._is_ready, _START_SECONDS, "spantap is ready")

    @property
    def pid(self) -> int:
        """Of the process that was started: the supervisor."""
        return self._running.pid

    @property
    def url(self) -> str:
        """What clients are pointed at, without ``/v1``."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """All that it has said so far."""
        return self._log.read_text(errors="replace")

    def is_running(self) -> bool:
        """Whether the process that was started has not ended."""
        return self._running.poll() is None

    def metrics(self) -> dict[str, float]:
        """The admin port's numbers by Prometheus name, summed over labels; no buckets."""
        totals: defaultdict[str, float] = defaultdict(float)
        text = get(f"http://127.0.0.1:{self.admin_port}/metrics").text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if not sample.name.endswith("_bucket"):
                    totals[sample.name] += sample.value
        return dict(totals)

    def children(self) -> dict[str, list[int]]:
        """The process ids of its children by role, ``worker`` and ``telemetry``, as started."""
        found: dict[str, list[int]] = {role: [] for role in _ROLES}
        for pid in _child_pids(self.pid):
            command_line = _read(pid, "cmdline")
            for role, module in _ROLES.items():
                if module in command_line:
                    found[role].append(pid)
        return found

    def pids(self) -> list[int]:
        """Its own process id and those of all children."""
        return [self.pid, *_child_pids(self.pid)]

    def rss_bytes(self) -> dict[int, int]:
        """Resident memory of each of its processes, by process id."""
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        read = {pid: _read(pid, "statm").split() for pid in self.pids()}
        return {pid: int(pages[1]) * page_bytes for pid, pages in read.items() if pages}

    def open_files(self) -> dict[int, int]:
        """How many file descriptors each of its processes holds, by process id."""
        counts = {}
        for pid in self.pids():
            with contextlib.suppress(FileNotFoundError):
                counts[pid] = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        return counts

    def terminate(self) -> int:
        """SIGTERM, and wait; the exit status.

        Raises:
            subprocess.TimeoutExpired: it does not end.
        """
        self._running.terminate()
        return self.wait()

    def wait(self) -> int:
        """Wait for its end; the exit status."""
        return self._running.wait(_END_SECONDS)

    def kill(self) -> None:
        """SIGKILL to the process that was started, and to it alone."""
        self._running.kill()
        self._running.wait()

    def let_go(self) -> None:
        """Wait until nothing of any call is held; not where it has ended."""
        if self.is_running():
            wait_until(lambda: self.metrics().get(HELD) == 0, _LET_GO_SECONDS, "no body is held")

    def clean_up(self) -> None:
        """End whatever still runs, children that lost their parent included."""
        if self._process is not None and self.is_running():
            self._running.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._running.wait(_END_SECONDS)
            if self.is_running():
                self.kill()
        mark = f"{_MARK}={self._environment[_MARK]}".encode()
        for path in Path("/proc").glob("[0-9]*"):
            if mark in _read(int(path.name), "environ").split(b"\0"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(path.name), signal.SIGKILL)

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was never started"
        return self._process

    def _is_ready(self) -> bool:
        assert self.is_running(), f"it ended with {self._running.returncode}:\n{self.log}"
        try:
            return get(f"http://127.0.0.1:{self.admin_port}/readyz").ok
        except requests.ConnectionError:
            return False


@contextmanager
def running_spantap(
    folder: Path,
    *,
    upstream: str,
    endpoint: str | None = None,
    environment: Mapping[str, str] | None = None,
    workers: int = 1,
    store: Path | None = None,
) -> Iterator[RunningSpantap]:
    """A ``spantap serve`` that is ready, and ended with all its children at the end.

    The folder, an empty one, gets configuration and log, and the store if none is named. Without an
    OTLP endpoint spans stay in the store. At its end no call may be open: nothing may be held then.
    """
    spantap = RunningSpantap(
        folder,
        upstream=upstream,
        endpoint=endpoint,
        environment=environment or {},
        workers=workers,
        store=store or folder / "traces.db",
    )
    try:
        spantap.start()
        yield spantap
        spantap.let_go()
    finally:
        spantap.clean_up()


def _child_pids(pid: int) -> list[int]:
    """The children of all threads of a process, oldest first."""
    children: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children += map(int, path.read_text().split())
    return sorted(children)


def _read(pid: int, name: str) -> bytes:
    """A file of a process in ``/proc``; empty where the process has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
