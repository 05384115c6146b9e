"""Row of the upstream: 100 MB in one event, and what they cost in memory (R5)."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from dataclasses import dataclass
from pathlib import Path

from tests.faults.raw import Call, connected, make_call, wait_for_spans
from tests.faults.row import report_calls
from tests.faults.scripted import UpstreamThread, running_stage
from tests.faults.stage import scale
from tests.proxy.harness import DONE, STREAM, Connection, chunk_event

MIB = 1024 * 1024

MAX_GROWTH_MIB = 220
"""What waits between relay and observer (96 MiB), twice over for copies on the way."""


async def big_event(_: UpstreamThread, connection: Connection) -> None:
    """One event of as many bytes as the path says, made as it is sent."""
    size = int(connection.request_line.split(b"/")[2])
    await connection.begin_stream()
    await connection.send_chunks(STREAM[0], end=False)
    head, tail = chunk_event('"content":"|"').split(b"|")
    await connection.send(b"%x\r\n" % (len(head) + size + len(tail)), head)
    block = b"x" * MIB
    for _block in range(size // MIB):
        await connection.send(block)
    await connection.send(tail, b"\r\n")
    await connection.send_chunks(STREAM[3], DONE)


async def test_one_event_of_100_mb_passes_in_bounded_memory(tmp_path: Path) -> None:
    """R5: byte for byte, while no process holds more than its limits; one span, marked."""
    size = MIB * max(24, round(100 * min(scale() * 2, 1)))
    with running_stage(tmp_path, {"big_event": big_event}) as stage:
        call = make_call(f"big_event/{size}")
        direct = await digest_answer(stage.upstream.port, call)
        pids = stage.spantap.pids()
        before = {pid: reset_peak(pid) for pid in pids}
        proxied = await digest_answer(stage.spantap.port, call)
        assert proxied.digest == direct.digest
        assert proxied.size_bytes == direct.size_bytes > size
        spans = wait_for_spans(stage.spantap.store, [call])
        grown = {pid: (read_peak(pid) - before[pid]) / MIB for pid in pids}
        rate = [size / MIB / side.seconds for side in (direct, proxied)]
        report_calls(
            f"upstream sends {size // MIB} MiB in one event",
            [call],
            spans,
            client_saw="the same bytes as directly, by their digest",
            added_latency=f"{rate[1]:.0f} MiB/s, {rate[0]:.0f} MiB/s directly",
            figures={
                "peak of memory over idle": " + ".join(f"{g:.0f} MiB" for g in grown.values()),
                "span": f"{spans[call.trace_id].outcome}, "
                f"{spans[call.trace_id].size_bytes / 1024:.0f} KiB",
            },
        )
        assert spans[call.trace_id].outcome == "completed"
        assert sum(grown.values()) < MAX_GROWTH_MIB
        await stage.assert_healthy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Digested:
    """An answer that is too long to be kept."""

    digest: str
    size_bytes: int
    seconds: float


async def digest_answer(port: int, call: Call) -> Digested:
    """Read an answer, chunk by chunk, without keeping it."""
    begun = time.monotonic()
    digest, size = hashlib.sha256(), 0
    async with connected(port) as (reader, writer), asyncio.timeout(120):
        writer.write(call.data)
        await reader.readuntil(b"\r\n\r\n")
        while left := int(await reader.readuntil(b"\r\n"), 16):
            size += left
            while left:
                piece = await reader.read(min(left, MIB))
                assert piece, "cut off"
                digest.update(piece)
                left -= len(piece)
            await reader.readexactly(2)
    seconds = time.monotonic() - begun
    return Digested(digest=digest.hexdigest(), size_bytes=size, seconds=seconds)


def reset_peak(pid: int) -> int:
    """Begin the peak of a process's memory anew (proc(5), ``clear_refs``); where it is now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return read_peak(pid)


def read_peak(pid: int) -> int:
    """The most memory that a process has held, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) * 1024
