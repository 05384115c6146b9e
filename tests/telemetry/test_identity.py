"""Who a span is: caller, policy and sampler."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    DEFAULT_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import get_current_span

from telemetry.identity import SpanIdentitySource
from telemetry.span_identity import SpanIdentity, TraceParentPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanKind, TraceState
    from opentelemetry.util.types import Attributes

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
CALLER_ID = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE_ID}-{CALLER_ID}-01"
UNSAMPLED = f"00-{TRACE_ID}-{CALLER_ID}-00"


class SpySampler(Sampler):
    """Samples always and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Note parent, trace id, name and the number of links."""
        parent = get_current_span(parent_context).get_span_context()
        self.asked.append((parent.span_id, trace_id, name, len(links or ())))
        return SamplingResult(Decision.RECORD_AND_SAMPLE)

    def get_description(self) -> str:
        """Say what this is."""
        return "spy"


def decide(
    traceparent: str | None,
    tracestate: str | None = None,
    policy: TraceParentPolicy = TraceParentPolicy.HONOR,
    sampler: Sampler | None = None,
) -> SpanIdentity:
    """One decision of a fresh source."""
    source = SpanIdentitySource(policy, sampler=sampler)
    return source.decide(traceparent, tracestate, name="ChatCompletion")


@pytest.fixture(autouse=True)
def _default_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_TRACES_SAMPLER", raising=False)
    monkeypatch.delenv("OTEL_TRACES_SAMPLER_ARG", raising=False)


def test_root_without_caller() -> None:
    """Without a traceparent the span is a sampled root with random ids."""
    first, second = decide(None), decide(None)
    assert (len(first.trace_id), len(first.span_id)) == (32, 16)
    assert first.trace_id != second.trace_id
    assert first.span_id != second.span_id
    assert first.parent_span_id is None
    assert first.linked is None
    assert first.sampled
    assert first.trace_flags == 3  # sampled, and the trace id is random


def test_honored_caller_is_the_parent() -> None:
    """The caller's trace goes on, its state is handed on, the span id is ours."""
    identity = decide(SAMPLED, "a=1, b=2")
    assert identity.trace_id == TRACE_ID
    assert identity.parent_span_id == CALLER_ID
    assert identity.span_id != CALLER_ID
    assert identity.trace_state == "a=1,b=2"
    assert identity.linked is None
    assert identity.trace_flags == 1  # the caller did not say that its id is random
    assert decide(f"00-{TRACE_ID}-{CALLER_ID}-03").trace_flags == 3


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "garbage",
        "ff" + SAMPLED[2:],
        SAMPLED + "-extra",
        SAMPLED.upper(),
        f"00-{'0' * 32}-{CALLER_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"00-{TRACE_ID}-{CALLER_ID}",
        "é" * 10,
    ],
)
@pytest.mark.parametrize("policy", list(TraceParentPolicy))
def test_invalid_caller_makes_a_root(traceparent: str, policy: TraceParentPolicy) -> None:
    """What W3C Trace Context calls invalid does not count, under any policy."""
    identity = decide(traceparent, "a=1", policy)
    assert identity.parent_span_id is None
    assert identity.linked is None
    assert identity.trace_id != TRACE_ID
    assert identity.trace_state == ""


def test_later_versions_are_read() -> None:
    """A later version's longer header is read as far as it is known (W3C section 4.3)."""
    assert decide("cc" + SAMPLED[2:] + "-what-the-future-holds").parent_span_id == CALLER_ID


def test_ignored_caller_leaves_no_trace() -> None:
    """By the policy ``ignore`` the span knows nothing of its caller."""
    identity = decide(SAMPLED, "a=1", TraceParentPolicy.IGNORE)
    assert identity.trace_id != TRACE_ID
    assert (identity.parent_span_id, identity.linked, identity.trace_state) == (None, None, "")


def test_linked_caller_is_no_parent() -> None:
    """By the policy ``link`` the span is a root that links to the caller."""
    identity = decide(SAMPLED, "a=1", TraceParentPolicy.LINK)
    assert identity.trace_id != TRACE_ID
    assert identity.parent_span_id is None
    assert identity.linked == (TRACE_ID, CALLER_ID)
    assert identity.trace_state == ""


@pytest.mark.parametrize(
    ("policy", "parent", "links"),
    [
        (TraceParentPolicy.HONOR, int(CALLER_ID, 16), 0),
        (TraceParentPolicy.LINK, 0, 1),
        (TraceParentPolicy.IGNORE, 0, 0),
    ],
)
def test_sampler_sees_what_counts(policy: TraceParentPolicy, parent: int, links: int) -> None:
    """The sampler is asked once, with the ids, the name, and the caller if it is parent."""
    spy = SpySampler()
    identity = decide(SAMPLED, policy=policy, sampler=spy)
    assert spy.asked == [(parent, int(identity.trace_id, 16), "ChatCompletion", links)]


def test_parent_based_sampling() -> None:
    """The default sampler follows the caller, but only one that is the parent."""
    assert not decide(UNSAMPLED).sampled
    assert decide(UNSAMPLED).traceparent.endswith("-00")
    assert decide(UNSAMPLED, policy=TraceParentPolicy.LINK).sampled
    assert decide(UNSAMPLED, policy=TraceParentPolicy.IGNORE).sampled
    assert decide(SAMPLED, sampler=ParentBased(ALWAYS_OFF)).sampled
    assert not decide(None, sampler=ParentBased(ALWAYS_OFF)).sampled


@pytest.mark.parametrize(
    ("name", "argument", "traceparent", "sampled"),
    [
        ("always_off", None, SAMPLED, False),
        ("always_on", None, UNSAMPLED, True),
        ("parentbased_always_off", None, None, False),
        ("traceidratio", "0.0", None, False),
        ("traceidratio", "1.0", UNSAMPLED, True),
        ("parentbased_traceidratio", "0.0", SAMPLED, True),
    ],
)
def test_standard_variables(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    argument: str | None,
    traceparent: str | None,
    sampled: bool,
) -> None:
    """``OTEL_TRACES_SAMPLER`` and its argument choose the sampler."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", name)
    if argument is not None:
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
    assert decide(traceparent).sampled is sampled


def test_traceparent_names_this_span() -> None:
    """What the upstream is told is this very span, so that it becomes our child."""
    identity = decide(SAMPLED)
    assert identity.traceparent == f"00-{TRACE_ID}-{identity.span_id}-01"
    child = decide(identity.traceparent)
    assert child.parent_span_id == identity.span_id


def state_of(count: int) -> str:
    return ",".join(f"k{number}=v" for number in range(count))


def long_state(count: int) -> str:
    return ",".join(f"k{number:02}=".ljust(260, "v") for number in range(count))


@pytest.mark.parametrize(
    ("tracestate", "kept"),
    [
        (state_of(32), state_of(32)),
        (state_of(33), ""),
        (f" , ,{state_of(2)}\t, ", state_of(2)),
        (long_state(31), long_state(31)),
        (long_state(32), ""),
        ("t1@vendor=1,a/b*c-d_e= ~!", "t1@vendor=1,a/b*c-d_e= ~!"),
        ("a=1,b", ""),
        ("a=1,B=2", ""),
        ("a=1=2", ""),
        ("a=\u00e9", ""),
        ("a=1,a=2", ""),
    ],
)
def test_a_state_that_is_not_valid_is_left_out_as_a_whole(
    tracestate: str, kept: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The parent stands, and nobody logs anything."""
    identity = decide(SAMPLED, tracestate)
    assert identity.trace_state == kept
    assert identity.parent_span_id == CALLER_ID
    assert caplog.records == []


@given(
    traceparent=st.just(SAMPLED) | st.text("0-afA", max_size=1_000),
    tracestate=st.text("aA1,=@ \t/-;~", max_size=40) | st.integers(0, 300).map(state_of),
)
def test_no_client_makes_the_sdk_log(traceparent: str, tracestate: str) -> None:
    """Whatever it sends."""
    with capture_sdk_logs() as records:
        decide(traceparent, tracestate)
        decide(SAMPLED + "-" + "x" * 10_000, tracestate)
    assert records == []


@contextlib.contextmanager
def capture_sdk_logs() -> Iterator[list[logging.LogRecord]]:
    handler = logging.handlers.BufferingHandler(1_000)
    sdk = logging.getLogger("opentelemetry")
    sdk.addHandler(handler)
    try:
        yield handler.buffer
    finally:
        sdk.removeHandler(handler)


@given(traceparent=st.none() | st.text(max_size=80), tracestate=st.none() | st.text(max_size=80))
def test_any_header_gives_an_identity(traceparent: str | None, tracestate: str | None) -> None:
    """Whatever a client sends, an exchange gets its identity."""
    identity = decide(traceparent, tracestate)
    assert (len(identity.trace_id), len(identity.span_id)) == (32, 16)


def test_identity_travels_in_frames() -> None:
    """An identity is a plain value that MessagePack carries."""
    identity = decide(SAMPLED, "a=1", TraceParentPolicy.LINK)
    data = msgspec.msgpack.encode(identity)
    assert msgspec.msgpack.decode(data, type=SpanIdentity) == identity


@pytest.mark.parametrize("sampler", [ALWAYS_ON, DEFAULT_ON])
@pytest.mark.parametrize("policy", TraceParentPolicy)
@pytest.mark.parametrize("state", [None, "a=1", "no state"])
def test_a_root_that_nobody_leaves_out_is_what_the_sampler_makes_of_it(
    sampler: Sampler, policy: TraceParentPolicy, state: str | None
) -> None:
    """Where none is asked, the span is the same but for its ids, which are new each time."""
    short = SpanIdentitySource(policy, sampler=sampler)
    asked = SpanIdentitySource(policy, sampler=ParentBased(ALWAYS_ON))
    ids = {"trace_id": "0" * 32, "span_id": "0" * 16}
    one, two, general = (source.decide(None, state, name="x") for source in (short, short, asked))
    assert msgspec.structs.replace(one, **ids) == msgspec.structs.replace(general, **ids)
    assert len({one.trace_id, two.trace_id, one.span_id, two.span_id}) == 4
    assert (len(one.trace_id), len(one.span_id)) == (32, 16)


@pytest.mark.parametrize(
    ("sampler", "samples_some"),
    [
        (ParentBased(TraceIdRatioBased(0.25)), True),
        (TraceIdRatioBased(1e-9), True),
        (TraceIdRatioBased(0.0), False),
        (ParentBased(TraceIdRatioBased(1.0)), False),
        (ParentBased(ALWAYS_ON), False),
        (ALWAYS_OFF, False),
    ],
)
def test_a_sampler_of_a_share_is_known(sampler: Sampler, *, samples_some: bool) -> None:
    """By what it says of itself."""
    assert SpanIdentitySource(sampler=sampler).samples_some is samples_some
