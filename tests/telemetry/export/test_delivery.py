"""``telemetry.export.delivery``: what an answer means, and how long to wait."""

from __future__ import annotations

import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no types
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from telemetry.export.delivery import (
    Answer,
    Backoff,
    Verdict,
    classify_grpc_error,
    classify_http,
    parse_retry_after,
    without_secrets,
)

DELIVERED, RETRY, REFUSED = Verdict.DELIVERED, Verdict.RETRY, Verdict.REFUSED


def partial(rejected_spans: int, words: str) -> bytes:
    """The body of a success."""
    message = ExportTracePartialSuccess(rejected_spans=rejected_spans, error_message=words)
    return bytes(ExportTraceServiceResponse(partial_success=message).SerializeToString())


@pytest.mark.parametrize(
    ("verdict", "statuses"),
    [
        (DELIVERED, [200, 202, 204]),
        (RETRY, [408, 425, 429, 500, 501, 502, 503, 504, 507, 599]),  # of the moment
        (RETRY, [301, 302, 307, 308, 401, 402, 403, 404, 405, 407, 415]),  # of the sender
        (REFUSED, [413, 422]),  # of the spans
        (RETRY, [400, 409, 418]),  # nobody says that the spans are to blame
    ],
)
def test_http_statuses(verdict: Verdict, statuses: list[int]) -> None:
    """Only a success delivers, and only what speaks of the spans refuses them: HTTP."""
    assert {classify_http(status, b"").verdict for status in statuses} == {verdict}


@pytest.mark.parametrize(
    ("verdict", "codes"),
    [
        (
            RETRY,  # of the moment
            "UNAVAILABLE DEADLINE_EXCEEDED ABORTED CANCELLED OUT_OF_RANGE DATA_LOSS UNKNOWN",
        ),
        (RETRY, "UNAUTHENTICATED PERMISSION_DENIED UNIMPLEMENTED NOT_FOUND"),  # of the sender
        (REFUSED, "INVALID_ARGUMENT RESOURCE_EXHAUSTED"),  # of the spans
    ],
)
def test_grpc_codes(verdict: Verdict, codes: str) -> None:
    """Only what speaks of the spans refuses them: gRPC."""
    assert {classify_grpc_error(code, "").verdict for code in codes.split()} == {verdict}


@pytest.mark.parametrize("seconds", [0.0, 3.5])
def test_exhausted_with_retry_info_is_tried_again(seconds: float) -> None:
    """``RESOURCE_EXHAUSTED`` is of the moment where the backend says when to come again."""
    answer = classify_grpc_error("RESOURCE_EXHAUSTED", "slow down", seconds)
    assert answer == Answer(
        verdict=RETRY, words="RESOURCE_EXHAUSTED: slow down", retry_after_seconds=seconds
    )


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b"", Answer(verdict=DELIVERED)),
        (partial(0, ""), Answer(verdict=DELIVERED)),
        (partial(0, "old format"), Answer(verdict=DELIVERED, words="old format")),
        (partial(2, "too old"), Answer(verdict=REFUSED, words="too old")),
        (partial(1, ""), Answer(verdict=REFUSED, words="rejected without a reason")),
        (b"{}", Answer(verdict=DELIVERED)),
        (b"OK", Answer(verdict=DELIVERED)),
        (b'{"partialSuccess": {}}', Answer(verdict=DELIVERED)),
    ],
)
def test_success_may_reject(body: bytes, answer: Answer) -> None:
    """Only rejected spans make a success a refusal; a body that is no response does not."""
    assert classify_http(200, body) == answer


@given(st.binary(max_size=200))
def test_any_body_is_classified(body: bytes) -> None:
    """Whatever a backend answers, there is a verdict and words that can be stored."""
    for status in (200, 400, 503):
        answer = classify_http(status, body)
        assert len(answer.words) <= 420
        assert answer.words.isprintable()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "HTTP 400"),
        (b"bad  request\n", "HTTP 400: bad request"),
        (b'{"message": "no"}', 'HTTP 400: {"message": "no"}'),
        (Status(code=3, message="bad span id").SerializeToString(), "HTTP 400: bad span id"),
        (b"<html>" + b"x" * 10_000, "HTTP 400: <html>" + "x" * 394),
    ],
)
def test_words_of_an_error(body: bytes, words: str) -> None:
    """The message of a ``google.rpc.Status``, or the text on one line, cut."""
    assert classify_http(400, body).words == words


@pytest.mark.parametrize("content_type", ["text/html", "Text/HTML; charset=utf-8"])
@pytest.mark.parametrize("status", [200, 202])
def test_a_web_page_is_no_delivery(status: int, content_type: str) -> None:
    """Whoever answers every path with a page has not taken spans; it does not lie in them."""
    answer = classify_http(status, b"<!doctype html>", None, content_type)
    assert answer == Answer(verdict=RETRY, words="answered with a web page; is this the OTLP port?")
    assert not answer.suspect


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", "text/html"),
        (b"OK", "text/plain"),
        (b"{}", "application/json"),
        (b"", "application/x-protobuf"),
        (b"OK", None),
        (b"OK", ""),
    ],
)
def test_any_other_success_is_a_delivery(body: bytes, content_type: str | None) -> None:
    """Nothing in it, or of another type: the status has said it all."""
    assert classify_http(200, body, None, content_type) == Answer(verdict=DELIVERED)


STATUS = Status(code=3, message="bad span id").SerializeToString()
TLS_PORT_PAGE = (
    b"<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head>"
    b"</html>\r\n"
)


@pytest.mark.parametrize(
    ("verdict", "body", "content_type"),
    [
        (REFUSED, STATUS, "application/x-protobuf"),
        (REFUSED, STATUS, None),
        (REFUSED, Status(code=3).SerializeToString(), "application/x-protobuf"),
        (REFUSED, b'{"code": 3, "message": "bad span id"}', "application/json"),
        (REFUSED, b'{"message": "bad span id"}', None),
        (REFUSED, b'{"code": 3}', "application/json; charset=utf-8"),
        (REFUSED, b"bad span id", "text/plain; charset=utf-8"),
        (RETRY, TLS_PORT_PAGE, "text/html"),
        (RETRY, TLS_PORT_PAGE, None),
        (RETRY, b"Client sent an HTTP request to an HTTPS server.\n", None),
        (RETRY, b"Client sent an HTTP request to an HTTPS server.\n", "text/plain"),
        (RETRY, b"Invalid HTTP request received.", "text/plain; charset=utf-8"),
        (RETRY, b"400 Bad Request: missing required Host header", "text/plain"),
        (RETRY, b"bad span id", None),
        (RETRY, b"x" * 401, "text/plain"),
        (RETRY, b" \n", "text/plain"),
        (RETRY, b"", "text/plain"),
        (RETRY, b"", "application/x-protobuf"),
        (RETRY, b"\r\n<htm", "text/html"),  # parses as a message of unknown fields
        (RETRY, b'"no"', "application/json"),
        (RETRY, b'{"error": "no"}', "application/json"),
        (RETRY, b"[" * 60_000, "application/json"),
    ],
)
def test_a_400_counts_against_spans_in_the_words_of_who_read_them(
    verdict: Verdict, body: bytes, content_type: str | None
) -> None:
    """A status or a short text does; a server's own page, or nothing, is a slip of the settings."""
    assert classify_http(400, body, 7.0, content_type).verdict is verdict


def test_the_words_of_a_server_in_between_are_kept() -> None:
    """So that the slip can be found."""
    words = classify_http(400, TLS_PORT_PAGE, None, "text/html").words
    assert "The plain HTTP request was sent to HTTPS port" in words


@pytest.mark.parametrize(
    ("suspect", "statuses"),
    [
        (True, [500, 502, 503, 504, 599, 400, 409, 418]),
        (False, [301, 302, 401, 403, 404, 405, 407, 408, 415, 425, 429, 431]),
    ],
)
def test_failures_that_may_lie_in_the_spans(suspect: bool, statuses: list[int]) -> None:
    """Not those that speak of the sender or of the moment."""
    answers = [classify_http(status, b"") for status in statuses]
    assert {answer.verdict for answer in answers} == {RETRY}
    assert {answer.suspect for answer in answers} == {suspect}


@pytest.mark.parametrize(
    ("suspect", "code", "details"),
    [
        (True, "UNAVAILABLE", "Socket closed"),
        (True, "INTERNAL", ""),
        (True, "UNKNOWN", "Exception calling application"),
        (True, "DEADLINE_EXCEEDED", "Deadline Exceeded"),
        (False, "UNAVAILABLE", "failed to connect to all addresses; last error: UNKNOWN: ipv4:"),
        (False, "UNAVAILABLE", "DNS resolution failed for backend:4317"),
        (False, "UNAUTHENTICATED", ""),
        (False, "UNIMPLEMENTED", ""),
        (False, "CANCELLED", "Channel closed!"),
    ],
)
def test_failed_calls_that_may_lie_in_the_spans(suspect: bool, code: str, details: str) -> None:
    """The same for gRPC, where one code stands for a connection lost and for one never made."""
    assert classify_grpc_error(code, details).suspect is suspect


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("1.5", 1.5),
        ("0", 0.0),
        ("-3", 0.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:30 GMT", 0.0),
        ("Thu, 01 Jan 99999 00:00:30 GMT", None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    """Seconds or a date (RFC 9110, 10.2.3); what cannot be read is absent."""
    assert parse_retry_after(value, now_seconds=100.0) == seconds


@pytest.mark.parametrize(
    ("failures", "jitter", "asked", "seconds"),
    [
        (1, 1.0, None, 1.0),
        (1, 0.0, None, 0.5),
        (2, 1.0, None, 2.0),
        (6, 1.0, None, 32.0),
        (7, 1.0, None, 60.0),
        (7, 0.0, None, 30.0),
        (100_000, 1.0, None, 60.0),
        (1, 1.0, 5.0, 5.0),
        (7, 1.0, 5.0, 60.0),
        (1, 1.0, 120.0, 120.0),
        (1, 1.0, 1e9, 600.0),
    ],
)
def test_backoff(failures: int, jitter: float, asked: float | None, seconds: float) -> None:
    """Doubling up to a minute, half of it drawn; what the backend asks for is waited for."""
    assert Backoff().wait_seconds(failures, jitter, asked) == seconds


@pytest.mark.parametrize(
    ("text", "secrets", "shown"),
    [
        ("bad key sk-12345678", ["Bearer sk-12345678"], "bad key ***"),
        ("'Bearer sk-12345678' is bad", ["Bearer sk-12345678"], "'***' is bad"),
        ("no such tenant: a", ["a"], "no such tenant: a"),
        ("nothing", [], "nothing"),
        ("bad key sk-1234", ["Bearer sk-12345678"], "bad key sk-1234"),
        ("x" * 394 + "sk-123", ["Bearer sk-12345678"], "x" * 394 + "***"),
        ("x" * 395 + "sk-12", ["Bearer sk-12345678"], "x" * 395 + "sk-12"),
    ],
)
def test_without_secrets(text: str, secrets: list[str], shown: str) -> None:
    """A header value, and any long word of it, is blotted out (R7)."""
    assert without_secrets(text, secrets) == shown
