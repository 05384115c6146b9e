"""The worker process: relays, and sends frames to telemetry.

Run as ``python -m proxy.processes.worker CONTROL LISTENER HAND``, three inherited descriptors. By
the last one the supervisor hands over further sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import secrets
import socket
import sys
from typing import TYPE_CHECKING

from codec._version import __version__
from proxy.app import Proxy, build_upstreams
from proxy.clock import SystemClock
from proxy.configure import explain_exposed_keys
from proxy.file_limit import quieten_file_limit, raise_file_limit
from proxy.logging.logs import set_up_logging
from proxy.processes.async_control import AsyncControl
from proxy.processes.control import COUNTERS_SECONDS, FAILED_TO_START, begin_child
from proxy.processes.frame_channel import FrameChannel
from proxy.processes.intercept_orders import InterceptOrder
from proxy.processes.messages import Counters, Cut, Drain, Finished, Linger, Ready, Serve
from proxy.processes.scratch import life_path
from proxy.processes.spool_writer import SpoolWriter
from proxy.processes.worker_intercepts import WorkerIntercepts
from proxy.settings.worker import WorkerSettings
from telemetry.errors import ConfigurationError
from telemetry.export.sdk_logs import quiet_sdk_logs
from telemetry.frames.outbox import FrameOutbox
from telemetry.frames.records import Hello
from telemetry.frames.shedding import Shedding
from telemetry.frames.spool import FrameSpool, spool_folder
from telemetry.observing.encryption import Cipher
from telemetry.own_files import hold

if TYPE_CHECKING:
    from proxy.processes.control import Control
    from proxy.processes.messages import Start

_log = logging.getLogger("spantap")

REPORT_SECONDS = 4.0
"""How long to wait at the end for a supervisor that does not read."""

ACK_SECONDS = 8.0
"""How long to wait at the end for telemetry while it takes and stores nothing."""

MAX_ACK_SECONDS = 20.0
"""How long to wait at the end for telemetry while it takes and stores frames."""

_GC_OBJECTS = 10_000
"""How many new objects trigger a search for cycles; calls leave hardly any. A search pauses every
stream, and with Python's own 700 a burst of a hundred calls would cause one."""


def main() -> int:
    """Run a worker, and return its exit status."""
    control, start, (listener, hand) = begin_child()
    settings = WorkerSettings.decode(start.settings)
    set_up_logging(settings.log_level, settings.log_format, f"worker {start.number}")
    quiet_sdk_logs()
    raise_file_limit()
    control.sock.setblocking(False)  # noqa: FBT003 - its only parameter
    try:
        ports = socket.socket(fileno=listener), socket.socket(fileno=hand)
        asyncio.run(_work(settings, start, control, *ports))
    except ConfigurationError as error:
        print(f"spantap: {error}", file=sys.stderr)  # noqa: T201 - the command line's voice
        return FAILED_TO_START
    return 0


async def _work(
    settings: WorkerSettings,
    start: Start,
    channel: Control,
    listener: socket.socket,
    hand: socket.socket,
) -> None:
    """Relay until the supervisor orders the end, or is gone.

    Raises:
        ConfigurationError: the settings cannot be followed.
    """
    quieten_file_limit(asyncio.get_running_loop(), SystemClock())
    control = AsyncControl(channel)
    token = secrets.token_hex(8)
    hello = Hello(worker=start.number, pid=os.getpid(), version=__version__, token=token)
    with contextlib.suppress(OSError):  # without it we count as dead if the connection breaks
        hold(life_path(start.frames_path, token))
    outbox = FrameOutbox(Shedding(settings.max_waiting_bytes))
    frames = FrameChannel(start.frames_path, hello, outbox)
    spool = FrameSpool(spool_folder(settings.store), token, settings.max_spool_bytes)
    cipher = Cipher(start.cipher_key)
    proxy = Proxy(settings, frames, is_orphaned=control.is_orphaned, cipher=cipher)
    proxy.metrics.read_from(frames.read_metrics)
    intercepts = WorkerIntercepts(proxy, hand, control.send)
    gc.collect()
    gc.freeze()  # what exists now stays to the end: no search for cycles needs to look at it
    gc.set_threshold(_GC_OBJECTS)
    sending = [asyncio.ensure_future(frames.run())]
    if settings.max_spool_bytes:
        sending.append(asyncio.ensure_future(SpoolWriter(outbox, spool).run()))
    await control.send(Ready(notes=_describe(settings)))
    ending = asyncio.Event()
    reporting = asyncio.ensure_future(_report(proxy, frames, control, intercepts, ending))
    try:
        await _obey(proxy, control, intercepts, listener)
    finally:
        await proxy.close()
        if lost := await frames.finish(ACK_SECONDS, MAX_ACK_SECONDS):
            _log.error("%d calls are lost: telemetry did not store them in time", lost)
        for task in sending:
            task.cancel()
        ending.set()
        # Not cancelled, because half a message would spoil what follows it.
        await asyncio.wait({reporting}, timeout=REPORT_SECONDS)
        if reporting.done():
            await control.send(Finished(lost=lost))
            await control.close()


async def _obey(
    proxy: Proxy, control: AsyncControl, intercepts: WorkerIntercepts, listener: socket.socket
) -> None:
    """Do what the supervisor says, and return when it is time to end."""
    draining: asyncio.Task[None] | None = None
    receiving = asyncio.ensure_future(control.receive())
    while True:
        awaited = {receiving, draining} if draining is not None else {receiving}
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        if receiving.done():
            messages = receiving.result()
            for message in messages:
                if isinstance(message, Serve):
                    await proxy.start(listener)
                elif isinstance(message, Linger):
                    proxy.linger()
                elif isinstance(message, Drain) and draining is None:
                    draining = asyncio.ensure_future(proxy.drain(message.seconds))
                elif isinstance(message, InterceptOrder):
                    await intercepts.obey(message)
            if not messages or any(isinstance(message, Cut) for message in messages):
                break
            receiving = asyncio.ensure_future(control.receive())
        if draining is not None and draining.done():
            break
    receiving.cancel()
    if draining is not None and not draining.done():
        draining.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await draining


async def _report(
    proxy: Proxy,
    frames: FrameChannel,
    control: AsyncControl,
    intercepts: WorkerIntercepts,
    ending: asyncio.Event,
) -> None:
    """Send our numbers regularly, and a last time at the end."""
    is_last = False
    while not is_last:
        is_last = ending.is_set()
        frames.log_shedding()
        await control.send(Counters(snapshot=proxy.metrics.snapshot()))
        await intercepts.report()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COUNTERS_SECONDS):
                await ending.wait()


def _describe(settings: WorkerSettings) -> tuple[tuple[int, str], ...]:
    """Say for the log where paths go, and if others could use our keys."""
    notes = []
    if warning := explain_exposed_keys(settings):
        notes.append((logging.WARNING, warning))
    notes += ((logging.INFO, words) for words in build_upstreams(settings).describe())
    return tuple(notes)


if __name__ == "__main__":
    sys.exit(main())
