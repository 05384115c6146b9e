"""``telemetry.frames.records``: frames as records of a byte stream."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.frames import records as frame_records
from telemetry.frames.frame import Frame, RequestBody, ResponseData, SocketState
from telemetry.frames.records import (
    INLINE_BYTES,
    AckReader,
    Acks,
    Hello,
    MalformedRecordError,
    RecordReader,
    decode_hello,
    decode_record,
    encode_acks,
    encode_hello,
    encode_records,
)
from tests.telemetry import tap_frames
from tests.telemetry.tap_frames import WHOLE_STREAM, exchange_frames

HELLO = Hello(worker=2, pid=77, version="1.2", token="2f")
LARGE = bytes(range(256)) * 400
FRAMES: list[Frame] = [
    *exchange_frames(*WHOLE_STREAM, number=7),
    RequestBody(exchange=8, data=LARGE, size_bytes=len(LARGE)),
    RequestBody(exchange=8, data=None, size_bytes=5),
    RequestBody(exchange=8, data=b"", size_bytes=0),
    ResponseData(8, 1, LARGE),
    ResponseData(8, 2, LARGE[:INLINE_BYTES]),
]
SIZE = 1 << 20
PIECES = [piece for part in (FRAMES[:3], FRAMES[3:], []) for piece in encode_records(part, SIZE)]
WIRE = encode_hello(HELLO) + b"".join(PIECES)


def read(*pieces: bytes) -> tuple[Hello, list[Frame]]:
    """What a reader makes of these reads."""
    reader = RecordReader()
    first, *rest = [record for piece in pieces for record in reader.feed(piece)]
    return decode_hello(first), [frame for record in rest for frame in decode_record(record)]


@given(st.lists(st.integers(0, len(WIRE)), max_size=12))
def test_however_the_stream_is_cut_the_records_are_the_same(cuts: list[int]) -> None:
    """The very frames, in their order."""
    edges = [0, *sorted(cuts), len(WIRE)]
    pieces = [WIRE[a:b] for a, b in itertools.pairwise(edges)]
    assert read(*pieces) == (HELLO, FRAMES)


@pytest.mark.parametrize("extra", [0, 5, 11])
def test_what_was_not_asked_for_comes_with_the_next_read(extra: int) -> None:
    """Whoever fails in the midst of a read does not lose the records behind."""
    reader = RecordReader()
    records = [encode_records([ResponseData(1, n, b"x")], 1)[0] for n in range(3)]
    reads = b"".join(records) + records[0][:extra]
    next(iter(reader.feed(reads)))
    rest = [*reader.feed(records[0][extra:])]
    assert [frame for record in rest for frame in decode_record(record)] == [
        ResponseData(1, n, b"x") for n in (1, 2, 0)
    ]


def test_a_large_body_is_sent_as_it_is() -> None:
    """The payload is the very object, and a small body is one piece with its frame."""
    small, large = ResponseData(1, 2, LARGE[:INLINE_BYTES]), ResponseData(1, 2, LARGE)
    _, payload, _ = encode_records([small, small, large, small], SIZE)
    assert payload is LARGE
    assert encode_records([small, small], 0) == encode_records([small, small], SIZE)


@given(st.lists(st.sampled_from(FRAMES), max_size=6))
def test_what_is_known_of_the_largest_body_makes_no_difference(frames: list[Frame]) -> None:
    """Whoever says more than it is has each frame looked at, and gets the same frames."""
    largest_bytes = max((len(getattr(frame, "data", b"") or b"") for frame in frames), default=0)
    told, untold = (encode_records(frames, size) for size in (largest_bytes, SIZE))
    assert told == untold
    read = RecordReader().feed(b"".join(told))
    assert [frame for record in read for frame in decode_record(record)] == frames


def test_what_is_no_record_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths beyond reason, bytes that are no frame, a stream without its hello."""
    with pytest.raises(MalformedRecordError, match="claims"):
        list(RecordReader().feed(b"\xff" * 9))
    with pytest.raises(MalformedRecordError, match="no frames"):
        decode_record((b"\xc1", b""))
    with pytest.raises(MalformedRecordError, match="hello"):
        decode_hello((b"\xc1", b""))
    [record] = encode_records([tap_frames.begin()], 0)
    monkeypatch.setattr(frame_records, "MAX_RECORD_BYTES", len(record) - 8)
    assert len(list(RecordReader().feed(record))) == 1
    monkeypatch.setattr(frame_records, "MAX_RECORD_BYTES", len(record) - 9)
    with pytest.raises(MalformedRecordError):
        list(RecordReader().feed(record))


@given(
    st.lists(st.lists(st.integers(0, 2**63 - 1), max_size=20), max_size=4),
    st.binary(max_size=40),
    st.integers(1, 9),
)
def test_acknowledgements_survive_any_cut(settled: list[list[int]], data: bytes, size: int) -> None:
    """Numbers and states in, the same out."""
    acks = [Acks(numbers, [SocketState(7, 1, 2, data)]) for numbers in settled]
    wire = b"".join(map(encode_acks, acks))
    reader = AckReader()
    pieces = [wire[at : at + size] for at in range(0, len(wire), size)]
    assert [each for piece in pieces for each in reader.feed(piece)] == acks


def test_what_is_no_acknowledgement_is_refused() -> None:
    """The connection is then opened again."""
    with pytest.raises(MalformedRecordError, match="acknowledgements"):
        list(AckReader().feed(b"\0\0\0\1\0\0\0\0\xc1"))
