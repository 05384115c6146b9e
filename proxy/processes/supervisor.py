"""The supervisor: binds the ports, starts the others, keeps them running, serves the admin port.

Run as ``python -m proxy.processes.supervisor SETTINGS [LAUNCH]``. SETTINGS is the descriptor of a
file that has the settings; LAUNCH is the descriptor of a socket to the launch for which the
supervisor is started (:mod:`proxy.processes.launches`).

Listeners are bound once, here, and stay open while workers are restarted: connections that come
meanwhile wait. The supervisor neither relays nor observes, and imports little, so that little can
fail (``docs/contract/promises.md#processes``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from proxy.admin import AdminServer
from proxy.file_limit import raise_file_limit
from proxy.interception.kept_authority import build_interception
from proxy.logging.logs import set_up_logging
from proxy.own_address import build_url
from proxy.processes.child import Child, Role
from proxy.processes.control import COUNTERS_SECONDS, FAILED_TO_START
from proxy.processes.interceptions import Interceptions
from proxy.processes.launch_channel import START_SECONDS, pointing_to_control_socket
from proxy.processes.launches import Launches, OpenCallsQuestion
from proxy.processes.messages import Cut, Drain, Finish, Linger, Serve, Start
from proxy.processes.page_listener import announce_page, pick_page_settings
from proxy.processes.page_port import PagePort
from proxy.processes.ports import SupervisorSettings, describe_port, open_ports
from proxy.signal_numbers import SHUTDOWN_SIGNALS
from proxy.signals import ShutdownSignals
from proxy.tasks import spawn
from telemetry.errors import ConfigurationError
from telemetry.metrics.instruments import PROCESS_RESTARTS, PROCESSES, SPANS_WAITING
from telemetry.metrics.registry import MetricsRegistry
from telemetry.metrics.snapshot import merge
from telemetry.observing.encryption import KEY_BYTES, Cipher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping

    from proxy.interception.interception import Interception
    from proxy.processes.ports import Ports
    from telemetry.metrics.registry import Reading
    from telemetry.metrics.snapshot import Snapshot

_log = logging.getLogger("spantap")

FLUSH_SECONDS = 5.0
"""The longest wait for the backend at the end; what is not sent stays in the store."""

LATE_FLUSH_SECONDS = 1.0
"""The wait for the backend if draining has used all its time. By default everything then ends
within ten seconds, even if no call ends and the backend hangs: Docker kills after ten."""

END_SECONDS = 35.0
"""How long a worker may take after the drain: to cut calls (5 and 5 s), and until its last calls
are stored (20 s). It hardly ever takes a second."""

STORE_SECONDS = 12.0
"""How long telemetry may take, once no worker is left, to store what they sent last."""

CLOSE_SECONDS = 4.0
"""How long telemetry may take after the flush: it sends the last numbers, and closes
connections."""

HURRY_SECONDS = 8.0
"""How long a child may take to end after a second signal."""


def main() -> int:
    """Run the supervisor until SIGTERM or SIGINT, which are blocked until it can react."""
    with open(int(sys.argv[1]), "rb") as file:  # noqa: PTH123 - a descriptor is not a path
        handed = file.read()
    settings = msgspec.json.decode(handed, type=SupervisorSettings)
    set_up_logging(settings.log_level, settings.log_format, "supervisor")
    raise_file_limit()  # a launch takes two, and at the limit no worker can be started again
    first = socket.socket(fileno=int(sys.argv[2])) if len(sys.argv) > 2 else None
    try:
        with open_ports(settings, handed, first) as ports:
            return asyncio.run(Supervisor(settings, handed, ports).run())
    except ConfigurationError as error:
        print(f"spantap: {error}", file=sys.stderr)  # noqa: T201 - the command line's voice
        return FAILED_TO_START


class Supervisor:
    """The supervisor of all children, with the admin port and the control socket for launches.

    Its children get all settings (`handed`) and their sockets from it.
    """

    def __init__(self, settings: SupervisorSettings, handed: bytes, ports: Ports) -> None:
        self._settings = settings
        self._handed = handed
        self._ports = ports
        self._serving = False
        self._registry = MetricsRegistry()
        self._registry.read_from(self._read_metrics)

        cipher_key = os.urandom(KEY_BYTES)
        host, port = address = ports.traffic.getsockname()[:2]
        url = build_url(host, port, has_tls=settings.tls_cert is not None)

        def start(number: int) -> Start:
            return Start(
                settings=handed,
                number=number,
                frames_path=ports.frames.getsockname(),
                cipher_key=cipher_key,
                proxy_url=url,
            )

        self._telemetry = Child(Role.TELEMETRY, start(0), [ports.frames])
        self._workers = [
            Child(Role.WORKER, start(number), [ports.traffic])
            for number in range(1, settings.workers + 1)
        ]
        self._children = [self._telemetry, *self._workers]
        for_page = msgspec.structs.replace(
            start(0), settings=pick_page_settings(handed), cipher_key=b""
        )
        self._page = PagePort(ports.page.sock, for_page) if ports.page.sock else None
        open_calls = OpenCallsQuestion(self._telemetry.ask)
        self._telemetry.on_answer = open_calls.hear
        self._interceptions = Interceptions(
            self._workers, ports.own_addresses, Path(ports.frames.getsockname()).parent
        )
        self._kept: Interception | None = None
        if ports.intercept is not None:
            self._kept = build_interception(Path(settings.store), settings.intercept_hosts)
        self._launches = Launches(
            handed,
            address,
            url,
            Cipher(cipher_key),
            ports.first,
            interceptions=self._interceptions,
            tell_open=open_calls.tell,
            carry_out=self._telemetry.carry_out,
        )

    async def run(self) -> int:
        """Run until the end, and return the exit status."""
        signals = ShutdownSignals(asyncio.get_running_loop())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SHUTDOWN_SIGNALS)
        admin = AdminServer(self._ports.admin, is_ready=self._is_ready, metrics=self._numbers)
        admin.start()
        running = {child: asyncio.ensure_future(child.run()) for child in self._children}
        sending = asyncio.ensure_future(self._send_numbers())
        try:
            if not await self._all_ready(running.values(), signals):
                if signals.first.is_set():
                    return 0
                return max((child.status or 0) for child in self._children) or 1
            self._announce()
            self._order(Serve())
            if self._kept is not None and self._ports.intercept is not None:
                self._interceptions.keep(self._kept, self._ports.intercept)
            self._serving = True
            if self._page is not None:
                self._page.begin()
            async with self._letting_launches_in():
                signalled = asyncio.ensure_future(signals.first.wait())
                left = asyncio.ensure_future(self._launches.are_over.wait())
                # Children are kept running without end; if that fails, somebody must notice.
                awaited: set[asyncio.Future[Any]] = {signalled, left, *running.values()}
                await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                if not (signalled.done() or left.done()):
                    _log.critical("a process cannot be kept running: spantap ends")
                    signals.first.set()
            return await self._end(running, signals)
        finally:
            sending.cancel()
            await self._end_at_once(running.values())
            if self._page is not None:
                await self._page.end()
            admin.close()

    @contextlib.asynccontextmanager
    async def _letting_launches_in(self) -> AsyncIterator[None]:
        """Let launches in as long as the block runs, and keep the file that leads them to us."""
        control_socket = self._ports.control_socket
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(
                    pointing_to_control_socket(self._settings.store, control_socket.getsockname())
                )
            except OSError as error:
                _log.warning(
                    "`spantap run` and `spantap store delete` cannot find this proxy: %s", error
                )
            await self._launches.open(control_socket)
            try:
                yield
            finally:
                self._launches.close()

    def _is_ready(self) -> bool:
        # Not before telemetry is ready: calls that a failed start cut would have no span.
        return self._serving and any(worker.ready.is_set() for worker in self._workers)

    async def _all_ready(
        self, running: Iterable[asyncio.Future[None]], signals: ShutdownSignals
    ) -> bool:
        """Wait for the children; false if one cannot be started, or the end comes first.

        If a launch waits for us, it gives up in time, and so do we: nobody else knows of us.
        """
        seconds = None if self._ports.first is None else START_SECONDS
        ready = asyncio.ensure_future(_all(child.ready.wait() for child in self._children))
        ended = asyncio.ensure_future(signals.first.wait())
        awaited: set[asyncio.Future[Any]] = {ready, ended, *running}
        done, _ = await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            late = [child.name for child in self._children if not child.ready.is_set()]
            _log.error("%s: not ready within %g s", ", ".join(late), seconds)
        is_ready = ready.done()
        for future in (ready, ended):
            future.cancel()
        return is_ready

    def _announce(self) -> None:
        _log.info(
            "listening on %s, admin on %s",
            describe_port(self._ports.traffic, "https" if self._settings.tls_cert else "http"),
            describe_port(self._ports.admin, "http"),
        )
        if self._ports.intercept is not None:
            _log.info(
                "intercepting at %s; `spantap ca` says how programs use it",
                describe_port(self._ports.intercept, "http"),
            )
        announce_page(self._handed, self._ports.page)
        for child in (self._workers[0], self._telemetry):
            for level, note in child.notes:
                _log.log(level, "%s", note)

    async def _end(
        self, running: Mapping[Child, asyncio.Future[None]], signals: ShutdownSignals
    ) -> int:
        """End in order, and return the exit status.

        Workers end first, within their time. Then telemetry ends, and loses nothing that workers
        have sent. A second signal shortens all of this.
        """
        settings = self._settings
        linger_seconds = settings.linger_seconds if signals.lingers else 0
        _log.info(
            "stopping: answering for %g s more, then draining for up to %g s; "
            "a second signal ends at once",
            linger_seconds,
            settings.drain_seconds,
        )
        self._serving = False
        self._order(Linger())
        await signals.unless_second(lambda: asyncio.sleep(linger_seconds))
        loop = asyncio.get_running_loop()
        drained_by = loop.time() + settings.drain_seconds
        for sock in (self._ports.traffic, self._ports.intercept):
            if sock is not None:
                sock.close()
        self._order(Drain(seconds=settings.drain_seconds))
        for worker in self._workers:
            worker.expect_end()
        waited = [running[worker] for worker in self._workers]
        await signals.unless_second(lambda: _wait(waited, settings.drain_seconds + END_SECONDS))
        if signals.is_second:
            self._order(Cut())
            await _wait(waited, HURRY_SECONDS)
        for worker in self._workers:
            if not running[worker].done():
                _log.error("the %s process does not end, and is killed", worker.name)
                worker.kill()
        await _wait(waited, END_SECONDS)
        lost = [worker.lost for worker in self._workers]
        flush_seconds = 0.0
        if not signals.is_second:
            unused_seconds = max(0.0, drained_by - loop.time())
            flush_seconds = min(FLUSH_SECONDS, LATE_FLUSH_SECONDS + unused_seconds)
        if self._page is not None:  # it has shown the last call
            spawn(self._page.end(), name="end of the page")
        lost.append(await self._end_telemetry(running[self._telemetry], signals, flush_seconds))
        return 0 if lost == [0] * len(lost) else 1

    async def _end_telemetry(
        self, running: asyncio.Future[None], signals: ShutdownSignals, flush_seconds: float
    ) -> int | None:
        """Let telemetry store and send; return how much is lost, ``None`` if that is unknown."""
        telemetry = self._telemetry
        telemetry.expect_end()
        telemetry.send_numbers(self._others_numbers())
        telemetry.order(Finish(flush_seconds=flush_seconds))
        stored = asyncio.ensure_future(telemetry.has_finished.wait())
        awaited: set[asyncio.Future[Any]] = {running, stored}
        await asyncio.wait(awaited, timeout=STORE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        stored.cancel()
        self._launches.tell_stored()
        if telemetry.finished is not None:
            # Everything is stored. Sending may be cut short: the next start sends the rest.
            await signals.unless_second(lambda: _wait([running], flush_seconds + CLOSE_SECONDS))
        else:
            _log.error(
                "telemetry did not end in order: what it had not stored is lost, "
                "%d spans by its last count",
                self._count_waiting(),
            )
        return telemetry.lost

    async def _end_at_once(self, running: Iterable[asyncio.Future[None]]) -> None:
        """Leave no child behind."""
        for child in self._children:
            child.expect_end()
            child.kill()
        await asyncio.gather(*running, return_exceptions=True)

    def _count_waiting(self) -> int:
        """Count the spans that telemetry held in memory at its last report."""
        series = [s.numbers.get(SPANS_WAITING.name, ()) for s in self._telemetry.numbers()]
        return int(sum(number.value for numbers in series for number in numbers))

    def _order(self, message: Serve | Linger | Drain | Cut) -> None:
        for worker in self._workers:
            worker.order(message)

    def _numbers(self) -> Snapshot:
        """Get the numbers of all processes; any thread may call this."""
        parts = [self._registry.snapshot()]
        for child in self._children:
            parts += child.numbers()
        return merge(parts)

    def _others_numbers(self) -> Snapshot:
        """Get all numbers except those of the present telemetry process."""
        parts = [self._registry.snapshot(), *self._telemetry.past_numbers()]
        for worker in self._workers:
            parts += worker.numbers()
        return merge(parts)

    async def _send_numbers(self) -> None:
        """Send telemetry the numbers of all other processes, for the store and the OTLP backend."""
        while True:
            self._telemetry.send_numbers(self._others_numbers())
            await asyncio.sleep(COUNTERS_SECONDS)

    def _read_metrics(self) -> Iterator[Reading]:
        for role in Role:
            children = [child for child in self._children if child.role is role]
            yield PROCESSES, (role.value,), sum(child.ready.is_set() for child in children)
            yield PROCESS_RESTARTS, (role.value,), sum(child.restarts for child in children)
        if (page := self._page) is not None:
            yield PROCESSES, ("page",), int(page.is_ready)
            yield PROCESS_RESTARTS, ("page",), page.restarts


async def _all(awaitables: Iterable[Awaitable[object]]) -> None:
    await asyncio.gather(*awaitables)


async def _wait(futures: Iterable[asyncio.Future[None]], timeout_seconds: float) -> None:
    await asyncio.wait(set(futures), timeout=timeout_seconds)


if __name__ == "__main__":
    sys.exit(main())
