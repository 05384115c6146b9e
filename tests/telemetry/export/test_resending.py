"""``telemetry.export.resending``: spans sent once more, against a real backend."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from telemetry.errors import ConfigurationError
from telemetry.export.exporter import MAX_BATCH_BYTES, MAX_BATCH_SPANS
from telemetry.export.http_sender import HttpSender
from telemetry.export.resending import MAX_REFUSED, MAX_TRIES, BackendFailed, Resender
from telemetry.export.settings import build_backend
from tests.otlp_sink import HttpSink, SinkAnswer
from tests.telemetry.span_rows import make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Iterator

SPANS = [row.span for row in make_rows(range(10))]


@pytest.fixture
def sink() -> Iterator[HttpSink]:
    """A backend."""
    with HttpSink() as opened:
        yield opened


class Sending:
    """A run of it, and what was told and waited for."""

    def __init__(self, url: str, *headers: str) -> None:
        self.told: list[str] = []
        self.waits: list[float] = []
        self.sender = HttpSender(build_backend(url, headers, {}))
        self.resender = Resender(
            self.sender, tell=self.told.append, wait=self.waits.append, jitter=lambda: 0.0
        )

    def send(self, spans: list[bytes] = SPANS) -> Resender:
        with contextlib.closing(self.sender):
            self.resender.send(spans)
        return self.resender


def test_batches_are_bounded_in_spans_and_bytes(sink: HttpSink) -> None:
    """As those of the exporter, in order; a large span goes alone."""
    rows = make_rows(range(MAX_BATCH_SPANS + 3))
    rows.append(make_row(900, padding_bytes=MAX_BATCH_BYTES))
    rows.append(make_row(901))
    done = Sending(sink.url).send([row.span for row in rows])
    assert (done.sent, done.refused) == (len(rows), 0)
    assert sink.accepted == [row.span_id for row in rows]
    assert [len(request.span_ids) for request in sink.requests] == [MAX_BATCH_SPANS, 3, 1, 1]
    assert {request.path for request in sink.requests} == {"/v1/traces"}


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_may_pass_is_tried_again_as_late_as_the_backend_asks(
    status: int, sink: HttpSink
) -> None:
    """And that is told; the same batch comes again."""
    sink.script += [
        SinkAnswer(status=status, headers=(("Retry-After", "17"),)),
        SinkAnswer(status=status),
    ]
    sending = Sending(sink.url)
    assert sending.send().sent == len(SPANS)
    assert sending.waits == [17.0, 1.0]
    assert sending.told[0] == f"HTTP {status}; trying again in 17.0 s"
    assert [request.body for request in sink.requests] == [b"".join(SPANS)] * 3


def test_it_is_not_tried_for_ever(sink: HttpSink) -> None:
    """Nor where nobody listens."""
    sink.rule = lambda _: SinkAnswer(status=503, words="busy")
    sending = Sending(sink.url)
    with pytest.raises(BackendFailed, match="HTTP 503: busy"):
        sending.send()
    assert len(sink.requests) == MAX_TRIES
    sending = Sending("http://127.0.0.1:1")
    with pytest.raises(BackendFailed, match="no connection"):
        sending.send()
    assert len(sending.waits) == MAX_TRIES - 1


@pytest.mark.parametrize("status", [302, 401, 403, 404, 500])
def test_other_failures_end_it_at_once(status: int, sink: HttpSink) -> None:
    """What was sent before is counted; a credential that the backend quotes is not shown."""
    sink.script += [SinkAnswer(), SinkAnswer(status=status, words="bad key sekret-key-1")]
    sending = Sending(sink.url, "authorization=Bearer sekret-key-1")
    with pytest.raises(BackendFailed) as failed:
        sending.send([row.span for row in make_rows(range(MAX_BATCH_SPANS + 1))])
    assert str(failed.value).startswith(f"HTTP {status}")
    assert "sekret" not in str(failed.value)
    assert sink.requests[0].headers["authorization"] == "Bearer sekret-key-1"
    assert (sending.resender.sent, sending.waits) == (MAX_BATCH_SPANS, [])


def test_a_refused_span_is_found_and_the_others_are_sent(sink: HttpSink) -> None:
    """In order; the backend's words are kept."""
    bad = span_id(6)
    sink.rule = lambda ids: SinkAnswer(status=400, words="no") if bad in ids else SinkAnswer()
    done = Sending(sink.url).send()
    assert (done.sent, done.refused) == (9, 1)
    assert done.refusal == "HTTP 400: no"
    assert sink.accepted == [span_id(number) for number in range(10) if number != 6]


def test_a_backend_that_refuses_all_is_not_asked_on(sink: HttpSink) -> None:
    """However many there are."""
    sink.rule = lambda _: SinkAnswer(status=413)
    sending = Sending(sink.url)
    with pytest.raises(BackendFailed, match="every call is refused"):
        sending.send([row.span for row in make_rows(range(500))])
    assert sending.resender.refused == MAX_REFUSED
    assert len(sink.requests) < 3 * MAX_REFUSED


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://h/", "http://h/v1/traces"),
        ("https://h/otel/v1/traces?k=v", "https://h/otel/v1/traces?k=v"),
        ("https://me:sekret@h:1", "https://me:sekret@h:1/v1/traces"),
    ],
)
def test_a_url_is_used_as_it_is_unless_it_has_no_path(url: str, endpoint: str) -> None:
    """What is shown of it has neither user nor query."""
    backend = build_backend(url, ["X-Key= a=b,c "], {})
    assert backend.endpoint == endpoint
    assert backend.headers == (("x-key", "a=b,c"),)
    assert "sekret" not in backend.backend
    assert "sekret" not in repr(backend)


def test_headers_of_the_environment_are_not_sent() -> None:
    """They are another backend's; its authorities are trusted, and its timeout holds."""
    environ = {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=sekret",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "3",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://elsewhere",
    }
    backend = build_backend("http://h", [], environ)
    assert (backend.headers, backend.timeout_seconds) == ((), 3.0)
    assert backend.backend == "http://h"


@pytest.mark.parametrize(
    ("url", "header"),
    [
        ("sekret", "a=b"),
        ("ftp://sekret", "a=b"),
        ("http://h", "sekret"),
        ("http://h", "a b=sekret"),
        ("http://h", "a=sekret\nb: c"),
    ],
)
def test_what_cannot_be_followed_is_told_without_its_value(url: str, header: str) -> None:
    """R7."""
    with pytest.raises(ConfigurationError) as refused:
        build_backend(url, [header], {})
    assert "--" in str(refused.value)
    assert "sekret" not in str(refused.value)
