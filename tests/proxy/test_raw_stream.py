"""``proxy.reading.raw_stream``: the true bytes of an answer as lines, with their times."""

from __future__ import annotations

import gzip
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import brotli  # type: ignore[import-untyped]  # it has no stubs
import pytest
from opentelemetry.sdk.resources import Resource

from proxy.reading.raw_stream import StreamLine, measure_time, walk_lines
from telemetry.raw_answer import MAX_RAW_READS, RawAnswer
from telemetry.reading.stored_calls import open_calls
from telemetry.service import TelemetryService
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import RawPolicy, SpanRules
from telemetry.store.store import Store
from tests.telemetry.canary_shapes import SHAPES
from tests.telemetry.tap_frames import MS, START_NS, begin, cut, exchange_frames, identity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

STREAMS = {name: members for name, (members, _) in SHAPES.items() if b"\n" in members["data"]}
"""Streams of every API that has some, by name."""


def make_answer(*reads: tuple[int, bytes], encoding: str = "", kind: str = "") -> RawAnswer:
    """An answer of these reads, each with its time in milliseconds."""
    times = [ms for ms, _ in reads]
    return RawAnswer(
        content_type=kind,
        content_encoding=encoding,
        first_ns=START_NS + times[0] * MS,
        waits_ns=(0, *[(b - a) * MS for a, b in pairwise(times)]),
        sizes_bytes=tuple(len(data) for _, data in reads),
        left_bytes=0,
        body=b"".join(data for _, data in reads),
    )


def told(answer: RawAnswer) -> list[tuple[int, int | None, str | None]]:
    """The lines: time and wait in milliseconds, and text."""
    return [
        ((at - START_NS) // MS, None if wait is None else wait // MS, text)
        for at, wait, text, _ in walk_lines(answer)
    ]


def test_lines_of_one_read_have_one_time() -> None:
    """And the wait for it."""
    answer = make_answer((100, b"event: a\ndata: 1\n\n"), (150, b"data: 2\n\n"))
    assert told(answer) == [
        (100, 0, "event: a"),
        (100, None, "data: 1"),
        (100, None, ""),
        (150, 50, "data: 2"),
        (150, None, ""),
    ]
    assert measure_time(answer) == 50 * MS


def test_a_line_of_several_reads_is_one_unless_it_paused() -> None:
    """It has the time at which it began; the next line that of its read."""
    answer = make_answer((0, b"da"), (5, b"ta: "), (9, b"1\ndata"), (1009, b": 2"), (1010, b"\nx"))
    assert told(answer) == [
        (0, 0, "data: 1"),
        (9, 4, "data"),
        (1009, 1000, ": 2"),
        (1010, 1, "x"),
    ]


def test_a_line_may_come_in_as_many_reads_as_are_kept() -> None:
    """JSON without line ends is one line, however small its reads were."""
    answer = make_answer(*[(at // 100, b"%015d," % at) for at in range(MAX_RAW_READS)])
    [line] = walk_lines(answer)
    assert line == StreamLine(START_NS, 0, answer.body.decode())


def test_a_character_may_be_cut_by_a_read() -> None:
    """A carriage return stays, and bytes of no character are marked."""
    answer = make_answer((0, b"caf\xc3"), (1, b"\xa9\r\n"), (2, b"\xff\n"))
    assert told(answer) == [(0, 0, "café\r"), (2, 1, "\ufffd")]


@pytest.mark.parametrize(
    "answer",
    [
        make_answer((0, b"ID3\x04\0"), (30, b"\xff\xfb"), kind="audio/mpeg"),
        make_answer((0, b"abcde"), (30, b"fg"), encoding="rot13"),
        make_answer((0, b"abcde"), (30, b"fg"), encoding="gzip"),
    ],
    ids=["sound", "an unknown coding", "a coding that is not what it says"],
)
def test_what_is_no_text_is_counted(answer: RawAnswer) -> None:
    """Read by read."""
    assert [*walk_lines(answer)] == [
        StreamLine(START_NS, 0, None, 5),
        StreamLine(START_NS + 30 * MS, 30 * MS, None, 2),
    ]


def record(folder: Path, reads: Sequence[bytes], members: dict[str, Any], coding: str) -> RawAnswer:
    """Record a call whose answer has these reads, 10 ms apart; return its true bytes."""
    rules = SpanRules(raw=RawPolicy.ALL)
    members = {name: value for name, value in members.items() if name != "data"}
    first = begin(
        endpoint=members.pop("endpoint", "chat.completions"),
        path=members.pop("path", "/v1/chat/completions"),
    )
    headers = [*members.pop("headers", []), *([("content-encoding", coding)] if coding else [])]
    with Store.open(folder / "traces.db") as store:
        service = TelemetryService(
            SpanRecorder(Resource.get_empty(), build_span_limits(), rules),
            store,
            rules=rules,
            now_ns=lambda: START_NS,
        )
        for frame in (first, *exchange_frames(*reads, headers=headers, **members)[1:]):
            service.feed(frame)
        service.commit()
    with open_calls(folder / "traces.db") as calls:
        stored = calls.one(identity().span_id)
        assert stored is not None
        answer = calls.raw_answer(stored.summary.seq)
        assert answer is not None
        return answer


def pack_gzip(pieces: Sequence[bytes]) -> list[bytes]:
    """The pieces as a server flushes them."""
    encoder = zlib.compressobj(wbits=31)
    packed = [encoder.compress(one) + encoder.flush(zlib.Z_SYNC_FLUSH) for one in pieces]
    return [*packed[:-1], packed[-1] + encoder.flush()]


def pack_brotli(pieces: Sequence[bytes]) -> list[bytes]:
    """The pieces as a server flushes them."""
    encoder = brotli.Compressor()
    packed = [encoder.process(one) + encoder.flush() for one in pieces]
    return [*packed[:-1], packed[-1] + encoder.finish()]


CODINGS: dict[str, Callable[[Sequence[bytes]], list[bytes]]] = {
    "": list,
    "gzip": pack_gzip,
    "br": pack_brotli,
}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("name", STREAMS)
def test_streams_of_every_api_are_shown_as_they_came(
    tmp_path: Path, name: str, coding: str
) -> None:
    """Encoded or not: their text, and the pauses between reads."""
    data = STREAMS[name]["data"]
    pieces = cut(data, [len(data) // 3, 2 * len(data) // 3])
    reads = CODINGS[coding](pieces)
    answer = record(tmp_path, reads, STREAMS[name], coding)
    assert answer.body == b"".join(reads)
    lines = [*walk_lines(answer)]
    assert "\n".join(line.text or "" for line in lines) == data.decode().rstrip("\n") or (
        "".join(f"{line.text}\n" for line in lines) == data.decode()
    )
    times = {line.at_ns for line in lines}
    assert times <= {START_NS + (100 + 10 * at) * MS for at in range(len(pieces))}
    assert len(times) > 1


def test_a_compressed_answer_of_one_read_has_one_time() -> None:
    """Nothing more is known."""
    answer = make_answer((7, gzip.compress(b"data: 1\n\ndata: 2\n\n")), encoding="gzip")
    assert told(answer) == [(7, 0, "data: 1"), (7, None, ""), (7, None, "data: 2"), (7, None, "")]
