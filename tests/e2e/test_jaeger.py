"""Chats of the real SDK, shown by a real Jaeger (``docs/contract/spans.md#jaeger``)."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import inject
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind

from codec._version import __version__
from codec.text.jsontext import decode_json_object
from proxy.demo.script import MODEL
from telemetry.reading.stored_calls import open_calls
from tests.e2e.calls import CALLS, Call, ask, have_chats, open_client
from tests.e2e.expected import expected_genai_attributes
from tests.e2e.jaeger import PROGRAM, Jaeger, ShownReference, ShownSpan
from tests.e2e.outbox import wait_for_delivery
from tests.e2e.spantap import running_proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span
    from opentelemetry.trace import SpanContext

    from codec.text.jsontext import JsonObject

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not PROGRAM.exists(), reason="Jaeger is not there: install_jaeger.sh needs Go >= 1.26"
    ),
]

CALLER = "a traced program"
"""Its service."""

MICROSECOND_NS = 1_000
"""What Jaeger cuts times to."""

STATUS_TAGS = {"otel.status_code", "otel.status_description", "error"}
"""How Jaeger shows a status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The same calls, told by all sides.

    Attributes:
        calls: by name, as the client saw them.
        sent: what the proxy sent, by span id.
        spans: as Jaeger shows them.
        service: whose they are.
        caller: trace and span id of the caller that is traced itself.
        store: of the proxy.
    """

    calls: dict[str, Call]
    sent: dict[str, ResourceSpans]
    spans: list[ShownSpan]
    service: str
    caller: tuple[str, str]
    store: Path

    def find(self, name: str) -> tuple[Call, ShownSpan]:
        """A call and its one span."""
        call = self.calls[name]
        (span,) = (span for span in self.spans if read_request_id(span) == call.request_id)
        return call, span

    def find_sent(self, span: ShownSpan) -> Span:
        """The span as it was sent."""
        sent: Span = self.sent[span.span_id].scope_spans[0].spans[0]
        return sent


def read_request_id(span: ShownSpan) -> str:
    """The provider's id of the call."""
    return str(decode_json_object(span.tags["metadata"])["request_id"])


@pytest.fixture(scope="module", params=["http/protobuf", "grpc"])
def told(
    request: pytest.FixtureRequest,
    jaeger: Jaeger,
    upstream_port: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> Told:
    """All chats of the list, over each of OTLP's two protocols, the last by a traced caller."""
    is_grpc = request.param == "grpc"
    service = "chats-grpc" if is_grpc else "chats-http"
    with (
        running_proxy(
            tmp_path_factory.mktemp(service),
            upstream_port=upstream_port,
            project="jaeger",
            endpoint=jaeger.grpc_url if is_grpc else jaeger.http_url,
            protocol=request.param,
            environment={"OTEL_SERVICE_NAME": service},
        ) as proxy,
        open_client(proxy.base_url, f"http://127.0.0.1:{upstream_port}/v1") as client,
    ):
        with tracing_caller(jaeger) as context:
            caller = (f"{context.trace_id:032x}", f"{context.span_id:016x}")
            calls = have_chats(client, caller)
        sent = wait_for_delivery(proxy.store, len(calls))
    return Told(
        calls=calls,
        sent=sent,
        spans=jaeger.wait_for_spans(service, len(calls)),
        service=service,
        caller=caller,
        store=proxy.store,
    )


@contextmanager
def tracing_caller(jaeger: Jaeger) -> Iterator[SpanContext]:
    """A program that traces itself to the same Jaeger, within a span of its own."""
    with requests.Session() as session:
        session.trust_env = False
        exporter = OTLPSpanExporter(f"{jaeger.http_url}/v1/traces", session=session)
        provider = TracerProvider(resource=Resource({"service.name": CALLER}))
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer(CALLER)
        with tracer.start_as_current_span("answer a customer", kind=SpanKind.SERVER) as span:
            yield span.get_span_context()
        provider.shutdown()


def test_every_call_is_one_span(told: Told) -> None:
    """R3: Jaeger has exactly one span for each call, those that were sent, and nothing else."""
    assert tuple(told.calls) == CALLS
    wanted = Counter(call.request_id for call in told.calls.values())
    assert Counter(map(read_request_id, told.spans)) == wanted
    assert Counter(span.span_id for span in told.spans) == Counter(told.sent.keys())


@pytest.mark.parametrize("name", CALLS)
def test_span_is_shown_as_it_was_sent(told: Told, name: str) -> None:
    """Nothing is lost on the way: every attribute has its value and type, the rest its place."""
    _, span = told.find(name)
    sent = told.find_sent(span)
    found = {key: value for key, value in span.tags.items() if key not in STATUS_TAGS}
    assert_same(
        found,
        show_attributes(sent.attributes)
        | {
            "span.kind": "client",
            "otel.scope.name": "spantap",
            "otel.scope.version": __version__,
        },
    )
    assert span.operation == sent.name == "ChatCompletion"
    assert span.trace_id == sent.trace_id.hex()
    assert span.start_us == sent.start_time_unix_nano // MICROSECOND_NS
    assert span.duration_us == (
        (sent.end_time_unix_nano - sent.start_time_unix_nano) // MICROSECOND_NS
    )
    assert [event.at_us for event in span.events] == [
        event.time_unix_nano // MICROSECOND_NS for event in sent.events
    ]
    assert not span.warnings


def assert_same(found: JsonObject, wanted: JsonObject) -> None:
    """The same keys with the same values of the same types: 1, 1.0 and true are three things."""
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert (type(found[key]), found[key]) == (type(value), value), key


def show_attributes(attributes: Any) -> JsonObject:
    """Attributes of OTLP in the form in which Jaeger shows them."""
    pairs: list[KeyValue] = list(attributes)
    return {pair.key: show_value(pair.value) for pair in pairs}


def show_value(value: AnyValue) -> object:
    """Four types stay; a list is shown as JSON."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        members = [show_value(member) for member in value.array_value.values]
        return json.dumps(members, separators=(",", ":"), ensure_ascii=False)
    assert kind in {"string_value", "bool_value", "int_value", "double_value"}, kind
    shown: object = getattr(value, kind)
    return shown


@pytest.mark.parametrize("name", CALLS)
def test_tags_tell_what_the_client_sent_and_saw(told: Told, name: str) -> None:
    """Told from the client's side: input and model, tokens as integers, the GenAI keys."""
    call, span = told.find(name)
    wanted: JsonObject = {
        "openinference.span.kind": "LLM",
        "input.value": call.request_text,
        "llm.model_name": call.request["model"],
        "http.response.status_code": call.status,
    }
    for member, key in (("prompt", "prompt"), ("completion", "completion"), ("total", "total")):
        if call.usage is not None:
            wanted[f"llm.token_count.{key}"] = call.usage[f"{member}_tokens"]
    wanted |= expected_genai_attributes(call)
    wanted = {
        key: json.dumps(value, separators=(",", ":")) if isinstance(value, list) else value
        for key, value in wanted.items()
    }
    assert wanted["gen_ai.operation.name"] == "chat"
    assert_same({key: span.tags.get(key) for key in wanted}, wanted)


@pytest.mark.parametrize("name", CALLS)
def test_tags_of_a_stream_tell_its_times(told: Told, name: str) -> None:
    """The time to the first chunk is a float of seconds, on streams alone."""
    call, span = told.find(name)
    key = "gen_ai.response.time_to_first_chunk"
    if "stream" not in call.request:
        assert key not in span.tags
        return
    assert span.tags["gen_ai.request.stream"] is True
    assert type(span.tags[key]) is float
    (event,) = span.events
    assert span.tags[key] == pytest.approx((event.at_us - span.start_us) / 1e6, abs=1e-5)


@pytest.mark.parametrize("name", CALLS)
def test_status_is_a_tag(told: Told, name: str) -> None:
    """A failed call has the ``error`` tag that Jaeger draws red, an abandoned one no status."""
    call, span = told.find(name)
    found = {key: value for key, value in span.tags.items() if key in STATUS_TAGS}
    if name == "upstream error":
        message = decode_json_object(call.error_text)["error"]["message"]
        assert found == {
            "otel.status_code": "ERROR",
            "otel.status_description": f"RateLimitError: {message}",
            "error": True,
        }
    elif name == "abandoned":
        assert not found
    else:
        assert found == {"otel.status_code": "OK"}


@pytest.mark.parametrize("name", CALLS)
def test_events_tell_the_first_token_and_the_error(told: Told, name: str) -> None:
    """A stream has its First Token event where the client saw it, a failed call its exception."""
    call, span = told.find(name)
    if "stream" in call.request:
        (event,) = span.events
        assert (event.name, event.attributes) == ("First Token Stream Event", {})
        assert call.chunk_ns is not None
        assert span.start_us < event.at_us <= call.chunk_ns // MICROSECOND_NS
    elif call.status >= 400:
        (event,) = span.events
        assert (event.name, event.attributes) == (
            "exception",
            {
                "exception.type": "RateLimitError",
                "exception.message": call.error_text,
                "exception.stacktrace": "",
                "exception.escaped": "False",
            },
        )
    else:
        assert not span.events


@pytest.mark.parametrize("name", CALLS)
def test_times_are_those_of_the_wire(told: Told, name: str) -> None:
    """The span begins after the client sent, and what is whole ends before the client had it."""
    call, span = told.find(name)
    assert span.start_us >= call.started_ns // MICROSECOND_NS
    if "stream" not in call.request:
        assert span.start_us + span.duration_us <= call.finished_ns // MICROSECOND_NS


def test_resource_says_whose_span_it_is(told: Told) -> None:
    """Jaeger's service is ``service.name``; the rest of the resource stands beside it."""
    for span in told.spans:
        assert span.service == told.service
        resource = show_attributes(told.sent[span.span_id].resource.attributes)
        assert {"service.name": span.service, **span.resource} == resource
        assert resource["openinference.project.name"] == "jaeger"
        assert resource["service.version"] == __version__


def test_only_the_traced_callers_call_has_a_parent(told: Told) -> None:
    """Every other call is a trace of its own, with no reference to anything."""
    for name in CALLS:
        _, span = told.find(name)
        if name != "traced caller":
            assert not span.references
            assert [other.trace_id for other in told.spans].count(span.trace_id) == 1


def test_call_joins_its_callers_trace(told: Told, jaeger: Jaeger) -> None:
    """``honor``: the caller's own span and ours are one trace, ours the child."""
    trace_id, span_id = told.caller
    caller, span = jaeger.wait_for_trace(trace_id, 2)
    assert (caller.span_id, caller.service, caller.references) == (span_id, CALLER, ())
    assert span == told.find("traced caller")[1]
    assert span.references == (ShownReference(kind="CHILD_OF", trace_id=trace_id, span_id=span_id),)
    assert caller.start_us <= span.start_us
    assert span.start_us + span.duration_us <= caller.start_us + caller.duration_us


def test_call_links_to_its_caller(jaeger: Jaeger, upstream_port: int, tmp_path: Path) -> None:
    """``link``: our span is the root of its own trace and points to the caller's."""
    with (
        running_proxy(
            tmp_path,
            upstream_port=upstream_port,
            project="jaeger",
            endpoint=jaeger.http_url,
            protocol="http/protobuf",
            environment={"OTEL_SERVICE_NAME": "linked", "SPANTAP_TRACE_PARENT": "link"},
        ) as proxy,
        open_client(proxy.base_url, f"http://127.0.0.1:{upstream_port}/v1") as client,
    ):
        with tracing_caller(jaeger) as context:
            headers: dict[str, str] = {}
            inject(headers)
            client.complete(model=MODEL, messages=ask("Who asks?"), extra_headers=headers)
        wait_for_delivery(proxy.store, 1)
    (span,) = jaeger.wait_for_spans("linked", 1)
    callers_trace, callers_span = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    assert span.trace_id != callers_trace
    assert span.references == (
        ShownReference(kind="FOLLOWS_FROM", trace_id=callers_trace, span_id=callers_span),
    )
    (caller,) = jaeger.wait_for_trace(callers_trace, 1)
    assert caller.span_id == callers_span


def test_span_sent_again_is_shown_once(told: Told, jaeger: Jaeger) -> None:
    """R8: Jaeger keeps what it gets twice, and shows it once because the two are equal.

    Delivery is at least once, always of the same bytes (``docs/contract/spans.md#delivery``).
    """
    _, span = told.find("tool calls")
    with open_calls(told.store) as reader:
        (stored,) = reader.find(span.span_id)
    with requests.Session() as session:
        session.trust_env = False
        answer = session.post(
            f"{jaeger.http_url}/v1/traces",
            data=stored.span,
            headers={"Content-Type": "application/x-protobuf"},
            timeout=30,
        )
    assert answer.status_code == requests.codes.ok
    assert len(jaeger.wait_for_trace(span.trace_id, 2, raw=True)) == 2
    assert jaeger.read_trace(span.trace_id) == [span]
    assert jaeger.read_service(told.service).count(span) == 1
