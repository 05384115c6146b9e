"""Rows of big answers and requests: 200 MB in one event, 50 MB of base64; their memory (R5)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from proxy.limits import MAX_ANSWER_BYTES
from telemetry.reading.stored_calls import open_calls
from telemetry.spans.otlp.decoding import decode_spans
from tests.corpus.built.wire import FORM, STREAM_FIELD, find_type
from tests.corpus.oracle import parse_json
from tests.faults.big_events import PICTURES, WORDS
from tests.faults.raw import Call, ask_all, connected, make_call, wait_for_spans
from tests.faults.row import report_calls
from tests.faults.scripted import Stage, UpstreamThread, running_stage
from tests.faults.stage import scale
from tests.proxy.api_endings import BUILT, head_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.proxy.harness import Connection

MIB = 1024 * 1024

MAX_GROWTH_MIB = 220
"""What waits between relay and observer (96 MiB), twice over for copies on the way."""

MAX_GROWTH_BY_FILES_MIB = 48
"""What waits between the client and the upstream (22 MiB measured), twice over."""

MAX_TELEMETRY_MIB = 381
"""Of the telemetry process, all of it (:mod:`tests.faults.test_hostile_bodies`)."""

STREAMS = {f"words of {name}": big for name, big in WORDS.items()}
STREAMS |= {f"a picture of {name}": big for name, big in PICTURES.items()}
"""By their names in a path."""


async def big_event(_: UpstreamThread, connection: Connection) -> None:
    """One event of as many bytes as the path says, made as it is sent."""
    number, size = (int(part) for part in connection.request_line.split(b"/")[2:4])
    big = [*STREAMS.values()][number]
    await connection.send(big.head)
    await connection.send(b"%x\r\n" % (len(big.before) + size + len(big.after)), big.before)
    block = b"x" * MIB
    for _block in range(size // MIB):
        await connection.send(block)
    await connection.send(big.after, b"\r\n")
    await connection.send_chunks()


async def answer(_: UpstreamThread, connection: Connection) -> None:
    """A plain answer of the API in the path."""
    api = connection.request_line.split(b"/")[2].decode()
    recording = BUILT[api, _PLAIN[api]]
    await connection.send(head_of(recording))
    await connection.send_chunks(recording.body)


@pytest.fixture(name="stage")
def _stage(tmp_path: Path) -> Iterator[Stage]:
    with running_stage(tmp_path, {"big_event": big_event, "answer": answer}) as running:
        yield running


def size_of(mib: int) -> int:
    """That many MiB in the long form, and no less than the observer's limit of an event."""
    return MIB * max(24, round(mib * min(scale() * 2, 1)))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", STREAMS)
async def test_one_event_of_any_size_passes_in_bounded_memory(stage: Stage, name: str) -> None:
    """R5: byte for byte, while no process holds more than its limits; one span, marked.

    Words of 200 MB, which are too much for the observer. Base64 it counts as it comes, in as much
    of an answer as is copied for it: the short form's picture, and not the long one's of 50 MB.
    """
    is_picture = name.startswith("a picture")
    size, big = size_of(50 if is_picture else 200), STREAMS[name]
    number = [*STREAMS].index(name)
    call = make_call(f"big_event/{number}/{size}", big.request, target=big.target)
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
        f"upstream sends {size // MIB} MiB in one event, {name}",
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
    attributes = read_attributes(stage, call)
    anomalies = parse_json(attributes["metadata"]).get("anomalies", ())
    assert ("observer_limit" in anomalies) is not (is_picture and size < MAX_ANSWER_BYTES)
    assert sum(grown.values()) < MAX_GROWTH_MIB
    await stage.assert_healthy()


_PICTURES_ASKED: dict[str, dict[str, Any]] = {
    "gemini.generate": {
        "contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "|"}}]}]
    },
    "images": {"images": [{"image_url": "data:image/png;base64,|"}]},
    "messages": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "|"},
                    }
                ],
            }
        ]
    },
    "ollama.chat": {"messages": [{"role": "user", "content": "See", "images": ["|"]}]},
    "responses": {
        "input": [
            {
                "role": "user",
                "content": [{"type": "input_image", "image_url": "data:image/png;base64,|"}],
            }
        ]
    },
    "rerank": {"documents": [{"image": "data:image/png;base64,|"}]},
    "moderations": {
        "input": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,|"}}]
    },
}
"""Members of a request with a picture in it."""

_PLAIN = {
    "audio.transcriptions": "words",
    "gemini.generate": "an answer cut by its limit",
    "images": "an address",
    "messages": "a plain refusal",
    "moderations": "Mistral's",
    "ollama.chat": "a plain chat",
    "rerank": "Jina's",
    "responses": "a refusal in one piece",
}


@pytest.mark.timeout(300)
async def test_pictures_of_any_size_in_requests_pass_in_bounded_memory(stage: Stage) -> None:
    """R5: the upstream has the body, and the span no more of the picture than it may show."""
    size = size_of(50)
    [telemetry] = stage.spantap.children()["telemetry"]
    calls, peaks = [], {}
    picture = "iVBORw0KGgoA" + "A" * size
    for api, members in _PICTURES_ASKED.items():
        recording = BUILT[api, _PLAIN[api]]
        body = json.dumps(parse_json(recording.request) | members).replace("|", picture).encode()
        call = make_call(f"answer/{api}", body, target=recording.target.decode())
        reset_peak(telemetry)
        [direct] = await ask_all(stage.upstream.port, [call])
        [proxied] = await ask_all(stage.spantap.port, [call])
        assert proxied == direct
        wait_for_spans(stage.spantap.store, [call])
        peaks[api] = read_peak(telemetry) // MIB
        attributes = read_attributes(stage, call)
        assert picture[:40_000] not in str(attributes)
        assert "request_undecodable" not in parse_json(attributes["metadata"]).get("anomalies", ())
        calls.append(call)
    report_calls(
        f"requests with a picture of {size // MIB} MiB",
        calls,
        wait_for_spans(stage.spantap.store, calls),
        client_saw="the same as directly",
        figures={"peak of telemetry, MiB": ", ".join(f"{api} {mib}" for api, mib in peaks.items())},
    )
    assert max(peaks.values()) <= MAX_TELEMETRY_MIB
    await stage.assert_healthy()


@pytest.mark.timeout(300)
async def test_a_file_of_any_size_in_a_form_passes_in_no_memory(stage: Stage) -> None:
    """R5: it is over the limit of bodies, and its fields are on the span, whichever come last."""
    size = size_of(200)
    file = FORM.replace(b"\x00", b"x" * size)
    asked = file % (b"file", STREAM_FIELD)
    target = BUILT["audio.transcriptions", "words"].target.decode()
    kind = find_type(asked)
    call = make_call("answer/audio.transcriptions", asked, target=target, content_type=kind)
    [direct] = await ask_all(stage.upstream.port, [call])
    before = {pid: reset_peak(pid) for pid in stage.spantap.pids()}
    [proxied] = await ask_all(stage.spantap.port, [call])
    assert proxied == direct
    spans = wait_for_spans(stage.spantap.store, [call])
    grown = {pid: (read_peak(pid) - peak) / MIB for pid, peak in before.items()}
    report_calls(
        f"a form with a file of {size // MIB} MiB",
        [call],
        spans,
        client_saw="the same as directly",
        figures={"peak of memory over idle": " + ".join(f"{g:.0f} MiB" for g in grown.values())},
    )
    attributes = read_attributes(stage, call)
    told = parse_json(attributes["input.value"])
    assert (told["file"]["bytes"], told["model"], told["stream"]) == (
        size + len(b"\r\n--buil\xff"),
        "m-1",
        "true",
    )
    assert "anomalies" not in parse_json(attributes["metadata"])
    assert sum(grown.values()) < MAX_GROWTH_BY_FILES_MIB
    await stage.assert_healthy()


def read_attributes(stage: Stage, call: Call) -> dict[str, Any]:
    """Those of the span of a call, as the store has them."""
    [row] = wait_for_spans(stage.spantap.store, [call]).values()
    with open_calls(stage.spantap.store) as reader:
        [stored] = reader.find(row.span_id)
    [span] = decode_spans(stored.span)
    return dict(span.attributes)


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
