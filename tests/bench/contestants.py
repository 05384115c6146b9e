"""What is measured side by side: a bare relay, spantap, and nginx where it is installed.

Each is a program in processes of its own. The process that relays has a core to itself, all else
(upstream, client, backend, the other processes of a contestant) shares the rest: so the ratios are
those of relaying, and what observing costs shows in the seconds of CPU, which are those of all
processes of a contestant.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.processes import clean_environment, find_free_port, wait_until
from tests.faults.stage import running_spantap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.stage import RunningSpantap

__all__ = (
    "NGINX_OBSTACLE",
    "Contestant",
    "pin_to_others",
    "running_bare",
    "running_nginx",
    "running_observing",
)

_CORES = sorted(os.sched_getaffinity(0))
_RELAYING = {_CORES[0]}
_OTHERS = set(_CORES[1:]) or _RELAYING

_TICKS = os.sysconf("SC_CLK_TCK")

NGINX_OBSTACLE = None if shutil.which("nginx") else "nginx is not installed"

_NGINX_CONFIGURATION = """
worker_processes 1;
error_log stderr error;
pid {folder}/nginx.pid;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  keepalive_requests 1000000;
  upstream upstream {{ server 127.0.0.1:{upstream_port}; keepalive 1024; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://upstream; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One that runs.

    Attributes:
        name: for the table.
        port: where clients connect.
        pids: by what the process does; ``worker`` relays.
        spantap: to be asked for its numbers, where it is that.
    """

    name: str
    port: int
    pids: dict[str, int]
    spantap: RunningSpantap | None = None

    def cpu_seconds(self) -> dict[str, float]:
        """What each process has used so far."""
        return {role: _cpu_seconds(pid) for role, pid in self.pids.items()}

    def rss_bytes(self) -> int:
        """Resident memory of all processes together."""
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        statm = [Path(f"/proc/{pid}/statm").read_text() for pid in self.pids.values()]
        return sum(int(text.split()[1]) * page_bytes for text in statm)

    def pin(self) -> None:
        """Give the process that relays its core, and the others theirs."""
        for role, pid in self.pids.items():
            _pin(pid, _RELAYING if role == "worker" else _OTHERS)


def pin_to_others(pid: int) -> None:
    """Keep a process away from the core of the one that relays."""
    _pin(pid, _OTHERS)


@contextmanager
def running_bare(upstream_port: int) -> Iterator[Contestant]:
    """The bare relay."""
    port = find_free_port()
    upstream = f"http://127.0.0.1:{upstream_port}"
    command = [sys.executable, "-m", "tests.bench.relay", upstream, str(port)]
    with _running(command, port) as pid:
        yield Contestant(name="bare", port=port, pids={"worker": pid})


@contextmanager
def running_nginx(folder: Path, upstream_port: int) -> Iterator[Contestant]:
    """The floor: nginx with one worker, unbuffered."""
    port = find_free_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(
        _NGINX_CONFIGURATION.format(folder=folder, upstream_port=upstream_port, port=port)
    )
    command = ["nginx", "-p", str(folder), "-c", str(configuration), "-g", "daemon off;"]
    with _running(command, port) as pid:
        [worker] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        yield Contestant(name="nginx", port=port, pids={"main": pid, "worker": int(worker)})


@contextmanager
def running_observing(folder: Path, upstream_port: int, endpoint: str) -> Iterator[Contestant]:
    """The product: one worker, everything on, sending to a backend."""
    with running_spantap(
        folder, upstream=f"http://127.0.0.1:{upstream_port}", endpoint=endpoint
    ) as spantap:
        pids = {role: pid for role, [pid] in spantap.children().items()}
        pids["supervisor"] = spantap.pid
        yield Contestant(name="spantap", port=spantap.port, pids=pids, spantap=spantap)
        assert spantap.terminate() == 0, spantap.log


@contextmanager
def _running(command: list[str], port: int) -> Iterator[int]:
    with subprocess.Popen(command, env=clean_environment(), stdin=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: _is_listening(port), 20, f"{command[0]} listens")
            yield process.pid
        finally:
            process.terminate()


def _is_listening(port: int) -> bool:
    listening = f":{port:04X} 00000000:0000 0A"
    return listening in Path("/proc/net/tcp").read_text()


def _pin(pid: int, cores: set[int]) -> None:
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
