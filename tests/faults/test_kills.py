"""Every process gets SIGKILL at once: what of the answers that were whole has no span."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from telemetry.spans.otlp.decoding import decode_spans
from telemetry.store.parts.part_reader import put_together
from tests.e2e.processes import wait_until
from tests.faults.row import report
from tests.faults.stage import is_long, running_spantap
from tests.faults.upstreams import MODEL, answer_body, running_load_upstream, stream_events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

    from tests.faults.stage import RunningSpantap

pytestmark = pytest.mark.timeout(600)

KILLS = 5 if is_long() else 2
"""How often all is killed, each time another store."""

BOUND_MS = 50.0 if is_long() else 500.0
"""How long an answer may be whole at the client before its span is committed, under load; where
other tests run beside this one, processes wait for a core for some hundred milliseconds."""

LOAD_SECONDS = 2.0 if is_long() else 1.0

PAUSE_SECONDS = 1.5
"""Longer than any time between two looks at the store."""

AT_ONCE_MS = 20 if is_long() else 200
"""What the first call after a pause may take until it is committed: some milliseconds where nobody
else wants the cores."""

_CHAT = '{"model":"%s","stream":%s,"messages":[{"role":"user","content":"How is it?"}]}'


@dataclass(frozen=True, slots=True)
class Kill:
    """What a kill came to: how old the answers were that were whole, and those without a span."""

    whole: int
    lost_ages_ms: list[float]

    @property
    def oldest_ms(self) -> float:
        """How long the oldest answer without a span had been whole; 0 where there is none."""
        return max(self.lost_ages_ms, default=0.0)


class Client:
    """Asks on connections that are kept, and notes when each answer was whole."""

    def __init__(self, port: int, *, is_streamed: bool) -> None:
        self.whole_at: dict[str, float] = {}
        self._port = port
        self._body = (_CHAT % (MODEL, str(is_streamed).lower())).encode()
        self._end = stream_events(20, usage=False)[-1] if is_streamed else answer_body()
        self._count = 0

    async def ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Ask once, and read the answer to its end."""
        mark = f"kill-{self._count}"
        self._count += 1
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: spantap\r\n"
            b"Content-Type: application/json\r\nx-spantap-user-id: %b\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (mark.encode(), len(self._body), self._body)
        )
        await reader.readuntil(self._end)
        self.whole_at[mark] = time.monotonic()
        if self._end.endswith(b"\n\n"):
            await reader.readuntil(b"0\r\n\r\n")

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Open a connection, and close it in the end, whatever became of it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def ask_on(self, rate: float) -> None:
        """Ask on and on over one connection, so many times a second at most."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            async with self.connected() as streams:
                await asyncio.sleep(random.uniform(0, 1 / rate))
                while True:
                    began = time.monotonic()
                    await self.ask(*streams)
                    await asyncio.sleep(max(0.0, began + 1 / rate - time.monotonic()))


def kill_all(spantap: RunningSpantap) -> float:
    """Kill each process; returns when the first one was."""
    pids = spantap.pids()
    at = time.monotonic()
    for pid in reversed(pids):  # those that record first
        os.kill(pid, signal.SIGKILL)
    return at


def read_marks(path: Path) -> set[str]:
    """Read the marks of the calls whose spans are committed, past our reader."""
    with closing(sqlite3.connect(path)) as connection:
        stored = connection.execute("SELECT part, span FROM spans JOIN span_bytes USING (seq)")
        spans = [decode_spans(data)[0] for (data,) in put_together(connection, stored, at=0)]
    return {str(span.attributes.get("user.id")) for span in spans}


async def warm_up(spantap: RunningSpantap, client: Client) -> None:
    """Ask once, and wait until that is recorded: after a start telemetry waits for others first."""
    async with client.connected() as streams:
        await client.ask(*streams)
    wait_until(lambda: bool(read_marks(spantap.store)), 30, "the first call is recorded")


def try_kill(
    folder: Path,
    upstream: str,
    play: Callable[[RunningSpantap, Client], Coroutine[None, None, float]],
    *,
    is_streamed: bool = False,
) -> Kill:
    """Play, with a kill at its end, and count what is lost of it."""
    folder.mkdir()
    with running_spantap(folder, upstream=f"{upstream}/v1") as spantap:
        client = Client(spantap.port, is_streamed=is_streamed)
        asyncio.run(warm_up(spantap, client))
        killed_at = asyncio.run(play(spantap, client))
        wait_until(lambda: not spantap.is_running(), 30, "it is dead")
        kept = read_marks(spantap.store)
    ages = [(killed_at - at) * 1e3 for at in client.whole_at.values() if at <= killed_at]
    lost = [
        (killed_at - at) * 1e3
        for mark, at in client.whole_at.items()
        if at <= killed_at and mark not in kept
    ]
    return Kill(whole=len(ages), lost_ages_ms=sorted(lost))


@pytest.mark.parametrize(
    ("calls_per_second", "is_streamed"), [(50, False), (50, True), (400, False), (100, True)]
)
def test_under_load_no_answer_older_than_the_bound_is_lost(
    calls_per_second: int, is_streamed: bool, tmp_path: Path
) -> None:
    """What had ended before is committed, however many calls come."""

    async def load(spantap: RunningSpantap, client: Client) -> float:
        asks = [asyncio.ensure_future(client.ask_on(calls_per_second / 20)) for _ in range(20)]
        await asyncio.sleep(LOAD_SECONDS + random.uniform(0, 0.1))
        at = kill_all(spantap)
        await asyncio.gather(*asks, return_exceptions=True)
        return at

    with running_load_upstream() as upstream:
        kills = [
            try_kill(tmp_path / str(n), upstream, load, is_streamed=is_streamed)
            for n in range(KILLS)
        ]
    what = "streams" if is_streamed else "answers"
    oldest_ms = max(kill.oldest_ms for kill in kills)
    report(
        f"every process killed, {calls_per_second} {what} a second, {KILLS} times",
        sent=sum(kill.whole for kill in kills),
        lost=sum(len(kill.lost_ages_ms) for kill in kills),
        client_saw="every answer up to the kill",
        figures={
            "most of one kill": max(len(kill.lost_ages_ms) for kill in kills),
            "the oldest that is lost, ms before the kill": round(oldest_ms, 1),
        },
    )
    assert all(kill.whole for kill in kills), "no answer was whole: there was nothing to lose"
    assert oldest_ms <= BOUND_MS


def test_the_first_call_after_a_pause_is_committed_at_once(tmp_path: Path) -> None:
    """It waits for no other call."""

    async def ask(spantap: RunningSpantap, client: Client) -> float:
        async with client.connected() as streams:
            for _ in range(2):
                await client.ask(*streams)
                await asyncio.sleep(random.uniform(0.3, PAUSE_SECONDS))
            await client.ask(*streams)
            await asyncio.sleep(AT_ONCE_MS / 1e3)
            return kill_all(spantap)

    with running_load_upstream() as upstream:
        kills = [try_kill(tmp_path / str(n), upstream, ask) for n in range(KILLS)]
    lost = sum(len(kill.lost_ages_ms) for kill in kills)
    report(
        f"every process killed {AT_ONCE_MS} ms after a call that came after a pause, {KILLS} times",
        sent=sum(kill.whole for kill in kills),
        lost=lost,
        client_saw="every answer",
    )
    assert not lost
