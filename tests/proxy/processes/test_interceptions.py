"""The supervisor's interceptions: how long a port stays for what outlives its launch."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, cast

import pytest

from proxy.interception.interception import Interception
from proxy.processes import interceptions
from proxy.processes.intercept_orders import CloseIntercept, OpenIntercept, Staying, TunnelIntercept
from proxy.processes.interceptions import Interceptions
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.processes.child import Child

SECRET = "a secret that no process has"


class Worker:
    """A worker that only notes what it is ordered."""

    restarts = 0
    on_intercept: Any = None

    def __init__(self) -> None:
        self.orders: list[object] = []

    def order(self, order: object, listener: socket.socket | None = None) -> None:
        self.orders.append(order)

    def replace_order(self, order: object, other: object = None) -> None:
        """A next process of the worker would get the other one."""


async def test_a_process_that_never_ends_keeps_its_port_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the port is closed, and the proxy may end."""
    left = Staying(7, "daemon")
    monkeypatch.setattr(interceptions, "find_staying", lambda secret: [left] * (secret == SECRET))
    for name in ("LAST_SECONDS", "ENDING_SECONDS", "LOOK_SECONDS"):
        monkeypatch.setattr(interceptions, name, 0.01)
    monkeypatch.setattr(interceptions, "STAY_SECONDS", 0.2)
    worker = Worker()
    all_of_them = Interceptions([cast("Child", worker)], (), tmp_path)
    gone = asyncio.Event()
    all_of_them.on_gone = gone.set
    wanted = Interception(
        secret=SECRET, ca_certificate=b"", ca_key=b"", hosts=frozenset({"a.test"})
    )
    opened = all_of_them.open(wanted)
    ended = await all_of_them.end(opened.number)
    assert ended.staying == (left,)
    is_needed = all_of_them.is_needed
    assert [type(order) for order in worker.orders] == [OpenIntercept, TunnelIntercept]
    socket.create_connection(("127.0.0.1", opened.port)).close()
    async with asyncio.timeout(10):
        await gone.wait()
    assert (is_needed, all_of_them.is_needed) == (True, False)
    assert worker.orders[-1] == CloseIntercept(opened.number)
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a test
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", opened.port))


async def test_a_run_too_many_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker gets at its start must fit into a socket; a run that ends makes room."""
    monkeypatch.setattr(interceptions, "MAX_OPEN", 2)
    for name in ("LAST_SECONDS", "ENDING_SECONDS"):
        monkeypatch.setattr(interceptions, name, 0)
    all_of_them = Interceptions([cast("Child", Worker())], (), tmp_path)
    wanted = Interception(
        secret=SECRET, ca_certificate=b"", ca_key=b"", hosts=frozenset({"a.test"})
    )
    first, second = all_of_them.open(wanted), all_of_them.open(wanted)
    with pytest.raises(ConfigurationError, match="2 runs intercept already"):
        all_of_them.open(wanted)
    await all_of_them.end(first.number)
    third = all_of_them.open(wanted)
    for opened in (second, third):
        await all_of_them.end(opened.number)
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a test
