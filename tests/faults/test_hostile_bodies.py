"""Row of the clients and the upstream: bodies that become far more than their bytes (R5, R8)."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import TYPE_CHECKING

import pytest

from tests.faults.call_rows import report_calls
from tests.faults.raw import ask_all, make_call, wait_for_spans
from tests.faults.scripted import UpstreamThread, running_stage
from tests.faults.stage import is_long
from tests.faults.test_big_event import read_peak
from tests.proxy.harness import ANSWER, CHAT, DONE, Connection, chunk_event

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 1024 * 1024

MAX_PEAK_MIB = 400
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


async def packed_text(upstream: UpstreamThread, connection: Connection) -> None:
    """A stream of text that is small on the wire, open until it is released."""
    packer = zlib.compressobj(9, wbits=31)
    await connection.begin_stream(b"Content-Encoding: gzip\r\n")
    event = chunk_event(f'"content":"{"x" * MIB}"')
    for _ in range(15):
        data = packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)
        await connection.send_chunks(data, end=False)
    await upstream.wait_released(connection)
    await connection.send_chunks(packer.compress(DONE) + packer.flush())


async def usual(_: UpstreamThread, connection: Connection) -> None:
    """An ordinary answer."""
    await connection.answer()


SCRIPTS = {"plain": plain_of, "events": events_of, "packed": packed_text, "usual": usual}


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
            figures={"peak of telemetry after each, MiB": str(peaks)},
        )
        assert max(peaks.values()) <= MAX_PEAK_MIB
        assert stage.spantap.children()["telemetry"] == [telemetry]
        await stage.assert_healthy()


@pytest.mark.skipif(not is_long(), reason="a minute; tests/telemetry/test_open_bodies.py is short")
@pytest.mark.timeout(300)
async def test_open_streams_share_one_limit(tmp_path: Path) -> None:
    """Compressed text that is some kilobytes on the wire; usual streams beside it are whole."""
    count = 60
    with running_stage(tmp_path, SCRIPTS) as stage:
        [telemetry] = stage.spantap.children()["telemetry"]
        calls = [make_call("packed") for _ in range(count)]
        async with asyncio.TaskGroup() as group:
            answers = group.create_task(ask_all(stage.spantap.port, calls, at_once=count))
            for call in calls:
                await stage.upstream.wait_asked(call)
            beside = [make_call("healthy") for _ in range(4)]
            await ask_all(stage.spantap.port, beside)
            spans = wait_for_spans(stage.spantap.store, beside)
            assert {spans[call.trace_id].outcome for call in beside} == {"completed"}
            assert all(spans[call.trace_id].total_tokens for call in beside)
            for call in calls:
                stage.upstream.release(call.trace_id)
        assert all(seen.whole for seen in answers.result())
        peak = read_peak(telemetry) // MIB
        report_calls(
            f"{count} open streams of 15 MB of text, some kilobytes each on the wire",
            calls,
            wait_for_spans(stage.spantap.store, calls),
            client_saw="every answer, whole",
            figures={"peak of telemetry, MiB": peak},
        )
        assert peak <= MAX_PEAK_MIB
