"""Row of the clients and the upstream: bodies that become far more than their bytes (R5, R8)."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from tests.faults.raw import ask_all, make_call, wait_for_spans
from tests.faults.row import report_calls
from tests.faults.scripted import UpstreamThread, running_stage
from tests.faults.stage import is_long
from tests.faults.test_big_event import read_peak
from tests.proxy.harness import ANSWER, CHAT, Connection

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 1024 * 1024

MAX_PEAK_MIB = 381
"""Of the telemetry process, all of it."""


def many(unit: bytes, size_bytes: int) -> bytes:
    """A chat with so many bytes of small values in it."""
    return CHAT[:-1] + b',"x":[' + (unit + b",") * (size_bytes // (len(unit) + 1)) + b"0]}"


def text(piece: str, size_bytes: int) -> bytes:
    """A chat with one long text."""
    data = piece.encode()
    return CHAT.replace(b"hi", data * (size_bytes // len(data)))


BODIES: dict[str, Callable[[int], bytes]] = {
    "lists": lambda size: many(b"[]", size),
    "objects": lambda size: many(b'{"a":1}', size),
    "messages": lambda size: CHAT.replace(
        b"]}", b',{"role":"user","content":"hi"}' * (size // 32) + b"]}"
    ),
    "a text": lambda size: text("word ", size),
    "a text with one emoji": lambda size: text("word ", size).replace(
        b"word ", b"\xf0\x9f\x98\x80", 1
    ),
    "no JSON": lambda size: b"\xff" * size,
}


async def plain_of(_: UpstreamThread, connection: Connection) -> None:
    """An answer of small values, of as many bytes as the path says."""
    size = int(connection.request_line.split(b"/")[2])
    await connection.answer(ANSWER[:-1] + b',"x":[' + b"{}," * (size // 3) + b"0]}")


async def events_of(_: UpstreamThread, connection: Connection) -> None:
    """A stream of events of small values."""
    await connection.begin_stream()
    size = int(connection.request_line.split(b"/")[2])
    event = b'data: {"choices":[],"x":[' + b"[]," * (2 * MIB) + b"0]}\n\n"
    await connection.send_chunks(*[event] * (size // len(event) + 1))


async def usual(_: UpstreamThread, connection: Connection) -> None:
    """An ordinary answer."""
    await connection.answer()


SCRIPTS = {"plain": plain_of, "events": events_of, "usual": usual}


@pytest.mark.timeout(300)
async def test_no_body_takes_telemetry_past_its_memory(tmp_path: Path) -> None:
    """Each call has its span, the ordinary ones behind it whole, and nothing stays held.

    They come compressed: as they are, the way there would take longer than what is tested.
    """
    size = 62 * MIB if is_long() else 24 * MIB
    with running_stage(tmp_path, SCRIPTS) as stage:
        [telemetry] = stage.spantap.children()["telemetry"]
        peaks: dict[str, int] = {}
        calls = []
        packed = b"Content-Encoding: gzip\r\n"
        shapes = [
            (name, make_call("usual", gzip.compress(body(size), 1), head=packed))
            for name, body in BODIES.items()
            if is_long() or name == "objects"
        ]
        answers = {"plain": 15 * MIB, "events": 30 * MIB}
        if is_long():
            shapes += [(f"answer: {name}", make_call(f"{name}/{n}")) for name, n in answers.items()]
        for name, hostile in shapes:
            behind = make_call("usual", CHAT)
            for call in (hostile, behind):
                [seen] = await ask_all(stage.spantap.port, [call])
                assert seen.code == 200
            spans = wait_for_spans(stage.spantap.store, [hostile, behind])
            assert spans[behind.trace_id].total_tokens == 4
            peaks[name] = read_peak(telemetry) // MIB
            calls += [hostile, behind]
        spans = wait_for_spans(stage.spantap.store, calls)
        report_calls(
            f"bodies of {size // MIB} MiB made of small values, wide text, no JSON",
            calls,
            spans,
            client_saw="every answer, whole",
            figures={
                "peak of telemetry, MiB": ", ".join(f"{kind} {mib}" for kind, mib in peaks.items())
            },
        )
        assert max(peaks.values()) <= MAX_PEAK_MIB
        assert stage.spantap.children()["telemetry"] == [telemetry]
        await stage.assert_healthy()
