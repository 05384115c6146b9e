"""Chats by the real SDK through the proxy, in the file of a real OpenTelemetry Collector."""

from __future__ import annotations

import gzip
import subprocess
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import requests

from codec.text.jsontext import decode_json_object
from tests.e2e.calls import CALLS, have_chats, open_client
from tests.e2e.collector import PROGRAM, Collector
from tests.e2e.outbox import wait_for_delivery
from tests.e2e.processes import clean_environment
from tests.e2e.spantap import PROGRAM as SPANTAP
from tests.e2e.spantap import running_proxy

if TYPE_CHECKING:
    from pathlib import Path

    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

    from codec.text.jsontext import JsonObject

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not PROGRAM.exists(),
        reason="the collector is not there: install_collector.sh needs Go >= 1.26",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """The spans of all chats at both ends of the pipe.

    Attributes:
        sent: what the proxy sent, by span id.
        listed: the same as ``spantap traces --json`` lists them.
        written: what the collector wrote, in order.
        store: where they are recorded.
    """

    sent: dict[str, ResourceSpans]
    listed: list[JsonObject]
    written: list[ResourceSpans]
    store: Path


@pytest.fixture(scope="module", params=["http/protobuf", "grpc"])
def passed(
    request: pytest.FixtureRequest, upstream_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Passed:
    """All chats of the list, over each of OTLP's two protocols, with gzip."""
    folder = tmp_path_factory.mktemp("collector")
    collector = Collector(folder)
    with (
        collector.running(),
        running_proxy(
            folder,
            upstream_port=upstream_port,
            project="collector",
            endpoint=collector.grpc_url if request.param == "grpc" else collector.http_url,
            protocol=request.param,
            environment={"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"},
        ) as proxy,
        open_client(proxy.base_url, f"http://127.0.0.1:{upstream_port}/v1") as client,
    ):
        have_chats(client, caller=("ab" * 16, "cd" * 8))
        sent = wait_for_delivery(proxy.store, len(CALLS))
        listing = subprocess.run(
            [SPANTAP, "traces", "--store", proxy.store, "--json"],
            env=clean_environment(),
            capture_output=True,
            check=True,
        )
    return Passed(
        sent=sent,
        listed=[decode_json_object(line) for line in listing.stdout.splitlines()],
        written=collector.read_spans(),
        store=proxy.store,
    )


def test_every_span_is_written_once(passed: Passed) -> None:
    """R8: the file has each call that ``spantap traces`` lists, once, and nothing else."""
    written = Counter(map(read_span_id, passed.written))
    assert written == Counter(call["span_id"] for call in passed.listed)
    assert len(passed.written) == len(CALLS)
    assert {call["state"] for call in passed.listed} == {"delivered"}


def test_every_span_is_written_as_it_was_sent(passed: Passed) -> None:
    """Resource, scope, ids, times, attributes with their types, events and status are equal."""
    for group in passed.written:
        assert group == passed.sent[read_span_id(group)]


def test_exported_lines_are_read_as_they_were_sent(passed: Passed, tmp_path: Path) -> None:
    """Each line of ``store export --format otlp`` is a request of OTLP/JSON, of the same span.

    The collector's ``otlpjsonfile`` reads a file of them by the decoder that takes them here.
    """
    exported = subprocess.run(
        [SPANTAP, "store", "export", "--store", passed.store, "--format", "otlp"],
        env=clean_environment(),
        capture_output=True,
        check=True,
    )
    collector = Collector(tmp_path)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    with collector.running(), requests.Session() as session:
        session.trust_env = False
        for line in exported.stdout.splitlines():
            answer = session.post(
                f"{collector.http_url}/v1/traces",
                data=gzip.compress(line),
                headers=headers,
                timeout=30,
            )
            assert answer.status_code == requests.codes.ok, answer.text
    written = collector.read_spans()
    assert len(written) == len(CALLS)
    assert {read_span_id(group): group for group in written} == passed.sent


def test_collector_takes_nothing_but_gzip_over_http(tmp_path: Path) -> None:
    """So the spans that are written above came compressed; of gRPC no collector can ask that."""
    collector = Collector(tmp_path)
    with collector.running(), requests.Session() as session:
        session.trust_env = False

        def post(data: bytes, **headers: str) -> requests.Response:
            headers["Content-Type"] = "application/x-protobuf"
            url = f"{collector.http_url}/v1/traces"
            return session.post(url, data=data, headers=headers, timeout=30)

        plain = post(b"")
        assert plain.status_code == requests.codes.bad_request
        assert "unsupported Content-Encoding" in plain.text
        zipped = post(gzip.compress(b""), **{"Content-Encoding": "gzip"})
        assert zipped.status_code == requests.codes.ok


def read_span_id(group: ResourceSpans) -> str:
    """The id of the one span that stands with a resource."""
    (scope,) = group.scope_spans
    (span,) = scope.spans
    span_id: bytes = span.span_id
    return span_id.hex()
