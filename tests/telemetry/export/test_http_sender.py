"""``telemetry.export.http_sender``: OTLP over HTTP, against a real server."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import sys
import threading
from base64 import b64encode
from typing import TYPE_CHECKING
from urllib.parse import unquote, unquote_plus

import pytest
import trustme

from telemetry.export.delivery import MAX_ANSWER_BYTES, Answer, Verdict
from tests.otlp_sink import HttpSink, SinkAnswer
from tests.telemetry.exporting import make_sender
from tests.telemetry.span_rows import make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BATCH = b"".join(row.span for row in make_rows([1, 2]))


@pytest.fixture
def sink() -> Iterator[HttpSink]:
    """A backend."""
    with HttpSink() as opened:
        yield opened


def send(endpoint: str, batch: bytes = BATCH, /, **variables: str) -> Answer:
    """A batch sent with settings from variables (their common prefix left out)."""
    with contextlib.closing(make_sender(endpoint, **variables)) as sender:
        return sender.send(batch)


def test_request(sink: HttpSink) -> None:
    """The stored bytes arrive as one batch, gzipped, with exactly the content type."""
    assert send(sink.url, COMPRESSION="gzip") == Answer(verdict=Verdict.DELIVERED)
    (request,) = sink.requests
    assert (request.path, request.body) == ("/v1/traces", BATCH)
    assert request.span_ids == [span_id(1), span_id(2)]
    assert request.headers["content-type"] == "application/x-protobuf"
    assert request.headers["content-encoding"] == "gzip"
    assert request.headers["user-agent"].startswith("spantap/")
    assert "authorization" not in request.headers


def test_uncompressed_request(sink: HttpSink) -> None:
    """Compression can be off."""
    send(sink.url, COMPRESSION="none")
    assert sink.requests[0].body == BATCH
    assert "content-encoding" not in sink.requests[0].headers


def test_headers(sink: HttpSink) -> None:
    """Headers of the settings are sent, UTF-8 where they are not ASCII, and do not replace ours."""
    send(sink.url, HEADERS="x-project-name=d%C3%A9j%C3%A0,content-type=text/plain")
    headers = sink.requests[0].headers
    assert headers["x-project-name"].encode("latin-1").decode() == "déjà"
    assert headers["content-type"] == "application/x-protobuf"


def test_credentials_come_from_the_settings_only(
    sink: HttpSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R7: what ``~/.netrc`` holds for the host is not sent; what the URL holds is."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password sekret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    send(sink.url)
    send(sink.url.replace("://", "://user:p%40ss@"))
    assert "authorization" not in sink.requests[0].headers
    assert sink.requests[1].headers["authorization"] == "Basic dXNlcjpwQHNz"


def test_a_proxy_of_the_environment_is_not_used(
    sink: HttpSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is for other traffic: what fails there would be told of the backend."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert send(sink.url) == Answer(verdict=Verdict.DELIVERED)


@pytest.mark.parametrize(
    ("scripted", "answer"),
    [
        (SinkAnswer(status=202), Answer(verdict=Verdict.DELIVERED)),
        (
            SinkAnswer(status=503, words="full", headers=(("Retry-After", "7"),)),
            Answer(verdict=Verdict.RETRY, words="HTTP 503: full", retry_after_seconds=7.0),
        ),
        (
            SinkAnswer(status=400, words="bad span"),
            Answer(verdict=Verdict.REFUSED, words="HTTP 400: bad span"),
        ),
        (
            SinkAnswer(rejected_spans=1, words="too old"),
            Answer(verdict=Verdict.REFUSED, words="too old"),
        ),
        (
            SinkAnswer(status=307, headers=(("Location", "/elsewhere"),)),
            Answer(verdict=Verdict.RETRY, words="HTTP 307"),
        ),
        (
            SinkAnswer(body=b"<!doctype html>", content_type="text/html; charset=utf-8"),
            Answer(verdict=Verdict.RETRY, words="answered with a web page; is this the OTLP port?"),
        ),
        (
            SinkAnswer(breaks="before"),
            Answer(verdict=Verdict.RETRY, words="no connection: Connection reset by peer"),
        ),
        (
            SinkAnswer(breaks="silently"),
            Answer(verdict=Verdict.RETRY, words="no connection: RemoteDisconnected"),
        ),
    ],
)
def test_answers(sink: HttpSink, scripted: SinkAnswer, answer: Answer) -> None:
    """Each answer is told whole; a redirect is not followed."""
    sink.script.append(scripted)
    assert send(sink.url) == answer
    assert len(sink.requests) == 1


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        (
            b"HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge",
            Answer(verdict=Verdict.REFUSED, words="HTTP 413: large"),
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            Answer(verdict=Verdict.RETRY, words="no connection: IncompleteRead"),
        ),
    ],
)
@pytest.mark.parametrize("batch", [BATCH, bytes(20_000_000)], ids=["small", "large"])
def test_backend_that_closes_early(batch: bytes, written: bytes, answer: Answer) -> None:
    """What it answered before it had the body is heard; what it left out of its own is missed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_and_close() -> None:
            connection, _ = listener.accept()
            with connection:
                received = b""  # all of the small one, or closing would reset the connection
                while batch not in received and len(received) < 100_000:
                    received += connection.recv(100_000)
                connection.sendall(written)

        backend = threading.Thread(target=answer_and_close)
        backend.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert send(url, batch, COMPRESSION="none") == answer
        backend.join()


def test_reset_within_the_answer(sink: HttpSink) -> None:
    """A success whose body breaks off is no success: the spans are sent again."""
    sink.script.append(SinkAnswer(breaks="within"))
    answer = send(sink.url)
    assert answer.verdict is Verdict.RETRY
    assert answer.words.startswith("no connection: ")


@pytest.mark.parametrize("form", ["header", "url"])
def test_backend_that_repeats_the_key(sink: HttpSink, form: str) -> None:
    """R7: a credential of ours does not come back in the backend's words."""
    sink.script.append(SinkAnswer(status=401, words="unknown key sekret-key!"))
    if form == "header":
        answer = send(sink.url, HEADERS="authorization=Bearer sekret-key!")
    else:
        answer = send(sink.url.replace("://", "://me:sekret-key%21@"))
    assert answer == Answer(verdict=Verdict.RETRY, words="HTTP 401: unknown key ***")


def test_backend_that_repeats_what_the_password_became(sink: HttpSink) -> None:
    """R7: nor does the header that is made of the endpoint's user and password."""
    value = b64encode(b"me:pw").decode()
    sink.script.append(SinkAnswer(status=401, words=f"bad Authorization: Basic {value}"))
    answer = send(sink.url.replace("://", "://me:pw@"))
    assert answer.words == "HTTP 401: bad Authorization: Basic ***"
    assert sink.requests[0].headers["authorization"] == f"Basic {value}"


@pytest.mark.parametrize(
    ("query", "quoted"),
    [
        ("api_key=sekret-key", "api_key=***"),
        ("a=1&api_key=sekret%2Bkey%20b", "a=1&api_key=***"),
        ("api_key=sekr\N{LATIN SMALL LETTER E WITH ACUTE}t-key", "api_key=***"),
        ("sekret-key", "***"),
    ],
)
def test_backend_that_repeats_the_query(sink: HttpSink, query: str, quoted: str) -> None:
    """R7: a key in the endpoint's query, as it is sent or decoded."""
    url = f"{sink.url}/v1/traces?{query}"
    send(url, TRACES_ENDPOINT=url)
    target = sink.requests[0].path
    for said in (target, unquote(target), unquote_plus(target)):
        sink.script.append(SinkAnswer(status=404, words=f"no {said}"))
        answer = send(url, TRACES_ENDPOINT=url)
        assert answer.words == f"HTTP 404: no /v1/traces?{quoted}"


def test_nobody_listens() -> None:
    """A refused connection is told in plain words, without the URL."""
    with HttpSink() as sink:
        url = sink.url
    answer = send(f"{url}/?key=sekret")
    assert answer == Answer(verdict=Verdict.RETRY, words="no connection: Connection refused")


def test_unknown_host() -> None:
    """A name that does not resolve is told in plain words."""
    answer = send("http://nowhere.invalid:1")
    assert answer.verdict is Verdict.RETRY
    assert answer.words.startswith("no connection: ")
    assert "invalid" not in answer.words


def test_backend_too_slow(sink: HttpSink) -> None:
    """A backend that does not answer within the timeout is tried again."""
    sink.script.append(SinkAnswer(delay_seconds=0.3))
    answer = send(sink.url, TIMEOUT="0.1")
    assert answer == Answer(verdict=Verdict.RETRY, words="no answer within 0.1 s")


def test_backend_that_drips(sink: HttpSink) -> None:
    """The timeout is one for the whole answer, not for each of its bytes."""
    sink.script.append(SinkAnswer(body=b"x" * 100, drip_seconds=0.02))
    answer = send(sink.url, TIMEOUT="0.2")
    assert answer == Answer(verdict=Verdict.RETRY, words="no answer within 0.2 s")


def test_endless_answer_is_cut(sink: HttpSink) -> None:
    """No more of an answer is read than its limit."""
    sink.script.append(SinkAnswer(status=500, body=b"y" * 5 * MAX_ANSWER_BYTES))
    assert send(sink.url).words == "HTTP 500: " + "y" * 400


def test_connection_is_kept(sink: HttpSink) -> None:
    """Batches share a connection, errors included; a backend that came back is reached again."""
    sender = make_sender(sink.url)
    sink.script.extend([SinkAnswer(), SinkAnswer(status=503, words="busy"), SinkAnswer()])
    verdicts = [sender.send(make_row(number).span).verdict for number in range(3)]
    assert verdicts == [Verdict.DELIVERED, Verdict.RETRY, Verdict.DELIVERED]
    assert sink.connections == 1
    assert sender.backend == sink.url
    sink.close()
    with HttpSink(port=sink.port) as successor:
        assert sender.send(BATCH).verdict is Verdict.DELIVERED
        assert successor.accepted == [span_id(1), span_id(2)]
    sender.close()


# TLS


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    """An authority that nobody trusts yet; its certificate is in ``ca.pem``."""
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return made


def server_context(authority: trustme.CA, *, asks: bool = False) -> ssl.SSLContext:
    """A backend's TLS: certified by `authority`, and asking for certificates by it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    if asks:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_tls(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend's certificate is checked, against the given authority where one is given."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(_other_authority(tmp_path)))
    with HttpSink(tls=server_context(authority)) as sink:
        trusting = send(sink.url, CERTIFICATE=str(tmp_path / "ca.pem"))
        assert trusting == Answer(verdict=Verdict.DELIVERED)
        mistrusting = send(sink.url)
        assert mistrusting.verdict is Verdict.RETRY
        assert mistrusting.words.startswith("TLS: unable to get local issuer certificate")


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_an_authority_of_the_environment_does_not_count(
    variable: str, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whom to trust is said by ``OTEL_EXPORTER_OTLP_CERTIFICATE`` alone."""
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)  # it would hide the other
    monkeypatch.setenv(variable, str(tmp_path / "ca.pem"))
    with HttpSink(tls=server_context(authority)) as sink:
        assert send(sink.url).words.startswith("TLS: unable to get local issuer certificate")


def _other_authority(tmp_path: Path) -> Path:
    path = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    return path


@pytest.mark.parametrize("files", ["one", "two"])
def test_mutual_tls(authority: trustme.CA, tmp_path: Path, files: str) -> None:
    """Our own certificate is shown, with its key in the same file or in another."""
    certificate = authority.issue_cert("spantap.test")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    variables = {"CERTIFICATE": str(tmp_path / "ca.pem")}
    with HttpSink(tls=server_context(authority, asks=True)) as sink:
        assert send(sink.url, **variables).verdict is Verdict.RETRY
        if files == "one":
            variables["CLIENT_CERTIFICATE"] = str(tmp_path / "both.pem")
        else:
            variables["CLIENT_CERTIFICATE"] = str(tmp_path / "cert.pem")
            variables["CLIENT_KEY"] = str(tmp_path / "key.pem")
        assert send(sink.url, **variables).verdict is Verdict.DELIVERED


def test_no_tls_there(sink: HttpSink) -> None:
    """TLS to a backend that speaks none is told as such."""
    answer = send(sink.url.replace("http:", "https:"))
    assert answer == Answer(verdict=Verdict.RETRY, words="TLS: WRONG_VERSION_NUMBER")


def test_other_libraries_are_not_imported() -> None:
    """The HTTP way costs no memory for gRPC, nor for what the SDK's exporter sends with."""
    code = (
        "import sys; from telemetry.export.exporter import open_sender;"
        " from telemetry.export.settings import read_otlp_settings;"
        " open_sender(read_otlp_settings({'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://h'}));"
        " sys.exit(not sys.modules.keys().isdisjoint({'grpc', 'requests', 'urllib3'})"
        " or 'telemetry.export.http_sender' not in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
