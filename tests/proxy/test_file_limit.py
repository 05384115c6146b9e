"""``proxy.file_limit``: the limit of open files."""

from __future__ import annotations

import asyncio
import errno
import resource
import sys
from typing import TYPE_CHECKING

import pytest

from proxy.clock import SystemClock
from proxy.file_limit import hard_file_limit, quieten_file_limit, raise_file_limit

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    """Soft and hard limit, as they were before and are again afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_is_raised_to_the_hard_one(limits: tuple[int, int]) -> None:
    """Again is harmless."""
    hard = limits[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, hard), hard))
    assert raise_file_limit() == hard
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    assert raise_file_limit() == hard


@pytest.mark.parametrize(
    ("soft", "most", "raised"), [(256, 10_240, 10_240), (256, 300, 256), (20_000, 30_000, 20_000)]
)
def test_a_system_that_does_not_let_it_be_raised_so_far_gets_less(
    soft: int, most: int, raised: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MacOS has a limit beside the one it tells."""
    limits = [(soft, 1 << 40)]

    def raise_limit(_: int, wanted: tuple[int, int]) -> None:
        if wanted[0] > most:
            raise ValueError("current limit exceeds maximum limit")
        limits.append(wanted)

    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", raise_limit)
    assert raise_file_limit() == raised
    assert limits[-1] == (raised, 1 << 40)


def test_no_limit_is_a_large_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """That it can be compared with."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    assert hard_file_limit() == sys.maxsize


async def test_connections_that_cannot_be_accepted_are_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever else the loop reports is told as before."""
    loop = asyncio.get_running_loop()
    quieten_file_limit(loop, SystemClock())
    full = OSError(errno.EMFILE, "Too many open files")
    for _ in range(100):
        loop.call_exception_handler({"message": "socket.accept() failed", "exception": full})
    loop.call_exception_handler({"message": "another", "exception": OSError(errno.EPERM, "no")})
    loop.call_exception_handler({"message": "a third"})
    loop.set_exception_handler(None)
    first, *others = (record.getMessage() for record in caplog.records)
    assert first.startswith("no more connections can be accepted for now: Too many open files;")
    assert others == ["another", "a third"]
