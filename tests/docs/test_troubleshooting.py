"""``docs/troubleshooting.md``: what it says that spantap says, spantap says."""

from __future__ import annotations

import io
import re
import ssl
from typing import TYPE_CHECKING

import pytest
import trustme

from proxy.commands.check.command import run_check
from proxy.commands.check.findings import print_findings
from proxy.commands.check.store import _judge_spans
from proxy.relay import handler
from proxy.settings.settings import Settings
from proxy.upstream.errors import UpstreamError
from telemetry.store.rows import SpanState
from telemetry.store.survey import StoreSurvey
from tests.docs.blocks import DOCS, Page
from tests.e2e.processes import find_free_port
from tests.otlp_sink import GrpcSink, HttpSink, SinkAnswer

if TYPE_CHECKING:
    from pathlib import Path

PAGE = Page(DOCS / "troubleshooting.md")

NOWHERE = "http://127.0.0.1:1"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"

GRPC = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}

ANSWERS = (
    SinkAnswer(status=401),
    SinkAnswer(status=404),
    SinkAnswer(body=b"<html>", content_type="text/html"),
)


def check(folder: Path, environ: dict[str, str]) -> str:
    """What ``spantap check`` says, before an upstream that nobody is."""
    out = io.StringIO()
    settings = Settings(
        upstream=NOWHERE, port=find_free_port(), admin_port=0, store=folder / "traces.db"
    )
    run_check(settings, environ=environ, out=out)
    return out.getvalue()


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> str:
    """All that it says in the situations that the list is about."""
    folder = tmp_path_factory.mktemp("check")
    said = [
        check(folder, {"OTEL_SDK_DISABLED": "true"}),
        check(folder, {"OTEL_TRACES_SAMPLER": "always_off"}),
        check(folder, {}),
        check(folder, {"OTEL_TRACES_EXPORTER": "none"}),
        check(folder, {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"}),
        check(folder, {ENDPOINT: NOWHERE}),
    ]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with HttpSink(tls=context) as sink:
        said.append(check(folder, {ENDPOINT: sink.url}))
    with GrpcSink() as sink:
        said.append(check(folder, {ENDPOINT: f"http://127.0.0.1:{sink.port}"}))
        said.append(check(folder, {ENDPOINT: f"127.0.0.1:{sink.port}", **GRPC}))
    with HttpSink() as sink:
        for answer in ANSWERS:
            sink.script.append(answer)
            said.append(check(folder, {ENDPOINT: sink.url}))
        said.append(check(folder, {ENDPOINT: sink.url, **GRPC}))
    out = io.StringIO()
    survey = StoreSurvey(
        pending=0,
        rejected=2,
        others=0,
        oldest_pending_ns=None,
        pending_error=None,
        rejected_error="too large",
        damage="",
        is_checked=True,
    )
    print_findings(_judge_spans(survey, sends=True), out)
    return "".join([*said, out.getvalue()])


SAYINGS = [re.findall(r"`([^`]+)`", said)[0] for said, _ in PAGE.rows("What it says")]


def test_the_list_begins_with_the_command() -> None:
    """Before anything else is looked at, and the table of what it says is found."""
    after = PAGE.text.partition("## No traces arrive")[2]
    assert re.findall(r"```sh\n(.*?)\n", after)[0] == "spantap check"
    assert len(SAYINGS) == len(list(PAGE.rows("What it says"))) == 15


@pytest.mark.parametrize("saying", SAYINGS)
def test_what_the_command_is_said_to_say_it_says(saying: str, findings: str) -> None:
    """A dot-dot-dot stands for what differs."""
    pattern = ".*".join(map(re.escape, saying.split("…")))
    assert re.search(rf"^(?:good |note |bad  ) {pattern}", findings, re.MULTILINE)


def test_the_codes_are_those_of_the_answers() -> None:
    """Of all that can go wrong before an upstream answers."""
    listed = {code.strip("`") for code, _ in PAGE.rows("`code`")}
    kinds = UpstreamError.__subclasses__()
    assert listed == {error.code for kind in kinds for error in (kind, *kind.__subclasses__())}


def test_the_states_are_those_of_spans() -> None:
    """All of them, as ``spantap traces --json`` writes them."""
    listed = {state.strip("`") for state, _ in PAGE.rows("`state`")}
    assert listed == {state.value for state in SpanState}


def test_the_words_of_our_own_401_are_quoted() -> None:
    """By them it is told from the provider's."""
    quoted = re.search(r"\*(This proxy accepts[^*]+)\*", PAGE.text)
    assert quoted is not None
    assert quoted[1].replace("\n", " ") in handler._NO_KEY
