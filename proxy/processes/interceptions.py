"""The supervisor's interceptions: which worker has which, and how each ends.

Most belong to a launch. When the launch is over, everything on its port is tunnelled. Processes
that outlive the command know no other way to the network, so the port stays open until they have
ended. The port of the settings belongs to no launch, and stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import shutil
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from proxy.downstream.listening import listen
from proxy.interception.interception import USUAL, InterceptReport, TunnelReason
from proxy.own_address import INTERCEPT_HOST
from proxy.processes.intercept_orders import (
    CloseIntercept,
    EndedPort,
    OpenedPort,
    OpenIntercept,
    Staying,
    TunnelIntercept,
)
from proxy.processes.staying import find_staying
from proxy.tasks import spawn
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from proxy.interception.interception import Interception
    from proxy.processes.child import Child
    from proxy.processes.intercept_orders import InterceptNews

_log = logging.getLogger("spantap")

LAST_SECONDS = 2.0
"""How long the end of a launch waits for a worker's last report."""

ENDING_SECONDS = 0.5
"""How long a process may outlive its command by chance: it is just ending."""

MAX_OPEN = 200
"""How many ports may be open. A worker that is started again gets all its listeners at once, and a
socket between two processes holds 277 of them."""

STAY_SECONDS = 24 * 3600.0
"""How long a port stays open for processes that outlive their command."""

LOOK_SECONDS = 2.0
"""How often it is checked whether they have ended."""

_LEARNT = frozenset({TunnelReason.DISTRUST, TunnelReason.CLIENT_CERTIFICATE})
"""Reasons that only clients and hosts can show."""


@dataclass(kw_only=True, eq=False, repr=False)
class _Open:
    """An interception, and what its worker has said of it.

    Attributes:
        folder: for the certificates of a launch; empty if the port belongs to none.
        past: the report of the worker's earlier processes.
        logged: tunnelled hosts that the log has named, and the reason.
        outlives: its launch is over, and processes of it stay.
    """

    worker: Child
    listener: socket.socket
    order: OpenIntercept
    folder: str
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    news: InterceptNews | None = None
    restarts: int = 0
    past: InterceptReport = field(default_factory=InterceptReport)
    logged: set[tuple[str, TunnelReason]] = field(default_factory=set)
    outlives: bool = False

    @property
    def report(self) -> InterceptReport:
        return self.past if self.news is None else self.past.plus(self.news.report)

    def log_tunnelled(self) -> None:
        """Log once why calls to a host are not recorded: no launch says it at its end."""
        for row in self.report.tunnelled:
            said = row.host, row.reason
            if row.reason not in USUAL and said not in self.logged:
                self.logged.add(said)
                _log.warning("calls to %s are not recorded, because %s", *said)


class Interceptions:
    """All interceptions of a supervisor.

    Args:
        workers: those that may get a port.
        own_ports: host and port of our listeners, to which no tunnel leads.
        scratch: the folder of files that exist as long as the processes.

    Attributes:
        on_gone: called when a port has been closed that had outlived its launch.
    """

    def __init__(
        self,
        workers: Sequence[Child],
        own_ports: tuple[tuple[str, int], ...],
        scratch: Path,
    ) -> None:
        self.on_gone: Callable[[], None] = lambda: None
        self._workers = workers
        self._own_ports = own_ports
        self._scratch = scratch
        self._numbers = itertools.count(1)
        self._open: dict[int, _Open] = {}
        for worker in workers:
            worker.on_intercept = self._hear

    @property
    def is_needed(self) -> bool:
        """Tell whether a port is still open for a process that has outlived its command."""
        return any(opened.outlives for opened in self._open.values())

    def open(self, interception: Interception) -> OpenedPort:
        """Open a port for a launch.

        Raises:
            ConfigurationError: it could not.
        """
        if len(self._open) >= MAX_OPEN:
            raise ConfigurationError(
                f"{MAX_OPEN} runs intercept already, or have left processes behind that still need "
                "their ports: end some"
            )
        listener = listen("interception", INTERCEPT_HOST, 0)
        try:
            folder = self._make_folder()
        except ConfigurationError:
            listener.close()
            raise
        opened = self._serve(interception, listener, folder)
        port = listener.getsockname()[1]
        return OpenedPort(number=opened.order.number, port=port, folder=folder)

    def keep(self, interception: Interception, listener: socket.socket) -> None:
        """Serve a port that belongs to no launch, to the end."""
        self._serve(interception, listener, "")

    def _serve(self, interception: Interception, listener: socket.socket, folder: str) -> _Open:
        """Let the worker with the fewest ports serve one."""
        number = next(self._numbers)
        used = [opened.worker for opened in self._open.values()]
        worker = min(self._workers, key=used.count)
        own_ports = (*interception.own_ports, *self._own_ports)
        opened = _Open(
            worker=worker,
            listener=listener,
            order=OpenIntercept(
                number=number,
                interception=msgspec.structs.replace(interception, own_ports=own_ports),
            ),
            folder=folder,
            restarts=worker.restarts,
        )
        self._open[number] = opened
        worker.order(opened.order, opened.listener)
        return opened

    async def end(self, number: int) -> EndedPort:
        """Let everything be tunnelled, because the launch is over; close the port if none stays."""
        opened = self._open[number]
        over = TunnelIntercept(number)
        opened.worker.order(over)
        await _wait_until_over(opened)
        secret = opened.order.interception.secret
        staying = await _look_until_gone(secret, ENDING_SECONDS, ENDING_SECONDS / 5)
        earlier = [
            process
            for other in [*self._open.values()]
            if other.outlives
            for process in await asyncio.to_thread(find_staying, other.order.interception.secret)
        ]
        ended = EndedPort(
            report=opened.report, staying=tuple(staying), earlier=tuple(sorted(set(earlier)))
        )
        if staying:
            opened.outlives = True
            spawn(self._outlive(opened, secret), name="an interception that outlives its launch")
        else:
            self._close(opened)
        return ended

    async def _outlive(self, opened: _Open, secret: str) -> None:
        """Keep a port until the processes that have its secret have ended."""
        await _look_until_gone(secret, STAY_SECONDS, LOOK_SECONDS)
        self._close(opened)
        self.on_gone()

    def _hear(self, news: InterceptNews) -> None:
        """Note how a port stands, and what its worker's next process must know of it."""
        opened = self._open.get(news.number)
        if opened is None:
            return
        if opened.restarts != opened.worker.restarts:
            opened.past, opened.restarts = opened.report, opened.worker.restarts
        opened.news = news
        opened.changed.set()
        known = opened.order.interception.tunnelled
        learnt = {
            row.host: row.reason
            for row in news.report.tunnelled
            if row.reason in _LEARNT and row.host not in known
        }
        if learnt:
            interception = msgspec.structs.replace(
                opened.order.interception, tunnelled={**known, **learnt}
            )
            order = msgspec.structs.replace(opened.order, interception=interception)
            opened.worker.replace_order(opened.order, order)
            opened.order = order
        if not opened.folder:
            opened.log_tunnelled()

    def _close(self, opened: _Open) -> None:
        number = opened.order.number
        close = CloseIntercept(number)
        opened.worker.order(close)
        for order in (opened.order, TunnelIntercept(number), close):
            opened.worker.replace_order(order)
        opened.listener.close()
        del self._open[number]
        shutil.rmtree(opened.folder, ignore_errors=True)

    def _make_folder(self) -> str:
        """Make a folder that only we can read.

        Raises:
            ConfigurationError: there is no place for it.
        """
        try:
            return tempfile.mkdtemp(prefix="run-", dir=self._scratch)
        except OSError as error:
            raise ConfigurationError(
                f"interception: no folder can be made in {self._scratch}: {error.strerror}"
            ) from error


async def _look_until_gone(secret: str, seconds: float, between_seconds: float) -> list[Staying]:
    """Look for processes that have a secret, until there are none or the time is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        staying = await asyncio.to_thread(find_staying, secret)
        if not staying or loop.time() >= until:
            return staying
        await asyncio.sleep(between_seconds)


async def _wait_until_over(opened: _Open) -> None:
    """Wait for the news that everything is tunnelled, for a while."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_SECONDS):
            while opened.news is None or not opened.news.is_over:
                opened.changed.clear()
                await opened.changed.wait()
