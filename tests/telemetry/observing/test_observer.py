"""``telemetry.observing.observer``: tap frames in, one record out, however they are cut."""

from __future__ import annotations

import gzip
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry.frames.ending import EndKind
from telemetry.frames.frame import (
    End,
    RequestBody,
    ResponseData,
    ResponseHead,
    decode_frames,
    encode_frames,
)
from telemetry.observing.chunk_timing import ChunkTiming
from telemetry.observing.exchange import Outcome
from telemetry.observing.observer import Observer
from telemetry.observing.open_bodies import OpenBodies
from tests.telemetry import tap_frames
from tests.telemetry.observed import content, observe
from tests.telemetry.tap_frames import (
    ANSWER,
    ASKED,
    ASKED_STREAM,
    DONE,
    GZIP,
    HEL,
    LO,
    MS,
    ROLE,
    START_NS,
    WHOLE_STREAM,
    cut,
    exchange_frames,
)

if TYPE_CHECKING:
    from telemetry.frames.frame import Frame
    from telemetry.observing.exchange import Exchange


def test_a_plain_answer_becomes_a_record() -> None:
    """Everything that the frames tell is in it."""
    frames = exchange_frames(
        ANSWER[:50],
        ANSWER[50:],
        headers=[("content-type", "application/json"), ("x-request-id", "req_1")],
        head={"resend_count": 1},
    )
    exchange = observe(frames)
    assert exchange.identity == tap_frames.identity()
    assert (exchange.endpoint, exchange.method) == ("chat.completions", "POST")
    assert (exchange.path, exchange.upstream) == ("/v1/chat/completions", "default")
    assert exchange.request is not None
    assert exchange.request.model == "m-1"
    assert (exchange.request_body, exchange.request_size_bytes) == (ASKED, len(ASKED))
    assert (exchange.response_status, exchange.request_id) == (200, "req_1")
    assert content(exchange) == "Hello"
    assert exchange.response is not None
    assert exchange.response.usage is not None
    assert exchange.response.usage.total == 4
    assert (exchange.streamed, exchange.outcome) == (False, Outcome.COMPLETED)
    assert (exchange.error_type, exchange.error_message) == (None, None)
    assert (exchange.start_ns, exchange.end_ns) == (START_NS, START_NS + 1000 * MS)
    assert (exchange.first_chunk_ns, exchange.first_content_ns) == (None, None)
    assert (exchange.resend_count, exchange.rewrites) == (1, ())
    assert exchange.anomalies == ()


def test_a_stream_becomes_a_record_with_the_times_of_its_reads() -> None:
    """The first event with data, and the first delta with text, by the clock of their reads."""
    frames = exchange_frames(
        b": waiting\n\n",
        *WHOLE_STREAM,
        asked=ASKED_STREAM,
        head={"rewrites": ("stream_options.include_usage",), "hides_usage": True},
    )
    exchange = observe(frames)
    assert content(exchange) == "Hello"
    assert (exchange.streamed, exchange.outcome) == (True, Outcome.COMPLETED)
    assert exchange.first_chunk_ns == START_NS + 110 * MS
    assert exchange.first_content_ns == START_NS + 120 * MS
    assert exchange.rewrites == ("stream_options.include_usage",)
    assert exchange.response is not None
    assert exchange.response.usage is not None
    assert exchange.response.usage.total == 5
    assert "usage" not in exchange.response.body  # the client did not get it


def test_a_usage_event_that_the_client_gets_is_part_of_the_body() -> None:
    """Where nothing is hidden, the body shows all."""
    exchange = observe(exchange_frames(*WHOLE_STREAM, asked=ASKED_STREAM))
    assert exchange.response is not None
    assert exchange.response.body["usage"]["total_tokens"] == 5


SHAPES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "stream": (b"".join(WHOLE_STREAM), {"asked": ASKED_STREAM}),
    "stream with CRLF": (
        b"".join(WHOLE_STREAM).replace(b"\n", b"\r\n"),
        {"asked": ASKED_STREAM, "head": {"hides_usage": True}},
    ),
    "stream after a byte order mark": (b"\xef\xbb\xbf" + b"".join(WHOLE_STREAM), {}),
    "stream that is cut": (b"".join(WHOLE_STREAM)[:-130], {"kind": EndKind.UPSTREAM_BROKEN}),
    "stream with an error": (HEL + b'data: {"error":{"message":"dead"}}\n\n' + DONE, {}),
    "encoded stream": (
        gzip.compress(b"".join(WHOLE_STREAM)),
        {"asked": ASKED_STREAM, "headers": GZIP},
    ),
    "plain": (ANSWER, {}),
    "plain after blank lines and a byte order mark": (b"\n \r\n\xef\xbb\xbf" + ANSWER, {}),
    "plain that is cut": (ANSWER[:-9], {"kind": EndKind.UPSTREAM_BROKEN}),
    "encoded plain": (gzip.compress(ANSWER), {"headers": GZIP}),
    "refusal": (b'{"error":{"message":"No","type":"t"}}', {"status": 401}),
    "refusal in HTML": ("<h1>Zu groß</h1>".encode(), {"status": 413}),
    "HTML for a plain request": (b"<html>No such page</html>", {}),
    "text that begins like a field": (b"dat", {}),
    "stream of a comment": (b": hello\n\n", {"asked": ASKED_STREAM}),
    "encoded stream with garbage after it": (
        gzip.compress(b"".join(WHOLE_STREAM)) + bytes(100),
        {"asked": ASKED_STREAM, "headers": GZIP},
    ),
    "encoded stream that is damaged": (
        gzip.compress(b"".join(WHOLE_STREAM))[:-8] + b"no check",
        {"asked": ASKED_STREAM, "headers": GZIP},
    ),
    "empty": (b"", {"asked": ASKED_STREAM}),
    "no answer at all": (b"", {"status": None, "kind": EndKind.CONNECT_ERROR, "message": "down"}),
}


@pytest.mark.parametrize(("data", "members"), SHAPES.values(), ids=SHAPES)
@settings(deadline=None)
@given(at=st.lists(st.integers(0, 2**16), max_size=12))
def test_however_the_answer_is_cut_the_record_is_the_same(
    data: bytes, members: dict[str, Any], at: list[int]
) -> None:
    """Any split, byte by byte included, gives a record that is equal but for times."""
    whole = observe(exchange_frames(data, **members))
    expected = _without_times(whole)
    singly = [data[at : at + 1] for at in range(len(data))]
    for pieces in (cut(data, at), singly):
        exchange = observe(exchange_frames(*pieces, **members))
        assert _without_times(exchange) == expected


def _without_times(exchange: Exchange) -> Exchange:
    """The record with the number of its chunks in place of when it and they came."""
    count = exchange.chunks.count if exchange.chunks is not None else 0
    timeless = ChunkTiming(
        count=count, first_ns=0, last_ns=0, longest_wait_ns=0, wait_counts=(count,)
    )
    return replace(exchange, first_chunk_ns=None, first_content_ns=None, chunks=timeless, end_ns=0)


@pytest.mark.parametrize(("data", "members"), SHAPES.values(), ids=SHAPES)
def test_the_same_frames_give_the_same_record_wherever_they_are_observed(
    data: bytes, members: dict[str, Any]
) -> None:
    """In line, after their way as bytes, and among the frames of other exchanges."""
    frames = exchange_frames(*cut(data, range(0, len(data), 40)), **members)
    record = observe(frames)
    assert observe(decode_frames(encode_frames(list(frames)))) == record
    observer = Observer()
    for number in (2, 3):
        observer.feed(tap_frames.begin(number))
    among = []
    for frame in frames:
        observer.feed(ResponseData(2, 1, b"data: {}\n\n"))
        among.append(observer.feed(frame))
    assert among[-1] == record
    assert len(observer) == 2


@pytest.mark.parametrize("piece", [HEL, LO, ANSWER[:-30]])
def test_every_begin_with_an_end_gives_one_record(piece: bytes) -> None:
    """Also without a request, a head or a body; a second end gives none."""
    observer = Observer()
    observer.feed(tap_frames.begin())
    assert len(observer) == 1
    assert observer.feed(ResponseData(1, START_NS, piece)) is None  # before any head
    exchange = observer.feed(tap_frames.end(kind=EndKind.CLIENT_GONE))
    assert exchange is not None
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
    assert (exchange.request, exchange.response) == (None, None)
    assert exchange.request_size_bytes == 0
    assert len(observer) == 0
    assert observer.feed(tap_frames.end()) is None


def test_frames_of_an_unknown_exchange_are_dropped() -> None:
    """A process that starts in the middle must not invent a beginning."""
    observer = Observer()
    assert [observer.feed(frame) for frame in exchange_frames(ANSWER)[1:]] == [None] * 4
    assert len(observer) == 0


def test_frames_of_a_second_head_or_request_replace_the_first() -> None:
    """The relay sends one of each; the last is what the client got."""
    frames: list[Frame] = [
        tap_frames.begin(),
        RequestBody(exchange=1, data=b"{}", size_bytes=2),
        RequestBody(exchange=1, data=ASKED, size_bytes=len(ASKED)),
        ResponseHead(exchange=1, at_ns=1, status=500),
        ResponseHead(exchange=1, at_ns=1, status=200),
        ResponseData(1, 2, ANSWER),
        End(exchange=1, at_ns=3, kind=EndKind.UPSTREAM_EOF),
    ]
    exchange = observe(frames)
    assert exchange.response_status == 200
    assert exchange.request_body == ASKED


def ask_in_parts(parts: list[bytes | None], bodies: OpenBodies | None = None) -> Exchange:
    """A request of which these parts come."""
    frames = [RequestBody(exchange=1, data=part, size_bytes=len(ASKED)) for part in parts]
    others = exchange_frames(ANSWER)
    observer = Observer(bodies=bodies)
    ended = [observer.feed(frame) for frame in [others[0], *frames, *others[2:]]][-1]
    assert ended is not None
    return ended


@given(st.sets(st.integers(1, len(ASKED) - 1)))
def test_a_request_in_parts_is_the_same(cuts: set[int]) -> None:
    """However it was cut; and nothing counts as held when it has ended."""
    edges = [0, *sorted(cuts), len(ASKED)]
    bodies = OpenBodies()
    exchange = ask_in_parts([ASKED[start:end] for start, end in pairwise(edges)], bodies)
    assert exchange == ask_in_parts([ASKED])
    assert bodies.held_bytes == 0


@pytest.mark.parametrize("parts", [[ASKED[:5], None], [None, ASKED[5:]], [ASKED[:5], None, ASKED]])
def test_a_request_of_which_a_part_is_missing_is_not_captured(parts: list[bytes | None]) -> None:
    """Half a request is none; one that comes whole is one, whatever came before."""
    exchange = ask_in_parts(parts)
    assert exchange.request_body == (ASKED if ASKED in parts else None)
    assert "observer_limit" in exchange.anomalies
    assert exchange.request_size_bytes == len(ASKED)


def test_parts_of_a_request_are_held() -> None:
    """R5: where there is no room for all of them, it is not captured."""
    bodies = OpenBodies(len(ASKED) - 1)
    exchange = ask_in_parts([ASKED[:5], ASKED[5:]], bodies)
    assert exchange.request_body is None
    assert "observer_limit" in exchange.anomalies
    assert bodies.held_bytes == 0


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("cf-ray", "ray"), ("request-id", "anthropic"), ("x-request-id", "openai")], "openai"),
        ([("x-request-id", ""), ("apim-request-id", "azure")], "azure"),
        ([("content-type", "text/plain")], None),
    ],
)
def test_the_providers_request_id_is_taken_in_order_of_preference(
    headers: list[tuple[str, str]], expected: str | None
) -> None:
    """An empty one is none."""
    assert observe(exchange_frames(ANSWER, headers=headers)).request_id == expected


def test_rate_limit_headers_are_kept() -> None:
    """What the provider says of its limits, of a bounded number of headers, and nothing else."""
    headers = [
        ("x-ratelimit-remaining-tokens", "149984"),
        ("retry-after", "20"),
        ("ratelimit", '"burst";r=1'),
        ("x-request-id", "req-1"),
    ]
    wanted = dict(headers[:3])
    assert observe(exchange_frames(ANSWER, headers=headers)).rate_limits == wanted
    many = [(f"x-ratelimit-{number}", "1") for number in range(100)]
    assert len(observe(exchange_frames(ANSWER, headers=many)).rate_limits) == 32


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_are_observed_when_they_arrive(end: bytes) -> None:
    """With any line end; a read leaves nothing to the next (``docs/contract/sources.md#n5``)."""
    reads = [read.replace(b"\n", end) for read in WHOLE_STREAM]
    exchange = observe(exchange_frames(*reads, asked=ASKED_STREAM))
    plain = observe(exchange_frames(*WHOLE_STREAM, asked=ASKED_STREAM))
    if end != b"\r":  # a lone CR at the end of a read may be half a line end
        assert exchange.first_chunk_ns == plain.first_chunk_ns
        assert exchange.first_content_ns == plain.first_content_ns
    assert exchange.response == plain.response


def test_the_arrival_of_chunks_is_folded() -> None:
    """The first chunk, and the waits of the others (``docs/contract/sources.md#s0-14``)."""
    exchange = observe(exchange_frames(*WHOLE_STREAM, asked=ASKED_STREAM))
    timing = exchange.chunks
    assert timing is not None
    assert exchange.first_chunk_ns == timing.first_ns == START_NS + 100 * MS
    assert (timing.count, timing.last_ns) == (5, START_NS + 140 * MS), "[DONE] is no chunk"
    assert timing.mean_wait_ns == timing.longest_wait_ns == 10 * MS


def test_an_event_without_its_end_arrived_with_the_last_read() -> None:
    """A stream that is cut in the blank line has its last chunk all the same."""
    exchange = observe(exchange_frames(ROLE, HEL[:-1], asked=ASKED_STREAM))
    assert exchange.chunks is not None
    assert (exchange.chunks.count, exchange.chunks.last_ns) == (2, START_NS + 110 * MS)


@pytest.mark.parametrize(
    "error",
    [
        b'data: {"error":{"message":"No","type":"server_error"}}\n\n',
        b'event: error\ndata: "No"\n\n',
        b"event: error\ndata: No\n\n",
        b"event: error\n: No\n\n",
        b'error: {"message":"No"}\n\n',
    ],
)
@pytest.mark.parametrize("chunks", [(), (ROLE,), (ROLE, HEL)])
def test_an_error_is_no_chunk(error: bytes, chunks: tuple[bytes, ...]) -> None:
    """Whatever its form is, and however many chunks came before it."""
    exchange = observe(exchange_frames(*chunks, error, asked=ASKED_STREAM))
    assert exchange.outcome is Outcome.STREAM_ERROR
    assert exchange.chunks == observe(exchange_frames(*chunks, asked=ASKED_STREAM)).chunks
    assert (exchange.first_chunk_ns is None) == (not chunks)


def test_a_usage_event_that_the_client_does_not_receive_is_no_chunk() -> None:
    """Counts and waits are of what the client had; a usage event that it asked for is a chunk."""
    reads = WHOLE_STREAM
    hidden = observe(exchange_frames(*reads, asked=ASKED_STREAM, head={"hides_usage": True}))
    assert hidden.chunks == observe(exchange_frames(*reads[:4], asked=ASKED_STREAM)).chunks
    assert hidden.response is not None
    assert hidden.response.usage is not None
    shown = observe(exchange_frames(*reads, asked=ASKED_STREAM)).chunks
    assert shown is not None
    assert shown.count == 5


def test_a_plain_answer_has_no_chunks() -> None:
    """Only events of a stream are chunks."""
    assert observe(exchange_frames(ANSWER)).chunks is None
