"""Chats by the real SDK through the proxy, read back from a real Phoenix field by field."""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from codec.jsontext import decode_json
from tests.e2e.calls import CALLS, Call, have_chats, open_client
from tests.e2e.expected import expected_attributes, prune
from tests.e2e.spantap import running_proxy

if TYPE_CHECKING:
    from codec.jsontext import JsonObject
    from tests.e2e.phoenix import Phoenix, StoredEvent, StoredSpan

pytestmark = pytest.mark.e2e

FIRST_CHUNK_NS = 120_000_000
"""The demo upstream thinks so long before it speaks (its ``Pace``)."""

MICROSECOND_NS = 1_000
"""What Phoenix rounds times to."""

LATE_NS = 1_000_000_000
"""A client that hangs up is noticed within 100 ms, and one that reads ``[DONE]`` has not waited for
the end of the response; the rest is for a loaded machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The same calls, told by both sides.

    Attributes:
        calls: by name, as the client saw them.
        spans: as Phoenix has them.
        totals: what Phoenix adds up for the project.
        caller: trace and span id of the caller that is traced itself.
        upstream_port: of the demo upstream.
    """

    calls: dict[str, Call]
    spans: list[StoredSpan]
    totals: JsonObject
    caller: tuple[str, str]
    upstream_port: int

    def find(self, name: str) -> tuple[Call, StoredSpan]:
        """A call and its one span."""
        call = self.calls[name]
        (span,) = (span for span in self.spans if span.request_id == call.request_id)
        return call, span


@pytest.fixture(scope="module", params=["http/protobuf", "grpc"])
def told(
    request: pytest.FixtureRequest,
    phoenix: Phoenix,
    upstream_port: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> Told:
    """All chats of the list, over each of OTLP's two protocols."""
    is_grpc = request.param == "grpc"
    project = "chats-grpc" if is_grpc else "chats-http"
    # Never the same trace in two projects: Phoenix puts all of a trace where its first span went.
    caller = (secrets.token_hex(16), secrets.token_hex(8))
    with running_proxy(
        tmp_path_factory.mktemp(project),
        upstream_port=upstream_port,
        project=project,
        endpoint=f"http://127.0.0.1:{phoenix.grpc_port}" if is_grpc else phoenix.url,
        protocol=request.param,
    ) as proxy:
        with open_client(proxy.base_url, f"http://127.0.0.1:{upstream_port}/v1") as client:
            calls = have_chats(client, caller)
        spans = phoenix.wait_for_spans(project, len(calls))
    totals = phoenix.read_project(project)
    return Told(calls=calls, spans=spans, totals=totals, caller=caller, upstream_port=upstream_port)


def test_every_call_is_one_span(told: Told) -> None:
    """R3: Phoenix has exactly one span for each call, and nothing else."""
    assert tuple(told.calls) == CALLS
    wanted = Counter(call.request_id for call in told.calls.values())
    assert Counter(span.request_id for span in told.spans) == wanted
    assert len({span.span_id for span in told.spans}) == len(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_span_holds_what_the_client_sent_and_saw(told: Told, name: str) -> None:
    """Every attribute has the value and the type that the client's side of the call implies."""
    call, span = told.find(name)
    wanted = expected_attributes(call, upstream_port=told.upstream_port)
    found = _decode(span.attributes, is_stream="stream" in call.request)
    if call.is_left:
        _take_what_was_on_its_way(wanted, found)
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert (type(found[key]), found[key]) == (type(value), value), key


def _decode(attributes: JsonObject, *, is_stream: bool) -> JsonObject:
    """Attributes in the form of :func:`expected_attributes`."""
    decoded = {
        key: decode_json(value)
        if key in {"output.value", "llm.invocation_parameters"} or key.endswith(".json_schema")
        else value
        for key, value in attributes.items()
        if key not in {"metadata.ttft_ms", "metadata.first_content_ms"}
    }
    if is_stream:
        decoded["output.value"] = prune(decoded["output.value"])
    return decoded


def _take_what_was_on_its_way(wanted: JsonObject, found: JsonObject) -> None:
    """Of an abandoned call the span holds what the client read, and perhaps a few words more."""
    key = "llm.output_messages.0.message.content"
    read, recorded = wanted[key], found[key]
    assert recorded.startswith(read)
    assert " ".join(map(str, range(1, 100))).startswith(recorded), "and did not go on for ever"
    wanted[key] = recorded
    wanted["output.value"]["choices"][0]["message"]["content"] = recorded


@pytest.mark.parametrize("name", CALLS)
def test_span_has_name_status_and_place(told: Told, name: str) -> None:
    """Status says how the call ended; only a caller's own trace context gives it a parent."""
    call, span = told.find(name)
    assert span.name == "ChatCompletion"
    status = {"abandoned": "UNSET", "upstream error": "ERROR"}.get(name, "OK")
    assert span.status == status
    if status == "ERROR":
        error = decode_json(call.error_text)["error"]
        assert span.status_message == f"RateLimitError: {error['message']}"
    else:
        assert not span.status_message
    if name == "traced caller":
        assert (span.trace_id, span.parent_id) == told.caller
    else:
        assert span.parent_id is None
        assert [other.trace_id for other in told.spans].count(span.trace_id) == 1


@pytest.mark.parametrize("name", CALLS)
def test_events_tell_the_first_token_and_the_error(told: Told, name: str) -> None:
    """A stream has its First Token event, a failed call its exception, another one none."""
    call, span = told.find(name)
    if "stream" in call.request:
        (event,) = span.events
        assert (event.name, event.attributes) == ("First Token Stream Event", {})
    elif call.status >= 400:
        (event,) = span.events
        assert event.name == "exception"
        assert event.attributes == {
            "exception.type": "RateLimitError",
            "exception.message": call.error_text,
            "exception.stacktrace": "",
            "exception.escaped": "False",
        }
        assert event.at_ns == span.end_ns
    else:
        assert not span.events


@pytest.mark.parametrize("name", CALLS)
def test_times_are_those_of_the_wire(told: Told, name: str) -> None:
    """The span lies within what the client measured, its first token where the client saw it."""
    call, span = told.find(name)
    late_ns = LATE_NS if "stream" in call.request else MICROSECOND_NS
    assert call.started_ns - MICROSECOND_NS <= span.start_ns < span.end_ns
    assert span.end_ns <= call.finished_ns + late_ns
    if "stream" in call.request:
        assert call.chunk_ns is not None
        (event,) = span.events
        assert span.start_ns + FIRST_CHUNK_NS <= event.at_ns <= call.chunk_ns + MICROSECOND_NS
        _check_metadata_times(span, event)
    else:
        assert not {"metadata.ttft_ms", "metadata.first_content_ms"} & span.attributes.keys()
        if call.status == 200:
            assert span.end_ns - span.start_ns >= FIRST_CHUNK_NS


def _check_metadata_times(span: StoredSpan, event: StoredEvent) -> None:
    ttft_ms = span.attributes["metadata.ttft_ms"]
    first_content_ms = span.attributes["metadata.first_content_ms"]
    assert ttft_ms == pytest.approx((event.at_ns - span.start_ns) / 1e6, abs=0.002)
    # The first chunk names the role only; the content comes with the next one.
    assert ttft_ms < first_content_ms < (span.end_ns - span.start_ns) / 1e6


def test_phoenix_adds_up_what_the_provider_counted(told: Told) -> None:
    """The totals in Phoenix are the provider's, for streams too whose client asked for no usage."""
    usages = [call.usage for call in told.calls.values() if call.usage is not None]
    assert len(usages) == len(CALLS) - len(("upstream error", "abandoned"))
    assert told.totals["traceCount"] == len(CALLS)
    for side in ("prompt", "completion"):
        total = told.totals[f"tokenCount{side.title()}"]
        assert total == sum(usage[f"{side}_tokens"] for usage in usages)
