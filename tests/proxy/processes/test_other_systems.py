"""spantap where Linux's own parts of Python are not there."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import requests

from tests.e2e.spantap import PROGRAM, running_upstream
from tests.faults.stage import running_spantap

if TYPE_CHECKING:
    from pathlib import Path

_AS_ON_MACOS = r"""
import errno, fcntl, os, posix, re, resource, select, signal, termios, time

LACKING = {
    (os, posix): r"EFD_|GRND_|MFD_|O_(DIRECT|LARGEFILE|NOATIME|PATH|RSYNC|TMPFILE)$|POSIX_FADV"
    r"|P_PIDFD|RWF_|SCHED_(BATCH|IDLE|RESET)|SPLICE_|ST_[A-Z]+$|XATTR_|copy_file_range|eventfd"
    r"|fdatasync|getrandom|[gs]etres|([gl]et|list|remove|set)xattr|memfd|pidfd|pipe2|posix_fa"
    r"|sched_(?!yield)|splice|waitid",
    (select,): "epoll|EPOLL|POLLMSG|POLLRDHUP",
    (signal,): "SIG(CLD|POLL|PWR|RTM|STKFLT)|pidfd|sigtimedwait|sigwaitinfo",
    (errno,): "EBADFD|EREMOTEIO|ERESTART|ESTRPIPE|EUCLEAN",
    (resource,): "RLIMIT_(MSGQ|NICE|OFILE|RT|SIGP)|RUSAGE_THREAD|prlimit",
    (time,): "CLOCK_(BOOTTIME|TAI)|pthread_getcpuclockid",
}


def remove(modules, names):
    for module in modules:
        for name in filter(re.compile(names).match, dir(module)):
            delattr(module, name)


for modules, names in LACKING.items():
    remove(modules, names)
os.process_cpu_count = os.cpu_count  # which Python decided on before the names were gone

import _socket, socket  # now, so that selectors know no epoll

remove(
    (socket, _socket),
    r"(AF|PF|SOL)_(ALG|CAN|NETLINK|PACKET|RDS|TIPC|VSOCK)|ALG_|CAN_|IPPROTO_MPTCP|IP_BIND_ADDRESS"
    r"|IP_TRANSPARENT|MSG_(CMSG|CONFIRM|ERRQUEUE|FASTOPEN|MORE)|NETLINK_|PACKET_|SCM_CREDENTIALS"
    r"|SOCK_(CLOEXEC|NONBLOCK)|SO_(BINDTO|DOMAIN|INCOMING|MARK|PASS|PEER|PRIO|PROTO)|TIPC_|VM"
    r"|TCP_(CONG|CORK|DEFER|INFO|KEEPIDLE|LINGER|QUICK|SYNCNT|USER|WINDOW)",
)
ioctl, setrlimit = fcntl.ioctl, resource.setrlimit


def refuse_sockets(descriptor, request, *rest):
    if request == termios.TIOCOUTQ:
        raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
    return ioctl(descriptor, request, *rest)


def refuse_much(kind, limits):
    if kind == resource.RLIMIT_NOFILE and not 0 <= limits[0] <= 10_240:
        raise ValueError("current limit exceeds maximum limit")
    setrlimit(kind, limits)


fcntl.ioctl, resource.setrlimit = refuse_sockets, refuse_much
"""
"""A ``sitecustomize``: each process of Python imports it as it starts. The names are those that
typeshed has for Linux and not for macOS."""


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Environment of a process that has what macOS has of Python, and is watched by nobody."""
    for name in ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "sitecustomize.py").write_text(_AS_ON_MACOS)
    return {"PYTHONPATH": str(tmp_path)}


def _run(command: list[str], variables: dict[str, str]) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_nothing_that_only_linux_has_is_needed(tmp_path: Path, variables: dict[str, str]) -> None:
    """To relay a long question, to record it, to look at it, and to end."""
    probe = "import os, selectors; print(hasattr(os, 'pidfd_open'), selectors.DefaultSelector)"
    assert _run([sys.executable, "-c", probe], variables).startswith("False <class 'selectors.Poll")
    with (
        running_upstream(tmp_path) as port,
        running_spantap(
            tmp_path,
            upstream=f"http://127.0.0.1:{port}",
            environment={
                **variables,
                "SPANTAP_COST": "false",
            },  # else a line says why it is unknown
        ) as spantap,
    ):
        chat = {"model": "m", "messages": [{"role": "user", "content": "x" * 1_000_000}]}
        answer = requests.post(f"{spantap.url}/v1/chat/completions", json=chat, timeout=30)
        assert answer.ok
        assert spantap.terminate() == 0
        assert "Traceback" not in spantap.log
    listed = _run([PROGRAM, "traces", "--store", str(spantap.store)], variables)
    assert "completed" in listed


def test_the_demo_needs_nothing_either(variables: dict[str, str]) -> None:
    """Which relays and records in a process of its own."""
    shown = _run([sys.executable, "-m", "proxy", "demo"], variables)
    assert "completed" in shown
    assert "client_disconnected" in shown
