"""Row of the clients and the upstream: bodies that become far more than their bytes (R5, R8)."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import signal
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from codec.apis.table import POSTED, get_api
from codec.text.json_size import decoded_bytes
from telemetry.observing.crash_counter import _ENTRY
from telemetry.reading.stored_calls import open_calls
from tests.e2e.processes import wait_until
from tests.faults.beside import beside
from tests.faults.malformed_calls import SAMPLES
from tests.faults.raw import ASK_SECONDS, ask_all, make_call, wait_for_spans
from tests.faults.row import report_calls
from tests.faults.scripted import Stage, UpstreamThread, running_stage
from tests.faults.stage import HELD, is_long, running_spantap
from tests.faults.test_big_event import read_peak, reset_peak
from tests.proxy.harness import ANSWER, CHAT, DONE, STREAM, Connection, chunk_event

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from tests.faults.stage import RunningSpantap

MIB = 1024 * 1024

MAX_PEAK_MIB = 381
"""Of the telemetry process, all of it."""


PACKED = b"Content-Encoding: gzip\r\n"


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
        shapes = [
            (name, make_call("usual", gzip.compress(body(size), 1), head=PACKED))
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
            figures={"peak of telemetry, MiB": tell_peaks(peaks)},
        )
        assert max(peaks.values()) <= MAX_PEAK_MIB
        assert stage.spantap.children()["telemetry"] == [telemetry]
        await stage.assert_healthy()


# --- a body that telemetry dies of


@pytest.mark.timeout(300)
async def test_a_body_that_telemetry_died_of_twice_is_left_alone(tmp_path: Path) -> None:
    """It is killed in every step that works on the body: there is no third, and no call is lost."""
    hostile = make_call("usual", gzip.compress(text("word ", 48 * MIB), 1), head=PACKED)
    behind = [make_call("usual", CHAT) for _ in range(20)]
    with (
        UpstreamThread({"usual": usual}) as upstream,
        running_spantap(tmp_path, upstream=upstream.url) as spantap,
        killing_in_steps(spantap) as killed,
    ):
        for call in (hostile, *behind):
            [seen] = await ask_all(spantap.port, [call])
            assert seen.code == 200
        spans = wait_for_spans(spantap.store, [hostile, *behind], DECODING_SECONDS)
        report_calls(
            "telemetry killed in every step that works on one body",
            [hostile, *behind],
            spans,
            client_saw="every answer, whole",
            figures={"kills": len(killed)},
        )
        with open_calls(spantap.store) as reader:
            stored = {
                trace_id: reader.find(span.span_id)[0].span for trace_id, span in spans.items()
            }
        wait_until(
            lambda: spantap.metrics()["spantap_spans_failed_total"] == 1, 20, "it is counted"
        )
    assert len(killed) == 2
    assert b"observer_died" in stored.pop(hostile.trace_id)
    for call in behind:
        assert spans[call.trace_id].outcome == "completed"
        assert spans[call.trace_id].total_tokens == 4
        assert b"Hello" in stored[call.trace_id]
        assert b"observer_" not in stored[call.trace_id]
    assert not crashes_file(spantap).read_bytes(), "what was recorded is forgotten"


def crashes_file(spantap: RunningSpantap) -> Path:
    return spantap.store.with_name(f"{spantap.store.name}.strikes")


@contextlib.contextmanager
def killing_in_steps(spantap: RunningSpantap) -> Iterator[list[int]]:
    """SIGKILL to each telemetry process that is in a step with a large body; the ids of these."""
    killed: list[int] = []

    def is_in_step() -> bool:
        """Whether one is under way, begun by a process that knows of all kills so far."""
        with contextlib.suppress(FileNotFoundError):
            entries = _ENTRY.iter_unpack(crashes_file(spantap).read_bytes())
            return any(is_begun and count == len(killed) for _, count, is_begun in entries)
        return False

    def look(over: threading.Event) -> None:
        while not over.wait(0.001):
            if not is_in_step():
                continue
            [pid] = spantap.children()["telemetry"]
            os.kill(pid, signal.SIGSTOP)  # or the step might end before the signal comes
            wait_until(partial(is_stopped, pid), 10, "it stands still")
            is_due = is_in_step()
            os.kill(pid, signal.SIGKILL if is_due else signal.SIGCONT)
            killed.extend([pid] * is_due)

    with beside(look):
        yield killed


def is_stopped(pid: int) -> bool:
    """Whether a process stands still, by its state behind the name in ``stat``."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T")


# --- the costliest bodies that are decoded


class Costly(NamedTuple):
    """A request and an answer of an API, and the unit of which each is to have many."""

    asked: bytes
    unit: bytes
    answered: bytes
    answer_unit: bytes


COSTLY = {
    "chat.completions": Costly(
        b'{"model":"m","messages":[{"role":"user","content":[|]}]}',
        b'{"type":"text","text":"a"}',
        b'{"id":"c","model":"m","choices":[|]}',
        b'{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}',
    ),
    "completions": Costly(
        b'{"model":"m","prompt":[|]}',
        b'"a"',
        b'{"id":"c","model":"m","choices":[|]}',
        b'{"index":0,"text":"a","finish_reason":"stop"}',
    ),
    "embeddings": Costly(
        b'{"model":"m","input":[|]}',
        b'"a"',
        b'{"data":[|]}',
        b'{"index":0,"embedding":[0.5]}',
    ),
    "responses": Costly(
        b'{"model":"m","input":[|]}',
        b'{"role":"user","content":"a"}',
        b'{"id":"r","object":"response","status":"completed","output":[|]}',
        b'{"type":"function_call","name":"f","arguments":"{}"}',
    ),
    "messages": Costly(
        b'{"model":"m","messages":[|]}',
        b'{"role":"user","content":"a"}',
        b'{"id":"m","type":"message","role":"assistant","stop_reason":"tool_use","content":[|]}',
        b'{"type":"tool_use","id":"a","name":"f","input":{"a":1}}',
    ),
    "count_tokens": Costly(
        b'{"model":"m","messages":[|]}',
        b'{"role":"user","content":"a"}',
        b'{"input_tokens":3,"x":[|]}',
        b"[]",
    ),
    "gemini.generate": Costly(
        b'{"contents":[{"role":"model","parts":[|]}]}',
        b'{"functionCall":{"name":"f","args":{"a":1}}}',
        b'{"candidates":[{"content":{"role":"model","parts":[|]},"finishReason":"STOP"}]}',
        b'{"functionCall":{"name":"f","args":{"a":1}}}',
    ),
    "gemini.count": Costly(
        b'{"contents":[{"role":"model","parts":[|]}]}',
        b'{"functionCall":{"name":"f","args":{"a":1}}}',
        b'{"totalTokens":3,"x":[|]}',
        b"[]",
    ),
    "code_assist.generate": Costly(
        b'{"model":"m","request":{"contents":[{"role":"model","parts":[|]}]}}',
        b'{"functionCall":{"name":"f","args":{"a":1}}}',
        b'{"response":{"candidates":[{"content":{"role":"model","parts":[|]},'
        b'"finishReason":"STOP"}]},"traceId":"t"}',
        b'{"functionCall":{"name":"f","args":{"a":1}}}',
    ),
    "code_assist.count": Costly(
        b'{"request":{"contents":[{"role":"model","parts":[|]}]}}',
        b'{"functionCall":{"name":"f","args":{"a":1}}}',
        b'{"totalTokens":3,"x":[|]}',
        b"[]",
    ),
    "gemini.embed": Costly(
        b'{"requests":[|]}',
        b'{"content":{"parts":[{"text":"a"}]}}',
        b'{"embeddings":[|]}',
        b'{"values":[0.5]}',
    ),
    "ollama.chat": Costly(
        b'{"model":"m","stream":false,"messages":[|]}',
        b'{"role":"user","content":"a"}',
        b'{"model":"m","done":true,"message":{"role":"assistant","tool_calls":[|]}}',
        b'{"function":{"name":"f","arguments":{"a":1}}}',
    ),
    "ollama.generate": Costly(
        b'{"model":"m","stream":false,"prompt":"a","images":[|]}',
        b'"a"',
        b'{"model":"m","done":true,"response":"a","context":[|]}',
        b"1",
    ),
    "ollama.embed": Costly(
        b'{"model":"m","input":[|]}',
        b'"a"',
        b'{"model":"m","embeddings":[|]}',
        b"[0.5]",
    ),
    "rerank": Costly(
        b'{"model":"m","query":"q","documents":[|]}',
        b'"a"',
        b'{"results":[|]}',
        b'{"index":1,"relevance_score":0.5}',
    ),
    "moderations": Costly(
        b'{"model":"m","input":[|]}',
        b'"a"',
        b'{"results":[|]}',
        b'{"flagged":true,"categories":{"a":true}}',
    ),
    "images": Costly(
        b'{"model":"m","prompt":"p","images":[|]}',
        b'{"image_url":"a"}',
        b'{"created":1,"data":[|]}',
        b'{"revised_prompt":"a","url":"b"}',
    ),
    "audio.speech": Costly(
        b'{"model":"m","input":"a","x":[|]}', b"[]", b'{"audio_data":"AAAA","x":[|]}', b"[]"
    ),
    "audio.transcriptions": Costly(
        b'{"model":"m","x":[|]}', b"[]", b'{"text":"a","segments":[|]}', b'{"text":"a"}'
    ),
    "audio.translations": Costly(
        b'{"model":"m","x":[|]}', b"[]", b'{"text":"a","segments":[|]}', b'{"text":"a"}'
    ),
}
"""For each API that has them, the units that take most memory for what decoding them is said to."""


HALF_BYTES = 85 * MIB
"""What the values of each side take, so that beside their bytes both have room at once."""


def fill(body: bytes, unit: bytes) -> bytes:
    """The body with as many units as there is room for."""
    before, after = body.split(b"|")
    count = HALF_BYTES * 1000 // decoded_bytes((unit + b",") * 1000)
    return before + b",".join([unit] * count) + after


@pytest.mark.timeout(300)
async def test_the_largest_bodies_that_are_decoded_keep_telemetry_within_its_memory(
    tmp_path: Path,
) -> None:
    """Of each API, request and answer at once: nothing of them is left out, or stays held."""
    assert COSTLY.keys() | {"gemini.stream", "code_assist.stream"} == {api.name for api in POSTED}
    made = {
        name: (fill(one.asked, one.unit), fill(one.answered, one.answer_unit))
        for name, one in COSTLY.items()
        if is_long() or name == "gemini.embed"
    }

    async def answer(_: UpstreamThread, connection: Connection) -> None:
        await connection.answer(made[connection.request_line.split(b"/")[2].decode()][1])

    with running_stage(tmp_path, {"costly": answer}) as stage:
        [telemetry] = stage.spantap.children()["telemetry"]
        peaks: dict[str, int] = {}
        calls = []
        for name, (asked, _) in made.items():
            reset_peak(telemetry)
            path = SAMPLES[name].path if name in SAMPLES else get_api(name).path_ends[0]
            call = make_call(f"costly/{name}", gzip.compress(asked, 1), target=path, head=PACKED)
            [seen] = await ask_all(stage.spantap.port, [call])
            assert seen.code == 200
            span_id = wait_for_spans(stage.spantap.store, [call])[call.trace_id].span_id
            with open_calls(stage.spantap.store) as reader:
                [stored] = reader.find(span_id)
            assert b"observer_limit" not in stored.span, name
            peaks[name] = read_peak(telemetry) // MIB
            calls.append(call)
        report_calls(
            "the largest bodies of each API that are decoded, request and answer at once",
            calls,
            wait_for_spans(stage.spantap.store, calls),
            client_saw="every answer, whole",
            figures={"peak of telemetry, MiB": tell_peaks(peaks)},
        )
        assert max(peaks.values()) <= MAX_PEAK_MIB
        await stage.assert_healthy()


def tell_peaks(peaks: dict[str, int]) -> str:
    """The peaks in a row's words."""
    return ", ".join(f"{name} {mib}" for name, mib in peaks.items())


# --- streams that stay open

STREAMS = 60 if is_long() else 15
"""Of some 16 MiB each that are kept 12 fill the room for all."""

PACKED_STREAM_BYTES = 47 * 1024

DECODING_SECONDS = 120.0
"""How long telemetry may take for gigabytes of text, on a busy machine."""


def pack_stream() -> bytes:
    """A stream of so many bytes on the wire, in texts of 1 MiB, and of 600 times that."""
    packer = zlib.compressobj(wbits=31)
    event = chunk_event(f'"content":"{"word " * (MIB // 5)}"')
    packed = packer.compress(STREAM[0])
    while len(packed) < PACKED_STREAM_BYTES:
        packed += packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)
    return packed + packer.compress(STREAM[3] + DONE) + packer.flush()


@pytest.mark.timeout(400)
async def test_open_gzip_streams_keep_telemetry_within_its_memory(tmp_path: Path) -> None:
    """Megabytes on the wire, and gigabytes of text: all that is open has one limit."""
    packed = pack_stream()

    async def hold_open(upstream: UpstreamThread, connection: Connection) -> None:
        await connection.begin_stream(PACKED)
        await connection.send_chunks(packed[:-100], end=False)
        await upstream.wait_released(connection)
        await connection.send_chunks(packed[-100:])

    with running_stage(tmp_path, {"hold_open": hold_open}) as stage:
        [telemetry] = stage.spantap.children()["telemetry"]
        calls = [make_call("hold_open") for _ in range(STREAMS)]
        asking = asyncio.ensure_future(ask_all(stage.spantap.port, calls, at_once=STREAMS))
        await wait_until_read(stage)
        for call in calls:
            stage.upstream.release(call.trace_id)
        assert all(seen.whole for seen in await asking)
        peak_mib = read_peak(telemetry) // MIB
        report_calls(
            f"{STREAMS} gzip streams of {len(packed) >> 10} KiB that stay open",
            calls,
            wait_for_spans(stage.spantap.store, calls, DECODING_SECONDS),
            client_saw="every answer, whole",
            figures={"peak of telemetry": f"{peak_mib} MiB"},
        )
        assert peak_mib <= MAX_PEAK_MIB
        await stage.assert_healthy()


async def wait_until_read(stage: Stage) -> None:
    """Wait until telemetry has read what has come, while its clients wait for more."""
    held = [0.0]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ASK_SECONDS / 2):
            while not held[-1] or held[-3:] != [held[-1]] * 3:
                await asyncio.sleep(1.5)
                held.append(stage.spantap.metrics()[HELD])
