"""``telemetry.observer``: tap frames in, one record out."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.jsontext import encode_json
from telemetry import observer as observer_module
from telemetry.chunk_timing import ChunkTiming
from telemetry.client_context import HeaderMap
from telemetry.exchange import EndKind, Outcome
from telemetry.frames import End, RequestBody, ResponseData, ResponseHead, decode_frame
from telemetry.frames import encode_frame as encode
from telemetry.observer import Observer
from tests.telemetry import tap_frames
from tests.telemetry.tap_frames import (
    ANSWER,
    ASKED,
    ASKED_STREAM,
    DONE,
    HEL,
    LO,
    MS,
    ROLE,
    START_NS,
    STOP,
    USAGE,
    WHOLE_STREAM,
    cut,
    event,
    exchange_frames,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from telemetry.exchange import Exchange
    from telemetry.frames import Frame


def observe(frames: Iterable[Frame], observer: Observer | None = None) -> Exchange:
    """The one record of one exchange's frames."""
    if observer is None:
        observer = Observer()
    records = [record for frame in frames if (record := observer.feed(frame)) is not None]
    assert len(records) == 1
    return records[0]


def content(exchange: Exchange) -> str | None:
    """The text of the first choice."""
    assert exchange.response is not None
    return exchange.response.choices[0].message.content


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
        {"asked": ASKED_STREAM, "headers": [("content-encoding", "gzip")]},
    ),
    "plain": (ANSWER, {}),
    "plain after blank lines and a byte order mark": (b"\n \r\n\xef\xbb\xbf" + ANSWER, {}),
    "plain that is cut": (ANSWER[:-9], {"kind": EndKind.UPSTREAM_BROKEN}),
    "encoded plain": (gzip.compress(ANSWER), {"headers": [("content-encoding", "gzip")]}),
    "refusal": (b'{"error":{"message":"No","type":"t"}}', {"status": 401}),
    "refusal in HTML": ("<h1>Zu groß</h1>".encode(), {"status": 413}),
    "HTML for a plain request": (b"<html>No such page</html>", {}),
    "text that begins like a field": (b"dat", {}),
    "stream of a comment": (b": hello\n\n", {"asked": ASKED_STREAM}),
    "encoded stream with garbage after it": (
        gzip.compress(b"".join(WHOLE_STREAM)) + bytes(100),
        {"asked": ASKED_STREAM, "headers": [("content-encoding", "gzip")]},
    ),
    "encoded stream that is damaged": (
        gzip.compress(b"".join(WHOLE_STREAM))[:-8] + b"no check",
        {"asked": ASKED_STREAM, "headers": [("content-encoding", "gzip")]},
    ),
    "empty": (b"", {"asked": ASKED_STREAM}),
    "no answer at all": (b"", {"status": None, "kind": EndKind.CONNECT_ERROR, "message": "down"}),
}


@pytest.mark.parametrize(("data", "members"), SHAPES.values(), ids=SHAPES)
@settings(deadline=None)
@given(at=st.lists(st.integers(0, 2**16), max_size=12))
def test_rule_5_however_the_answer_is_cut_the_record_is_the_same(
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
    """The record with the number of its chunks in place of when they came."""
    count = exchange.chunks.count if exchange.chunks is not None else 0
    timeless = ChunkTiming(
        count=count, first_ns=0, last_ns=0, longest_wait_ns=0, wait_counts=(count,)
    )
    return replace(exchange, first_chunk_ns=None, first_content_ns=None, chunks=timeless)


@pytest.mark.parametrize("before", [b"\n\n", b" \r\n\t", b"\xef\xbb\xbf", b"\n\xef\xbb\xbf "])
def test_what_comes_before_a_plain_answer_does_not_make_it_a_stream(before: bytes) -> None:
    """Blank lines while the request is queued (DeepSeek), or a byte order mark."""
    exchange = observe(exchange_frames(before, ANSWER))
    assert exchange == observe(exchange_frames(ANSWER))
    assert exchange == observe(exchange_frames(before + ANSWER))


@pytest.mark.parametrize(("data", "members"), SHAPES.values(), ids=SHAPES)
def test_the_same_frames_give_the_same_record_wherever_they_are_observed(
    data: bytes, members: dict[str, Any]
) -> None:
    """In line, after their way as bytes, and among the frames of other exchanges."""
    frames = exchange_frames(*cut(data, range(0, len(data), 40)), **members)
    record = observe(frames)
    assert observe(decode_frame(encode(frame)) for frame in frames) == record
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
def test_rule_1_every_begin_with_an_end_gives_one_record(piece: bytes) -> None:
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


def test_rule_1_frames_of_an_unknown_exchange_are_dropped() -> None:
    """A process that starts in the middle must not invent a beginning."""
    observer = Observer()
    assert [observer.feed(frame) for frame in exchange_frames(ANSWER)[1:]] == [None] * 4
    assert len(observer) == 0


ENDINGS: dict[str, tuple[Outcome, str | None, list[bytes], dict[str, Any]]] = {
    "[DONE], then RST": (
        Outcome.COMPLETED,
        None,
        [*WHOLE_STREAM],
        {"kind": EndKind.UPSTREAM_BROKEN},
    ),
    "finish reason and usage, then the client closes": (
        Outcome.COMPLETED,
        None,
        [ROLE, HEL, LO, STOP, USAGE],
        {"kind": EndKind.CLIENT_GONE},
    ),
    "[DONE] alone was not delivered": (
        Outcome.COMPLETED,
        None,
        [*WHOLE_STREAM],
        {"kind": EndKind.CLIENT_GONE, "undelivered_reads": 1},
    ),
    "the usage was not delivered": (
        Outcome.CLIENT_DISCONNECTED,
        None,
        [*WHOLE_STREAM],
        {"kind": EndKind.CLIENT_GONE, "undelivered_reads": 2},
    ),
    "what came behind [DONE] was drained": (
        Outcome.COMPLETED,
        None,
        [*WHOLE_STREAM, b": bye\n\n", b": bye\n\n"],
        {"kind": EndKind.CLIENT_GONE, "undelivered_reads": 2},
    ),
    "another choice began after all others had finished, and was not delivered": (
        Outcome.CLIENT_DISCONNECTED,
        None,
        [HEL, STOP, USAGE, event('"content":"x"', index=1), event(finish="stop", index=1)],
        {"kind": EndKind.CLIENT_GONE, "undelivered_reads": 1},
    ),
    "a stream was asked for and nothing came": (
        Outcome.TRUNCATED,
        "stream_truncated",
        [b"\n"],
        {"asked": ASKED_STREAM},
    ),
    "nothing came, and no stream was asked for": (Outcome.COMPLETED, None, [], {}),
    "a stream was asked for and a redirect came": (
        Outcome.COMPLETED,
        None,
        [],
        {"asked": ASKED_STREAM, "status": 307},
    ),
    "a stream was asked for and a plain answer came": (
        Outcome.COMPLETED,
        None,
        [ANSWER],
        {"asked": ASKED_STREAM},
    ),
    "a plain answer is broken off": (
        Outcome.TRUNCATED,
        "stream_truncated",
        [ANSWER[:-20]],
        {"kind": EndKind.UPSTREAM_BROKEN},
    ),
    "a plain answer is whole, and then the client closes": (
        Outcome.COMPLETED,
        None,
        [ANSWER],
        {"kind": EndKind.CLIENT_GONE},
    ),
    "an error inside, [DONE] or not": (
        Outcome.STREAM_ERROR,
        "overloaded",
        [HEL, b'data: {"error":{"message":"m","type":"overloaded"}}\n\n', DONE],
        {"asked": ASKED_STREAM},
    ),
    "a Google front end's list": (
        Outcome.STREAM_ERROR,
        "UNAVAILABLE",
        [b'[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]'],
        {"asked": ASKED_STREAM},
    ),
}


@pytest.mark.parametrize(
    ("outcome", "error_type", "data", "members"), ENDINGS.values(), ids=ENDINGS
)
def test_rule_4_the_ending_is_judged_from_frames_and_content(
    outcome: Outcome, error_type: str | None, data: list[bytes], members: dict[str, Any]
) -> None:
    """What the observer hands to the judge is what section 6 speaks of."""
    exchange = observe(exchange_frames(*data, **members))
    assert (exchange.outcome, exchange.error_type) == (outcome, error_type)


def test_a_refusal_keeps_its_body_as_text_up_to_the_limit() -> None:
    """With the provider's message; what an answer would have lacks is no anomaly here."""
    body = b'{"error":{"message":"No such model","type":"invalid_request_error"}}'
    exchange = observe(exchange_frames(body, status=404))
    assert exchange.error_body == body.decode()
    assert (exchange.error_type, exchange.error_message) == ("404", "No such model")
    assert exchange.anomalies == ()
    html = b"<h1>" + b"x" * observer_module.MAX_ERROR_BYTES
    exchange = observe(exchange_frames(html[:9], html[9:], b"more", status=502))
    assert exchange.error_body == html[: observer_module.MAX_ERROR_BYTES - 256].decode()
    assert exchange.anomalies == ("observer_limit",)
    spaced = b"<p>" * (observer_module.MAX_ERROR_BYTES // 3) + b" key sk-abcd"
    cut_off = spaced[-observer_module.MAX_ERROR_BYTES - 4 :]  # within the last word
    exchange = observe(exchange_frames(cut_off + b"efgh", status=502))
    assert exchange.error_body is not None
    assert exchange.error_body.endswith(" key "), "half a secret is found by no pattern"
    exchange = observe(exchange_frames(b'{"detail":"no key"}', status=403))
    assert (exchange.error_message, exchange.anomalies) == ('{"detail":"no key"}', ())
    exchange = observe(exchange_frames(b"\xff<h1>", status=502))
    assert (exchange.error_body, exchange.anomalies) == ("\ufffd<h1>", ())


def test_a_refusal_by_an_event_stream_is_kept_as_text() -> None:
    """The status decides what the body is."""
    exchange = observe(exchange_frames(HEL, DONE, status=500, asked=ASKED_STREAM))
    assert exchange.error_body == (HEL + DONE).decode()
    assert exchange.streamed is False


@pytest.mark.parametrize("data", [b'{"id":', b"[1]", b"{\xff}"])
def test_an_answer_that_is_no_json_object_is_marked(data: bytes) -> None:
    """N13: it was relayed all the same, and its end was clean."""
    exchange = observe(exchange_frames(data))
    assert exchange.response is None
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.anomalies == ("response_undecodable",)


@pytest.mark.parametrize("asked", [b"", b"{", b"[]", b"\xff"])
def test_a_request_that_is_no_json_object_is_marked(asked: bytes) -> None:
    """The answer is observed as ever."""
    exchange = observe(exchange_frames(ANSWER, asked=asked))
    assert exchange.request is None
    assert exchange.request_body == asked
    assert exchange.anomalies == ("request_undecodable",)
    assert content(exchange) == "Hello"


def test_an_encoded_request_is_decoded() -> None:
    """The size is that of the bytes on the wire."""
    encoded = gzip.compress(ASKED)
    frames = exchange_frames(ANSWER, asked=encoded, request_headers=[("content-encoding", "gzip")])
    exchange = observe(frames)
    assert (exchange.request_body, exchange.request_size_bytes) == (ASKED, len(encoded))


@pytest.mark.parametrize("coding", ["gzip", "sdch"])
def test_a_request_that_is_not_encoded_as_it_says_is_marked(coding: str) -> None:
    """No text is shown that is none."""
    frames = exchange_frames(ANSWER, request_headers=[("content-encoding", coding)])
    exchange = observe(frames)
    assert (exchange.request, exchange.request_body) == (None, None)
    assert exchange.anomalies == ("request_undecodable",)


def test_a_request_over_a_limit_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """N9: over the relay's, or over that of decoding."""
    exchange = observe(exchange_frames(ANSWER, asked=None))
    assert (exchange.request, exchange.request_body) == (None, None)
    assert exchange.request_size_bytes == 1 << 30
    assert exchange.anomalies == ("observer_limit",)
    monkeypatch.setattr("telemetry.content_decoding.MAX_DECODED_BYTES", 10)
    headers = [("content-encoding", "gzip")]
    frames = exchange_frames(ANSWER, asked=gzip.compress(ASKED), request_headers=headers)
    exchange = observe(frames)
    assert (exchange.request, exchange.request_body) == (None, None)
    assert exchange.anomalies == ("observer_limit",)


UNREAD: dict[str, tuple[str, list[bytes], dict[str, Any]]] = {
    "an unknown coding": (
        "response_undecodable",
        [*WHOLE_STREAM],
        {"headers": [("content-encoding", "sdch")]},
    ),
    "not encoded as it says": (
        "response_undecodable",
        [*WHOLE_STREAM],
        {"headers": [("content-encoding", "gzip")]},
    ),
    "garbage after some of it": (
        "response_undecodable",
        [gzip.compress(ROLE + HEL), b"\x1f\x8b\x08 and no member", b"more of it"],
        {"headers": [("content-encoding", "gzip")]},
    ),
    "shed": ("observer_limit", [ROLE, HEL], {"shed_bytes": 1000}),
    "an event over the limit": (
        "observer_limit",
        [ROLE, HEL, b"data: " + b"x" * (9 << 20), *WHOLE_STREAM],
        {},
    ),
}


@pytest.mark.parametrize(("anomaly", "data", "members"), UNREAD.values(), ids=UNREAD)
def test_a_stream_that_was_not_read_whole_is_marked_and_not_called_truncated(
    anomaly: str, data: list[bytes], members: dict[str, Any]
) -> None:
    """Its clean end is all that is known of its rest (R6); what was read is kept."""
    exchange = observe(exchange_frames(*data, asked=ASKED_STREAM, **members))
    assert exchange.outcome is Outcome.COMPLETED
    assert anomaly in exchange.anomalies
    if exchange.response is not None:
        assert content(exchange) == "Hel"
    broken = {**members, "kind": EndKind.UPSTREAM_BROKEN}
    exchange = observe(exchange_frames(*data, asked=ASKED_STREAM, **broken))
    assert exchange.outcome is Outcome.TRUNCATED


def test_rule_3_a_plain_answer_over_the_limit_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half an object says nothing; that there was more is marked."""
    monkeypatch.setattr(observer_module, "MAX_PLAIN_BYTES", len(ANSWER) - 1)
    exchange = observe(exchange_frames(ANSWER[:40], ANSWER[40:], ANSWER))
    assert exchange.response is None
    assert exchange.anomalies == ("observer_limit",)
    assert exchange.outcome is Outcome.COMPLETED
    monkeypatch.setattr(observer_module, "MAX_PLAIN_BYTES", len(ANSWER))
    assert content(observe(exchange_frames(ANSWER))) == "Hello"


def test_rule_3_a_bomb_is_observed_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is marked."""
    monkeypatch.setattr("telemetry.content_decoding.MAX_DECODED_BYTES", len(ROLE + HEL) + 10)
    headers = [("content-encoding", "gzip")]
    frames = exchange_frames(
        gzip.compress(ROLE + HEL + b": " + bytes(1 << 20)), asked=ASKED_STREAM, headers=headers
    )
    exchange = observe(frames)
    assert content(exchange) == "Hel"
    assert exchange.anomalies[0] == "observer_limit"
    assert exchange.outcome is Outcome.COMPLETED


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


_BYTES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([*WHOLE_STREAM, ANSWER, b"data: [[[", b'data: {"choices":[7]}\n\n', b"{" * 99]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["choices", "delta", "usage", "error", "message", "tool_calls"]),
                inner,
                max_size=3,
            )
        ),
        max_leaves=8,
    ).map(lambda value: b"data: " + encode_json(value).encode() + b"\n\n"),
)
_CODING = st.sampled_from(["", "gzip", "br", "zstd", "deflate", "x", "gzip,gzip,gzip,gzip,gzip"])


@settings(deadline=None)
@given(
    asked=st.none() | _BYTES,
    data=st.lists(_BYTES, max_size=6),
    status=st.none() | st.sampled_from([99, 200, 204, 302, 400, 999]),
    codings=st.tuples(_CODING, _CODING),
    kind=st.sampled_from(EndKind),
    undelivered_reads=st.integers(0, 3),
)
def test_rule_2_no_content_makes_it_raise_or_fail(
    asked: bytes | None,
    data: list[bytes],
    status: int | None,
    codings: tuple[str, str],
    kind: EndKind,
    undelivered_reads: int,
) -> None:
    """Whatever is in the frames there is one record, and no defect shows."""
    failures: list[Exception] = []
    frames = exchange_frames(
        *data,
        asked=asked,
        status=status,
        request_headers=[("content-encoding", codings[0])],
        headers=[("content-encoding", codings[1])],
        kind=kind,
        undelivered_reads=undelivered_reads,
    )
    exchange = observe(frames, Observer(failures.append))
    assert failures == []
    assert "observer_failed" not in exchange.anomalies


@pytest.mark.parametrize(
    ("defect", "kept"),
    [
        ("telemetry.observer.decode_request", True),
        ("codec.stream.ChatStream.feed", False),
        ("codec.stream.ChatStream.finish", False),
    ],
)
def test_rule_2_a_defect_costs_the_content_and_not_the_record(
    defect: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told once, with its error; the record is marked and has all that the relay saw."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(defect, fail)
    failures: list[Exception] = []
    frames = exchange_frames(*WHOLE_STREAM, asked=ASKED_STREAM, status=200)
    exchange = observe(frames, Observer(failures.append))
    assert [type(error) for error in failures] == [ZeroDivisionError]
    assert exchange.anomalies[0] == "observer_failed"
    assert (exchange.response_status, exchange.request_size_bytes) == (200, len(ASKED_STREAM))
    assert (exchange.response is not None) is kept
    assert exchange.outcome is Outcome.COMPLETED


def test_without_anybody_to_tell_a_defect_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is there."""
    monkeypatch.setattr("telemetry.observer.decode_response", lambda _: 1 // 0)
    assert observe(exchange_frames(ANSWER)).anomalies == ("observer_failed",)


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


def test_a_plain_answer_that_broke_off_is_kept_as_text() -> None:
    """``design.md`` section 6: partial output is kept, and is not called JSON."""
    exchange = observe(exchange_frames(ANSWER[:90], kind=EndKind.UPSTREAM_BROKEN))
    assert exchange.outcome is Outcome.TRUNCATED
    assert exchange.response is None
    assert exchange.undecoded_body == ANSWER[:90].decode()


@pytest.mark.parametrize(
    "kind", [EndKind.CLIENT_GONE, EndKind.UPSTREAM_BROKEN, EndKind.DRAIN_DEADLINE]
)
def test_what_an_early_end_lacks_is_no_anomaly(kind: EndKind) -> None:
    """Usage and finish reason are missing because of the end, which is told already."""
    exchange = observe(exchange_frames(ROLE, HEL, asked=ASKED_STREAM, kind=kind))
    assert exchange.outcome is not Outcome.COMPLETED
    assert exchange.anomalies == ()


def test_what_a_complete_stream_lacks_is_an_anomaly() -> None:
    """``[DONE]`` without any finish reason or usage."""
    exchange = observe(exchange_frames(ROLE, HEL, DONE, asked=ASKED_STREAM))
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.anomalies == ("no_finish_reason", "no_usage")


TEXTS: dict[str, bytes] = {
    "HTML": b"<!doctype html><title>Welcome</title>",
    "text": b"OK",
    "text after blank lines": b"\r\n\r\nService is up: yes\ndata: none\n\n",
    "text that begins like a field": b"date: today",
    "the beginning of a field": b"dat",
    "a JSON string": b'"no"',
    "XML": b"<?xml version='1.0'?><Error/>",
}


@pytest.mark.parametrize("asked", [ASKED, ASKED_STREAM])
@pytest.mark.parametrize("data", TEXTS.values(), ids=TEXTS)
def test_a_text_that_is_no_stream_is_a_plain_answer(data: bytes, asked: bytes) -> None:
    """Whatever was asked for: its end was clean, its text is kept, and it is marked."""
    exchange = observe(exchange_frames(data, asked=asked, headers=[("content-type", "text/html")]))
    assert (exchange.outcome, exchange.error_type) == (Outcome.COMPLETED, None)
    assert (exchange.streamed, exchange.response) == (False, None)
    assert exchange.undecoded_body == data.lstrip().decode()
    assert exchange.anomalies == ("response_undecodable",)
    broken = observe(exchange_frames(data, asked=asked, kind=EndKind.UPSTREAM_BROKEN))
    assert (broken.outcome, broken.undecoded_body) == (
        Outcome.TRUNCATED,
        data.lstrip().decode(),
    )


@pytest.mark.parametrize("line", [b": hi", b"data:{}", b"event: x", b"id: 1", b"retry: 5"])
@pytest.mark.parametrize("content_type", ["application/json", "text/plain", None])
def test_a_body_whose_first_line_is_a_streams_is_one(line: bytes, content_type: str | None) -> None:
    """Content types are often wrong (``dialects.md`` section 5)."""
    headers = [("content-type", content_type)] if content_type else []
    exchange = observe(exchange_frames(line, b"\n\n", HEL, STOP, USAGE, DONE, headers=headers))
    assert exchange.streamed is True
    assert content(exchange) == "Hel"


def test_an_error_field_makes_a_stream() -> None:
    """Old llama.cpp (``dialects.md`` section 4.7)."""
    exchange = observe(exchange_frames(b'error: {"message":"no slot"}\n\n', asked=ASKED_STREAM))
    assert (exchange.streamed, exchange.outcome) == (True, Outcome.STREAM_ERROR)


@pytest.mark.parametrize("content_type", ["text/event-stream", "Text/Event-Stream;charset=UTF-8"])
def test_what_is_called_an_event_stream_is_one(content_type: str) -> None:
    """Unless it is a JSON object: a field that nobody knows may come first."""
    headers = [("content-type", content_type)]
    exchange = observe(exchange_frames(b"x-note: 1\n", HEL, STOP, USAGE, DONE, headers=headers))
    assert (exchange.streamed, content(exchange)) == (True, "Hel")
    exchange = observe(exchange_frames(ANSWER, headers=headers))
    assert (exchange.streamed, content(exchange)) == (False, "Hello")
    exchange = observe(exchange_frames(b"", asked=ASKED_STREAM, headers=headers))
    assert exchange.outcome is Outcome.TRUNCATED


def _asked_for(count: str) -> bytes:
    return ASKED_STREAM[:-1] + b',"n":' + count.encode() + b"}"


@pytest.mark.parametrize(
    ("count", "outcome"),
    [
        ("2", Outcome.TRUNCATED),
        ("128", Outcome.TRUNCATED),
        ("1", Outcome.COMPLETED),
        ("0", Outcome.COMPLETED),
        ("-2", Outcome.COMPLETED),
        ("129", Outcome.COMPLETED),
        ("2.0", Outcome.COMPLETED),
        ("true", Outcome.COMPLETED),
        ('"2"', Outcome.COMPLETED),
    ],
)
def test_as_many_choices_as_were_asked_for_make_an_answer_complete(
    count: str, outcome: Outcome
) -> None:
    """Usage came with the first choice; one that has not begun is missing all the same.

    What ``n`` is no number of choices for counts as one.
    """
    finished = STOP.replace(b"}]}", b'}],"usage":{"completion_tokens":1}}')
    frames = exchange_frames(HEL, finished, asked=_asked_for(count), kind=EndKind.UPSTREAM_BROKEN)
    assert observe(frames).outcome is outcome


def test_completion_of_the_last_choice_decides_what_reached_the_client() -> None:
    """With two choices asked for, the first one's end is not yet the answer's."""
    reads = (
        HEL,
        STOP.replace(b"}]}", b'}],"usage":{"completion_tokens":1}}'),
        event('"content":"x"', index=1),
        event(finish="stop", index=1),
    )
    members: dict[str, Any] = {"asked": _asked_for("2"), "kind": EndKind.CLIENT_GONE}
    assert observe(exchange_frames(*reads, **members)).outcome is Outcome.COMPLETED
    exchange = observe(exchange_frames(*reads, undelivered_reads=1, **members))
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED


def test_a_server_that_gives_fewer_choices_ends_well() -> None:
    """Some ignore ``n``: a clean end is one."""
    exchange = observe(exchange_frames(HEL, STOP, USAGE, asked=_asked_for("2")))
    assert exchange.outcome is Outcome.COMPLETED


def test_rule_2_a_defect_forgets_also_what_was_too_short_to_judge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing of the content remains."""
    monkeypatch.setattr("telemetry.observer._PlainBody.feed", lambda *_: 1 // 0)
    exchange = observe(exchange_frames(b"dat"))
    assert exchange.anomalies == ("observer_failed",)
    assert exchange.undecoded_body is None


_PROMPTS = b'{"model":"m-1","stream":true,"prompt":["One?","Two?"]'


@pytest.mark.parametrize(
    ("asked", "outcome"),
    [
        (_PROMPTS + b"}", Outcome.COMPLETED),
        (_PROMPTS + b',"n":2}', Outcome.TRUNCATED),
        (_PROMPTS.replace(b'["One?","Two?"]', b"[5,6,7]") + b',"n":2}', Outcome.COMPLETED),
    ],
)
def test_every_prompt_asks_for_its_choices(asked: bytes, outcome: Outcome) -> None:
    """``n`` choices for each prompt of a legacy completion make the answer complete."""
    texts = [
        b'data: {"choices":[{"index":%d,"text":"x","finish_reason":"stop"}]%b}\n\n' % (index, usage)
        for index, usage in enumerate((b"", b',"usage":{"completion_tokens":2}'))
    ]
    _, *frames = exchange_frames(*texts, asked=asked, kind=EndKind.UPSTREAM_BROKEN)
    frames = [tap_frames.begin(endpoint="completions"), *frames]
    assert observe(frames).outcome is outcome


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_are_observed_when_they_arrive(end: bytes) -> None:
    """N5: with any line end; what came in a read is not left to the next one."""
    reads = [read.replace(b"\n", end) for read in WHOLE_STREAM]
    exchange = observe(exchange_frames(*reads, asked=ASKED_STREAM))
    plain = observe(exchange_frames(*WHOLE_STREAM, asked=ASKED_STREAM))
    if end != b"\r":  # a lone CR at the end of a read may be half a line end
        assert exchange.first_chunk_ns == plain.first_chunk_ns
        assert exchange.first_content_ns == plain.first_content_ns
    assert exchange.response == plain.response


@pytest.mark.parametrize("tools", ["7", '{"0":{}}'])
def test_a_request_of_the_wrong_shape_is_marked_and_kept(tools: str) -> None:
    """S4.10: what the endpoint cannot take is told; the model and the rest stay known."""
    asked = ASKED[:-1] + b',"tools":' + tools.encode() + b"}"
    exchange = observe(exchange_frames(ANSWER, asked=asked))
    assert exchange.anomalies == ("request_undecodable",)
    assert exchange.request is not None
    assert exchange.request.model == "m-1"


def test_a_call_of_a_tool_that_was_not_offered_is_marked() -> None:
    """S3.6: the call itself is kept."""
    call = b'{"id":"c","type":"function","function":{"name":"row","arguments":"{}"}}'
    answer = ANSWER.replace(b'"content":"Hello"', b'"tool_calls":[%b]' % call)
    exchange = observe(exchange_frames(answer))
    assert exchange.anomalies == ("tool_not_offered",)
    assert exchange.response is not None
    assert exchange.response.choices[0].message.tool_calls[0].name == "row"
    offered = ASKED[:-1] + b',"tools":[{"type":"function","function":{"name":"row"}}]}'
    assert observe(exchange_frames(answer, asked=offered)).anomalies == ()


def test_the_arrival_of_chunks_is_folded() -> None:
    """S0.14: the first chunk and the waits of the others; no chunk says how many tokens it has."""
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


def test_an_error_that_comes_first_is_no_chunk() -> None:
    """A stream of nothing else has no first token; behind a chunk it counts like any event."""
    error = b'data: {"error":{"message":"No","type":"server_error"}}\n\n'
    exchange = observe(exchange_frames(error, asked=ASKED_STREAM))
    assert exchange.outcome is Outcome.STREAM_ERROR
    assert exchange.chunks is None
    assert exchange.first_chunk_ns is None
    exchange = observe(exchange_frames(ROLE, error, asked=ASKED_STREAM))
    assert exchange.chunks is not None
    assert exchange.chunks.count == 2


def test_a_plain_answer_has_no_chunks() -> None:
    """Only events of a stream are chunks."""
    assert observe(exchange_frames(ANSWER)).chunks is None


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


@pytest.mark.parametrize(
    ("data", "members", "providers"),
    [
        (b'{"error":{"message":"No","type":"t"}}', {"status": 401}, True),
        (b"", {"status": 503}, False),
        (b'data: {"error":{"message":"No"}}\n\n', {}, True),
        (b"", {"status": None, "kind": EndKind.CONNECT_ERROR, "message": "refused"}, False),
    ],
)
def test_whose_words_an_error_is_told_in_is_known(
    data: bytes, members: dict[str, Any], providers: bool
) -> None:
    """The provider's words may quote content, ours do not."""
    exchange = observe(exchange_frames(data, **members))
    assert exchange.error_message
    assert exchange.error_is_providers is providers


def test_headers_and_body_say_whose_call_it_is() -> None:
    """The header map and the body's own members together."""
    asked = b'{"model":"m","messages":[],"user":"u-1","metadata":{"team":"blue"}}'
    headers = [("x-session-id", "s-1"), ("content-type", "application/json")]
    exchange = observe(exchange_frames(ANSWER, asked=asked, request_headers=headers))
    assert exchange.context.session_id == "s-1"
    assert exchange.context.user_id == "u-1"
    assert exchange.context.metadata == {"team": "blue"}
    assert not exchange.hides_content


def test_the_header_map_can_be_another_one() -> None:
    """What the settings name is read."""
    observer = Observer(header_map=HeaderMap.build({"x-chat": "session.id"}))
    frames = exchange_frames(ANSWER, request_headers=[("x-chat", "c-9")])
    assert observe(frames, observer).context.session_id == "c-9"


@pytest.mark.parametrize("by", ["setting", "header"])
def test_of_a_hidden_request_nothing_is_taken(by: str) -> None:
    """Neither a user nor metadata of its body, nor a prompt template; ids by header stay."""
    headers = [("x-session-id", "s-1"), ("x-spantap-prompt-template", "secret")]
    if by == "header":
        headers.append(("x-spantap-content", "off"))
    asked = b'{"messages":[],"user":"secret","metadata":{"k":"secret"}}'
    frames = exchange_frames(ANSWER, asked=asked, request_headers=headers)
    exchange = observe(frames, Observer(hides_inputs=by == "setting"))
    assert exchange.hides_content is (by == "header")
    assert "secret" not in repr(exchange.context)
    assert exchange.context.session_id == "s-1"
