"""A worker's end of the spool: a separate thread writes frames to a file.

A slow, full or stuck disk delays nobody (R2): frames wait in the outbox, within its limits. If a
write fails, exchanges of which nothing is in the spool go to telemetry.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from proxy.processes.turns import Turns
from telemetry.errors import SpoolFull
from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from telemetry.frames.outbox import FrameOutbox
    from telemetry.frames.spool import FrameSpool

_log = logging.getLogger("spantap.worker")

RETRY_SECONDS = 1.0
"""The wait after a failed write: telemetry, or somebody else, may have made room by then."""

CLOSE_SECONDS = 1.0
"""The spool is closed this long after the last write. If it were closed after each exchange, there
would be a file for each."""

_TURN_BYTES = 64 * 1024
"""How much is encoded before others have their turn: half a millisecond of the loop."""

_WRITE_BYTES = 4 * 1024 * 1024
"""How much is written at a time. A busy worker needs two turns of the loop to learn of a write."""


class SpoolWriter:
    """Writes what the outbox has for the spool, for one event loop."""

    def __init__(self, outbox: FrameOutbox, spool: FrameSpool) -> None:
        self._outbox = outbox
        self._spool = spool
        self._to_write = asyncio.Event()
        self._turns = Turns()
        outbox.to_spool.when_unsent = self._to_write.set
        outbox.can_spool = True
        self._lines, self._defects = (RateLimit(time.monotonic_ns) for _ in range(2))

    async def run(self) -> None:
        """Write until cancelled."""
        disk = ThreadPoolExecutor(1, "spantap-spool")
        try:
            while True:
                try:
                    async with asyncio.timeout(CLOSE_SECONDS if self._spool.is_open else None):
                        await self._to_write.wait()
                    self._to_write.clear()
                    await self._write(disk)
                except TimeoutError:
                    await self._let_go(disk)
                except Exception:  # noqa: BLE001 - recording must not end with one defect
                    self._outbox.note_unwritten()
                    if self._defects.admit() is not None:
                        _log.exception("frames could not be spooled, and are spooled again")
                    await self._rest()
        finally:
            disk.shutdown(wait=False, cancel_futures=True)

    async def _write(self, disk: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        outbox = self._outbox
        while pieces := await self._gather():
            try:
                await loop.run_in_executor(disk, self._spool.write, pieces)
            except (OSError, SpoolFull) as error:
                outbox.note_unwritten()
                self._log_failure(error)
                await self._rest()
            else:
                outbox.note_written()

    async def _let_go(self, disk: ThreadPoolExecutor) -> None:
        """Close the spool if no open exchange goes there; then telemetry knows that it has all."""
        if not self._outbox.has_spooled:
            await asyncio.get_running_loop().run_in_executor(disk, self._spool.close)

    async def _gather(self) -> list[bytes]:
        """Gather pieces, because handing many to the thread costs as much as handing one."""
        gathered: list[bytes] = []
        gathered_bytes = 0
        while gathered_bytes < _WRITE_BYTES and (pieces := self._outbox.to_spool.read(_TURN_BYTES)):
            gathered += pieces
            gathered_bytes += sum(map(len, pieces))
            await self._turns.pass_on()
        return gathered

    async def _rest(self) -> None:
        """Let new exchanges go to telemetry for a while after a failure."""
        await asyncio.sleep(RETRY_SECONDS)
        self._outbox.can_spool = True
        self._to_write.set()  # because some frames still wait

    def _log_failure(self, error: OSError | SpoolFull) -> None:
        if self._lines.admit() is not None:
            why = error if isinstance(error, SpoolFull) else error.strerror
            _log.warning("calls wait in memory, because the spool does not accept them: %s", why)
