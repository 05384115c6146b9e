"""From an exchange to a finished span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.trace import SpanKind, Status, StatusCode, TraceState

from codec._version import __version__
from codec.chat.answer import ChatMessage
from telemetry.observing.exchange import Outcome
from telemetry.span_identity import SpanIdentity
from telemetry.spans.otlp.encoding import encode_span
from telemetry.spans.recorder import MAX_SPAN_ATTRIBUTES, SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanNaming, SpanRules
from tests.telemetry.exchanges import (
    END_NS,
    FIRST_CHUNK_NS,
    IDENTITY,
    SPAN_ID,
    START_NS,
    TRACE_ID,
    build_exchange_attributes,
    make_exchange,
    make_response,
)
from tests.telemetry.sdk_spans import Event, encode_with_sdk, trace_with_sdk

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

PARENT_ID = "00f067aa0ba902b7"
OTHER_TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
RESOURCE = Resource({"service.name": "spantap"})
LIMIT_VARIABLES = ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*LIMIT_VARIABLES, "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


def record(**members: Any) -> ReadableSpan:
    """The span of an exchange with the given members."""
    span = SpanRecorder(RESOURCE, build_span_limits()).record(make_exchange(**members))
    assert span is not None
    return span


def events_of(span: ReadableSpan) -> list[tuple[str, int, dict[str, Any]]]:
    """Name, time and attributes of each event."""
    return [(event.name, event.timestamp, dict(event.attributes or {})) for event in span.events]


def test_span_is_complete() -> None:
    """Name, kind, scope, resource, times and attributes of a finished span."""
    members = {"response": make_response(ChatMessage(content="a"))}
    span = record(**members)
    assert span.name == "ChatCompletion"
    assert span.kind is SpanKind.CLIENT
    assert span.start_time == START_NS
    assert span.end_time == END_NS
    assert span.resource == RESOURCE
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "spantap"
    assert span.instrumentation_scope.version == __version__
    assert dict(span.attributes or {}) == build_exchange_attributes(make_exchange(**members))


def test_root_has_the_ids_of_its_identity() -> None:
    """A root is built with the ids that were decided, whatever else is being traced."""
    span = record()
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == TRACE_ID
    assert f"{span.context.span_id:016x}" == SPAN_ID
    assert span.parent is None
    assert span.links == ()


def test_child_has_its_parent() -> None:
    """The caller is a remote parent, and its trace state goes on."""
    identity = SpanIdentity(
        trace_id=TRACE_ID, span_id=SPAN_ID, parent_span_id=PARENT_ID, trace_state="a=1,b=2"
    )
    span = record(identity=identity)
    assert span.context is not None
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}" == TRACE_ID
    assert f"{span.context.span_id:016x}" == SPAN_ID
    assert f"{span.parent.span_id:016x}" == PARENT_ID
    assert span.parent.is_remote
    assert span.context.trace_state == TraceState([("a", "1"), ("b", "2")])


def test_a_retry_links_to_the_attempt_before() -> None:
    """Beside a caller that is linked; the other span is of this service, and sampled."""
    linked = (OTHER_TRACE_ID, PARENT_ID)
    identity = SpanIdentity(trace_id=TRACE_ID, span_id=SPAN_ID, linked=linked)
    before = ("11" * 16, "22" * 8)
    for of, others in ((identity, 1), (IDENTITY, 0)):
        span = record(identity=of, attempt_before=before, client_retry=1)
        *callers, link = span.links
        assert len(callers) == others
        assert (f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") == before
        assert not link.context.is_remote
        assert link.context.trace_flags.sampled
        assert encode_span(span) == encode_with_sdk(span)


def test_link() -> None:
    """A linked caller is a link of a root."""
    linked = (OTHER_TRACE_ID, PARENT_ID)
    span = record(identity=SpanIdentity(trace_id=TRACE_ID, span_id=SPAN_ID, linked=linked))
    assert span.parent is None
    (link,) = span.links
    assert (f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") == linked


def test_unsampled_exchange_has_no_span() -> None:
    """What was not sampled at the begin is not recorded."""
    identity = SpanIdentity(trace_id=TRACE_ID, span_id=SPAN_ID, trace_flags=2)
    recorder = SpanRecorder(RESOURCE, build_span_limits())
    assert recorder.record(make_exchange(identity=identity)) is None


def test_disabled_sdk_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """``OTEL_SDK_DISABLED`` switches spans off, and recording stays harmless."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert SpanRecorder(RESOURCE, build_span_limits()).record(make_exchange()) is None


def test_one_recorder_makes_many_spans() -> None:
    """Nothing of one span is left in the next."""
    recorder = SpanRecorder(RESOURCE, build_span_limits())
    first = recorder.record(make_exchange(outcome=Outcome.TRUNCATED, error_type="x"))
    other = SpanIdentity(trace_id=OTHER_TRACE_ID, span_id=PARENT_ID)
    second = recorder.record(make_exchange(identity=other))
    assert first is not None
    assert second is not None
    assert second.context is not None
    assert f"{second.context.trace_id:032x}" == OTHER_TRACE_ID
    assert (len(first.events), len(second.events)) == (1, 0)
    assert recorder.record(make_exchange(identity=IDENTITY)) is not first


def failed(
    outcome: Outcome,
    error_type: str,
    words: str = "",
    name: str | None = None,
    *,
    said: str | None = None,
    body: str | None = None,
) -> tuple[dict[str, Any], str, str, str]:
    """A row of ``docs/contract/promises.md#endings``: members, description and words."""
    told = words if said is None else said
    members = {"outcome": outcome, "error_type": error_type, "error_message": told or None}
    name = name or error_type
    description = f"{name}: {words}" if words else name
    return members | {"error_body": body}, description, name, body or words


BAD_TOOL = '{"error":{"message":"Bad tool"}}'
ERROR_ENDINGS = {
    "finish reason error": failed(Outcome.STREAM_ERROR, "network_error", "why"),
    "upstream status 400": failed(
        Outcome.UPSTREAM_ERROR, "400", "Bad tool", "BadRequestError", body=BAD_TOOL
    ),
    "upstream status 418": failed(Outcome.UPSTREAM_ERROR, "418", "teapot", "APIStatusError"),
    "upstream status 529": failed(Outcome.UPSTREAM_ERROR, "529", "busy", "InternalServerError"),
    "connect failure": failed(
        Outcome.CONNECT_ERROR, "connection_error", "no", "APIConnectionError"
    ),
    "timeout before headers": failed(Outcome.TIMEOUT, "timeout", "60 s", "APITimeoutError"),
    "error object in the stream": failed(
        Outcome.STREAM_ERROR, "stream_error", "\ufffd", said="\ud800"
    ),
    "broken framing or bare end": failed(Outcome.TRUNCATED, "stream_truncated", "reset"),
    "drain deadline": failed(Outcome.DRAIN_DEADLINE, "drain_deadline"),
}


@pytest.mark.parametrize("ending", ERROR_ENDINGS)
def test_errors(ending: str) -> None:
    """ERROR with type and words, an exception event at the end, and ``error.type``."""
    members, description, exception_type, message = ERROR_ENDINGS[ending]
    span = record(**members)
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == description
    assert events_of(span) == [
        (
            "exception",
            END_NS,
            {
                "exception.type": exception_type,
                "exception.message": message,
                "exception.stacktrace": "",
                "exception.escaped": "False",
            },
        )
    ]
    assert (span.attributes or {})["error.type"] == members["error_type"]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.COMPLETED, StatusCode.OK),
        (Outcome.CLIENT_DISCONNECTED, StatusCode.UNSET),
    ],
)
def test_no_error(outcome: Outcome, status: StatusCode) -> None:
    """Completed is OK, abandoned is UNSET, and neither has an error of any kind."""
    span = record(outcome=outcome)
    assert span.status.status_code is status
    assert span.status.description is None
    assert span.events == ()
    assert "error.type" not in (span.attributes or {})


def test_first_token_event_of_a_stream() -> None:
    """The event stands at the real time of the first data, before an exception."""
    span = record(streamed=True, first_chunk_ns=FIRST_CHUNK_NS, error_type="stream_error")
    assert [event[:2] for event in events_of(span)] == [
        ("First Token Stream Event", FIRST_CHUNK_NS),
        ("exception", END_NS),
    ]
    assert events_of(span)[0][2] == {}


@pytest.mark.parametrize(
    "members",
    [{"streamed": True}, {"first_chunk_ns": FIRST_CHUNK_NS}],
)
def test_no_first_token_event(members: dict[str, Any]) -> None:
    """A stream without data has no such event, and neither has a plain answer."""
    assert record(**members).events == ()


def test_long_conversations_fit() -> None:
    """Far more attributes than the SDK's 128 stay."""
    messages = [{"role": "user", "content": str(number)} for number in range(500)]
    span = record(request={"model": "m", "messages": messages})
    assert span.dropped_attributes == 0
    assert (span.attributes or {})["llm.input_messages.0.message.content"] == "0"
    assert (span.attributes or {})["llm.input_messages.499.message.content"] == "499"


@pytest.mark.parametrize("variable", LIMIT_VARIABLES)
def test_users_limit_wins(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """A limit that the user sets counts, and costs the oldest messages, no essentials."""
    monkeypatch.setenv(variable, "20")
    messages = [{"role": "user", "content": str(number)} for number in range(50)]
    response = make_response(ChatMessage(role="assistant", content="a"), body={"id": "x"})
    span = record(request={"model": "m", "messages": messages}, response=response)
    attributes = span.attributes or {}
    assert len(attributes) == 20
    assert span.dropped_attributes > 0
    assert "llm.input_messages.0.message.content" not in attributes
    assert {"openinference.span.kind", "llm.model_name", "metadata"} <= attributes.keys()
    assert {"llm.token_count.total", "input.value", "output.value"} <= attributes.keys()


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The raised limit is a named one; nonsense in a variable is a ``ValueError``."""
    assert build_span_limits().max_span_attributes == MAX_SPAN_ATTRIBUTES
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many")
    with pytest.raises(ValueError, match="OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"):
        build_span_limits()


def test_the_sdks_own_metrics_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A meter provider that is named for other programs and missing here keeps nobody waiting."""
    monkeypatch.setenv("OTEL_PYTHON_METER_PROVIDER", "missing")
    assert record().name == "ChatCompletion"


def test_a_legacy_completion_has_its_own_name() -> None:
    """As the in-process instrumentor calls it (``docs/contract/spans.md#first-token-event``)."""
    assert record(endpoint="completions").name == "Completion"


@pytest.mark.parametrize(
    ("endpoint", "request_body", "wanted"),
    [
        ("chat.completions", {"model": "gpt-4o"}, "chat gpt-4o"),
        ("chat.completions", {}, "chat"),
        ("completions", {"model": "davinci\ud800"}, "text_completion davinci\ufffd"),
        ("chat.completions", {"model": "x" * 500}, "chat " + "x" * 128),
    ],
)
def test_spans_may_be_named_as_the_genai_conventions_have_it(
    endpoint: str, request_body: dict[str, Any], wanted: str
) -> None:
    """By a setting: operation and model asked for (``docs/contract/spans.md#span-name``)."""
    rules = SpanRules(naming=SpanNaming.GENAI)
    recorder = SpanRecorder(RESOURCE, build_span_limits(), rules)
    span = recorder.record(make_exchange(request_body, endpoint=endpoint))
    assert span is not None
    assert span.name == wanted


def test_an_unsampled_exchange_that_a_rule_keeps_is_recorded() -> None:
    """Its ids are those that were decided at its beginning."""
    identity = SpanIdentity(trace_id=TRACE_ID, span_id=SPAN_ID, trace_flags=0)
    exchange = make_exchange(identity=identity, kept_by="errors")
    span = SpanRecorder(RESOURCE, build_span_limits()).record(exchange)
    assert span is not None
    assert span.context is not None
    assert f"{span.context.span_id:016x}" == identity.span_id


IDENTITIES = {
    "root": IDENTITY,
    "child": SpanIdentity(
        trace_id=TRACE_ID, span_id=SPAN_ID, parent_span_id=PARENT_ID, trace_state="a=1,b=2"
    ),
    "linked": SpanIdentity(
        trace_id=TRACE_ID,
        span_id=SPAN_ID,
        linked=(OTHER_TRACE_ID, PARENT_ID),
        trace_state="a=1",
    ),
}


@st.composite
def span_limits(draw: st.DrawFn) -> SpanLimits:
    """Limits of every kind, most of them in the way."""
    few = st.sampled_from([SpanLimits.UNSET, 0, 1, 2])
    many = st.sampled_from([SpanLimits.UNSET, 0, 1, 12, 25, 10_000])
    return SpanLimits(
        max_events=draw(few),
        max_links=draw(few),
        max_span_attributes=draw(many),
        max_event_attributes=draw(few),
        max_attribute_length=draw(many),
        max_span_attribute_length=draw(many),
    )


@given(
    identity=st.sampled_from([*IDENTITIES]),
    ending=st.sampled_from([*ERROR_ENDINGS, "completed", "client gone"]),
    streamed=st.booleans(),
    texts=st.lists(st.text(max_size=30), max_size=20),
    limits=span_limits(),
)
def test_it_is_the_tracers_span(
    identity: str, ending: str, streamed: bool, texts: list[str], limits: SpanLimits
) -> None:
    """The SDK's tracer makes the same span of the same values, and the same bytes."""
    members: dict[str, Any] = {"identity": IDENTITIES[identity], "streamed": streamed}
    status = Status(StatusCode.OK)
    errors: list[Event] = []
    if ending == "client gone":
        members["outcome"] = Outcome.CLIENT_DISCONNECTED
        status = Status(StatusCode.UNSET)
    elif ending != "completed":
        wrong, description, exception_type, message = ERROR_ENDINGS[ending]
        members |= wrong
        status = Status(StatusCode.ERROR, description)
        told = {"type": exception_type, "message": message, "stacktrace": "", "escaped": "False"}
        errors = [("exception", END_NS, {f"exception.{k}": v for k, v in told.items()})]
    messages = [{"role": "user", "content": text} for text in texts]
    exchange = make_exchange(
        {"model": "m", "messages": messages}, first_chunk_ns=FIRST_CHUNK_NS, **members
    )
    first: list[Event] = [("First Token Stream Event", FIRST_CHUNK_NS, {})] if streamed else []
    ours = SpanRecorder(RESOURCE, limits).record(exchange)
    theirs = trace_with_sdk(
        exchange,
        resource=RESOURCE,
        limits=limits,
        name="ChatCompletion",
        attributes=build_exchange_attributes(exchange),
        events=[*first, *errors],
        status=status,
    )
    assert ours is not None
    assert ours.to_json() == theirs.to_json()
    assert encode_span(ours) == encode_with_sdk(theirs)
