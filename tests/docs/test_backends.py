"""``docs/backends.md``: each block of variables does what the page says of it.

The variables are set by the shell as they stand there. The backend's host is replaced by a server
on loopback, for ``spantap check`` to ask.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pytest

from telemetry.export.settings import OtlpProtocol, OtlpSettings, read_otlp_settings
from tests.docs.blocks import DOCS, Page
from tests.e2e.processes import clean_environment, find_free_port
from tests.otlp_sink import GrpcSink, HttpSink

if TYPE_CHECKING:
    from tests.otlp_sink import SinkRequest

PAGE = Page(DOCS / "backends.md")

_BLOCK = re.compile(r"```sh\n([^`]+)```\n\n(?:(?!```).)*?Spans go to `([^`]+)`", re.DOTALL)
_HOST = re.compile(r"(ENDPOINT=)https?://[^/\s]+")


class Backend(NamedTuple):
    """A block of variables, and where the page says that spans go then."""

    section: str
    variables: str
    goes_to: str


def find_backends() -> list[Backend]:
    sections = (section.partition("\n") for section in PAGE.text.split("\n## ")[1:])
    return [
        Backend(title, variables, goes_to)
        for title, _, text in sections
        for variables, goes_to in _BLOCK.findall(text)
    ]


BACKENDS = find_backends()


def basic(credentials: str) -> str:
    return "Basic " + b64encode(credentials.encode()).decode()


HEADERS = {
    "Phoenix Cloud": {"authorization": "Bearer YOUR-KEY"},
    "Grafana Cloud": {"authorization": basic("YOUR-INSTANCE:YOUR-TOKEN")},
    "Langfuse": {
        "authorization": basic("YOUR-PUBLIC-KEY:YOUR-SECRET-KEY"),
        "x-langfuse-ingestion-version": "4",
    },
    "Honeycomb": {"x-honeycomb-team": "YOUR-KEY"},
}
"""What each vendor's documentation asks for; the others want none."""


def shell(script: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run a script with a clean environment and spantap on its path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = clean_environment() | {"PATH": path} | variables
    return subprocess.run(
        ["sh", "-ec", script], env=environment, capture_output=True, check=False, timeout=50
    )


def read_settings(backend: Backend) -> OtlpSettings:
    """The settings that spantap reads out of the block."""
    ended = shell(f"{backend.variables}\nexec env -0")
    assert ended.returncode == 0, ended.stderr
    pairs = (pair.partition("=") for pair in ended.stdout.decode().split("\0"))
    settings = read_otlp_settings({name: value for name, _, value in pairs})
    assert settings is not None
    return settings


def titled(backend: Backend) -> str:
    return backend.section


def test_every_section_with_variables_is_tested() -> None:
    """Each backend of the table has a section, and all but the Collector's have a block."""
    listed = [re.sub(r"\[(.*)\]\(.*", r"\1", name) for name, _ in PAGE.rows("Backend")]
    found = list(dict.fromkeys(backend.section for backend in BACKENDS))
    assert found == [name for name in listed if name != "OpenTelemetry Collector"]
    assert PAGE.text.count("```sh\nexport") == len(BACKENDS)
    assert HEADERS.keys() <= set(found)


@pytest.mark.parametrize("backend", BACKENDS, ids=titled)
def test_spans_go_where_the_page_says(backend: Backend) -> None:
    """Endpoint, path and protocol, as spantap reads them."""
    settings = read_settings(backend)
    assert settings.endpoint == backend.goes_to
    assert dict(settings.headers) == HEADERS.get(backend.section, {})
    if settings.protocol is OtlpProtocol.GRPC:
        assert settings.insecure is ("=http://" in backend.variables)


@pytest.mark.parametrize("backend", BACKENDS, ids=titled)
def test_the_backend_is_asked_with_its_headers(backend: Backend, tmp_path: Path) -> None:
    """``spantap check`` calls the path that the page names and says that spans are taken."""
    settings = read_settings(backend)
    sink = GrpcSink() if settings.protocol is OtlpProtocol.GRPC else HttpSink()
    with sink:
        here = _HOST.sub(rf"\1http://127.0.0.1:{sink.port}", backend.variables)
        assert here != backend.variables
        ended = shell(
            f"{here}\nspantap check || true",
            SPANTAP_UPSTREAM="http://127.0.0.1:1",
            SPANTAP_PORT=str(find_free_port()),
            SPANTAP_ADMIN_PORT=str(find_free_port()),
            SPANTAP_STORE=str(tmp_path / "traces.db"),
        )
    output = ended.stdout.decode()
    assert re.search(r"^good  OTLP: \S+ accepts spans$", output, re.MULTILINE), output
    check_request(sink.requests, backend, settings)


def check_request(requests: list[SinkRequest], backend: Backend, settings: OtlpSettings) -> None:
    (request,) = requests
    if settings.protocol is OtlpProtocol.HTTP_PROTOBUF:
        assert request.path == urlsplit(backend.goes_to).path
        assert request.headers["content-type"] == "application/x-protobuf"
    for name, value in HEADERS.get(backend.section, {}).items():
        assert request.headers[name] == value
