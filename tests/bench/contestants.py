"""What is measured side by side: a bare relay, spantap, and nginx where it is installed.

Each is a program in processes of its own. The process that relays has a core to itself, all else
(upstream, client, backend, the other processes of a contestant) shares the rest: so the ratios are
those of relaying, and what observing costs shows in the seconds of CPU, which are those of all
processes of a contestant. While they start they may use all cores, as they do where they are used.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import requests

from tests.e2e.processes import clean_environment, find_free_port
from tests.faults.stage import RunningSpantap
from tests.load.nginx import configure_nginx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = (
    "Contestant",
    "may_put_first",
    "pin_to_others",
    "pinned",
    "put_first",
    "running_bare",
    "running_nginx",
    "running_observing",
    "running_program",
)

START_SECONDS = 120.0
"""How long the slowest contestant may take to answer for the first time, on a loaded machine."""

_CORES = set(os.sched_getaffinity(0))
_RELAYING = {min(_CORES)}
_OTHERS = _CORES - _RELAYING or _RELAYING

_CPU_CLOCK = 2
"""``CPUCLOCK_SCHED``: the kernel's clock of what a process has used, all its threads, in ns."""

_CHAT = {"model": "load", "messages": [{"role": "user", "content": "Hello"}]}

_NGINX_PASSES_ON = """
  keepalive_requests 1000000; client_max_body_size 0;
  upstream upstream {{ server 127.0.0.1:{upstream_port}; keepalive 1024; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://upstream; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One that runs, and has answered one chat.

    Attributes:
        pids: by what the process does; ``worker`` relays.
        start_seconds: from its command to its first answer.
        spantap: to be asked for its numbers, where it is that.
    """

    name: str
    port: int
    pids: dict[str, int]
    start_seconds: float
    sends_spans: bool = False
    spantap: RunningSpantap | None = None

    def cpu_seconds(self) -> dict[str, float]:
        """What each process has used so far."""
        return {role: time.clock_gettime(~pid << 3 | _CPU_CLOCK) for role, pid in self.pids.items()}

    def rss_bytes(self) -> dict[str, int]:
        """Resident memory of each process."""
        return {role: _memory_bytes(pid, "VmRSS") for role, pid in self.pids.items()}

    def forget_peaks(self) -> None:
        """Count peaks of memory from now on."""
        for pid in self.pids.values():
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    def peak_bytes(self) -> dict[str, int]:
        """The most resident memory that each process has had since."""
        return {role: _memory_bytes(pid, "VmHWM") for role, pid in self.pids.items()}

    def pin(self) -> None:
        """Give the process that relays its core, and the others theirs."""
        for role, pid in self.pids.items():
            _pin(pid, self.cores(role))

    def cores(self, role: str) -> set[int]:
        """Cores that a process may use, once it is pinned."""
        return _RELAYING if role == "worker" else _OTHERS


def pin_to_others(pid: int) -> None:
    """Keep a process away from the core of the one that relays."""
    _pin(pid, _OTHERS)


def put_first(pid: int) -> None:
    """Let a process run before all others of its core.

    Raises:
        PermissionError: we are not root.
    """
    os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))


def may_put_first() -> bool:
    """Tell whether :func:`put_first` is allowed."""
    try:
        put_first(os.getpid())
    except PermissionError:
        return False
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return True


@contextmanager
def pinned(contestant: Contestant) -> Iterator[None]:
    """Contestant and backend, which is a thread of ours, on their cores."""
    contestant.pin()
    pin_to_others(os.getpid())
    try:
        yield
    finally:
        _pin(os.getpid(), _CORES)


@contextmanager
def running_bare(upstream_port: int) -> Iterator[Contestant]:
    """The bare relay."""
    port = find_free_port()
    upstream = f"http://127.0.0.1:{upstream_port}"
    command = [sys.executable, "-m", "tests.bench.relay", upstream, str(port)]
    with running_program("bare", command, port) as bare:
        yield bare


@contextmanager
def running_nginx(folder: Path, upstream_port: int) -> Iterator[Contestant]:
    """The floor: nginx with one worker, unbuffered."""
    port = find_free_port()
    http = _NGINX_PASSES_ON.format(upstream_port=upstream_port, port=port)
    command = configure_nginx(folder, http)
    with running_program("nginx", command, port) as nginx:
        yield nginx


@contextmanager
def running_observing(
    folder: Path,
    upstream_port: int,
    endpoint: str,
    *,
    workers: int = 1,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Contestant]:
    """The product, everything on, sending to a backend; a second worker is ``worker-2``."""
    spantap = RunningSpantap(
        folder,
        upstream=f"http://127.0.0.1:{upstream_port}",
        endpoint=endpoint,
        environment=settings or {},
        workers=workers,
        store=folder / "traces.db",
    )
    try:
        failed = threading.Event()
        with ThreadPoolExecutor(1) as pool:  # asked at once, while we wait for more than that
            start = pool.submit(_wait_for_answer, spantap.port, lambda: not failed.is_set())
            try:
                spantap.start()
            except BaseException:
                failed.set()
                raise
        children = spantap.children()
        pids = {f"worker-{n}": pid for n, pid in enumerate(children["worker"], 1)}
        pids = {"worker": pids.pop("worker-1")} | pids
        [pids["telemetry"]] = children["telemetry"]
        yield Contestant(
            name="spantap",
            port=spantap.port,
            pids=pids | {"supervisor": spantap.pid},
            start_seconds=start.result(),
            sends_spans=True,
            spantap=spantap,
        )
        assert spantap.terminate() == 0, spantap.log
    finally:
        spantap.clean_up()


@contextmanager
def running_program(
    name: str,
    command: Sequence[str],
    port: int,
    *,
    environment: Mapping[str, str] | None = None,
    sends_spans: bool = False,
) -> Iterator[Contestant]:
    """A program whose only child, if it has one, relays; ended with the block."""
    environment = clean_environment() | dict(environment or {})
    silent = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdin=silent, stdout=silent) as process:
        try:
            start_seconds = _wait_for_answer(port, lambda: process.poll() is None)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            pids = {"main": process.pid} if children else {}
            yield Contestant(
                name=name,
                port=port,
                pids=pids | {"worker": int(children[0]) if children else process.pid},
                start_seconds=start_seconds,
                sends_spans=sends_spans,
            )
        finally:
            process.terminate()


def _wait_for_answer(port: int, is_running: Callable[[], bool]) -> float:
    begun = time.monotonic()
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    with requests.Session() as session:
        session.trust_env = False
        while True:
            with contextlib.suppress(requests.ConnectionError):
                if session.post(url, json=_CHAT, timeout=START_SECONDS).ok:
                    return time.monotonic() - begun
            assert is_running(), f"who should answer on {port} has ended"
            assert time.monotonic() < begun + START_SECONDS, f"nobody answers on {port}"
            time.sleep(0.01)


def _memory_bytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} says no {name}")


def _pin(pid: int, cores: set[int]) -> None:
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # a thread that ended since
            os.sched_setaffinity(int(task.name), cores)
