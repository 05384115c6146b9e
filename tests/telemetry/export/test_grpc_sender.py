"""``telemetry.export.grpc_sender``: OTLP over gRPC, against a real server."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import grpc  # type: ignore[import-untyped]  # ships no types
import pytest
import trustme
from google.protobuf.any_pb2 import Any as AnyMessage  # type: ignore[import-untyped]  # as grpc
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # as grpc

from telemetry.export.delivery import Answer, Verdict
from tests.otlp_sink import GrpcSink, SinkAnswer
from tests.telemetry.exporting import make_sender
from tests.telemetry.span_rows import make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BATCH = b"".join(row.span for row in make_rows([1, 2]))


@pytest.fixture
def sink() -> Iterator[GrpcSink]:
    """A backend."""
    with GrpcSink() as opened:
        yield opened


def send(endpoint: str, **variables: str) -> Answer:
    """One batch sent."""
    with contextlib.closing(make_sender(endpoint, PROTOCOL="grpc", **variables)) as sender:
        return sender.send(BATCH)


def test_request(sink: GrpcSink) -> None:
    """The stored bytes arrive unchanged as one call, with the headers as metadata."""
    answer = send(f"http://{sink.address}", HEADERS="X-Project-Name=mine")
    assert answer == Answer(verdict=Verdict.DELIVERED)
    (request,) = sink.requests
    assert request.body == BATCH
    assert request.span_ids == [span_id(1), span_id(2)]
    assert request.headers["x-project-name"] == "mine"
    assert request.headers["user-agent"].startswith("spantap/")


def test_compression() -> None:
    """Requests are gzipped where that is wanted: a backend that knows no gzip tells which."""
    with GrpcSink(gzip=False) as sink:
        refusal = send(f"http://{sink.address}", COMPRESSION="gzip")
        assert refusal.verdict is Verdict.RETRY
        assert "Compression algorithm 'gzip' is disabled" in refusal.words
        assert send(f"http://{sink.address}", COMPRESSION="none").verdict is Verdict.DELIVERED


@pytest.mark.parametrize(
    ("scripted", "answer"),
    [
        (
            SinkAnswer(grpc_code="UNAVAILABLE", words="later"),
            Answer(verdict=Verdict.RETRY, words="UNAVAILABLE: later"),
        ),
        (
            SinkAnswer(grpc_code="RESOURCE_EXHAUSTED", words="busy", retry_delay_seconds=1.5),
            Answer(
                verdict=Verdict.RETRY, words="RESOURCE_EXHAUSTED: busy", retry_after_seconds=1.5
            ),
        ),
        (
            SinkAnswer(grpc_code="INVALID_ARGUMENT", words="bad span"),
            Answer(verdict=Verdict.REFUSED, words="INVALID_ARGUMENT: bad span"),
        ),
        (
            SinkAnswer(rejected_spans=1, words="too old"),
            Answer(verdict=Verdict.REFUSED, words="too old"),
        ),
    ],
)
def test_answers(sink: GrpcSink, scripted: SinkAnswer, answer: Answer) -> None:
    """Each answer is told whole."""
    sink.script.append(scripted)
    assert send(f"http://{sink.address}") == answer
    assert len(sink.requests) == 1


@pytest.mark.parametrize(
    "details",
    [b"", b"\xff no status", Status(details=[AnyMessage(type_url="x/y.Z")]).SerializeToString()],
)
def test_details_without_retry_info(sink: GrpcSink, details: bytes) -> None:
    """Details that are damaged or speak of something else ask for no wait."""
    sink.script.append(SinkAnswer(grpc_code="UNAVAILABLE", grpc_details=details))
    assert send(f"http://{sink.address}").retry_after_seconds is None


def test_a_proxy_of_the_environment_is_not_used(
    sink: GrpcSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is for other traffic: what fails there would be told of the backend."""
    for name in ("no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert send(f"http://{sink.address}") == Answer(verdict=Verdict.DELIVERED)


def test_message_too_large(sink: GrpcSink) -> None:
    """A span over the backend's message limit is refused, not tried for ever."""
    sender = make_sender(f"http://{sink.address}", PROTOCOL="grpc")
    answer = sender.send(make_row(1, padding_bytes=5 << 20).span)
    sender.close()
    assert answer.verdict is Verdict.REFUSED
    assert "larger than max" in answer.words


def test_backend_that_repeats_the_key(sink: GrpcSink) -> None:
    """R7: a credential of ours does not come back in the backend's words."""
    sink.script.append(SinkAnswer(grpc_code="UNAUTHENTICATED", words="unknown key sekret-key"))
    answer = send(f"http://{sink.address}", HEADERS="authorization=Bearer sekret-key")
    assert answer == Answer(verdict=Verdict.RETRY, words="UNAUTHENTICATED: unknown key ***")


def test_backend_too_slow(sink: GrpcSink) -> None:
    """A backend that does not answer within the timeout is tried again."""
    sink.script.append(SinkAnswer(delay_seconds=0.3))
    answer = send(f"http://{sink.address}", TIMEOUT="0.1")
    assert answer.verdict is Verdict.RETRY
    assert answer.words.startswith("DEADLINE_EXCEEDED")


def test_backend_away_and_back() -> None:
    """While nobody listens each call fails at once; a backend that came back is reached soon."""
    with GrpcSink() as sink:
        port = sink.port
        sender = make_sender(f"http://{sink.address}", PROTOCOL="grpc")
        assert sender.send(BATCH).verdict is Verdict.DELIVERED
    for _ in range(3):
        answer = sender.send(BATCH)
        assert answer.verdict is Verdict.RETRY
        assert answer.words.startswith("UNAVAILABLE")
    with GrpcSink(port=port) as sink:
        # The channel tries anew at least every second, whatever it went through before.
        for _ in range(60):
            if sender.send(BATCH).verdict is Verdict.DELIVERED:
                break
            time.sleep(0.05)
        assert sink.accepted == [span_id(1), span_id(2)]
    assert sender.backend == f"grpc://127.0.0.1:{port}"
    sender.close()


def test_tls(tmp_path: Path) -> None:
    """The backend's certificate is checked against the given authority, and ours shown."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    mine = authority.issue_cert("spantap.test")
    mine.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    mine.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    theirs = authority.issue_cert("127.0.0.1")
    credentials = grpc.ssl_server_credentials(
        [(theirs.private_key_pem.bytes(), theirs.cert_chain_pems[0].bytes())],
        root_certificates=authority.cert_pem.bytes(),
        require_client_auth=True,
    )
    variables = {
        "CERTIFICATE": str(tmp_path / "ca.pem"),
        "CLIENT_CERTIFICATE": str(tmp_path / "cert.pem"),
        "CLIENT_KEY": str(tmp_path / "key.pem"),
    }
    with GrpcSink(credentials=credentials) as sink:
        assert send(sink.address, **variables).verdict is Verdict.DELIVERED
        assert send(f"https://{sink.address}").verdict is Verdict.RETRY
        assert len(sink.requests) == 1
