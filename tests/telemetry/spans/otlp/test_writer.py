"""A span's bytes: those of the SDK's exporter, for whatever a span may hold."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceState

from telemetry.spans.otlp.encoding import encode_span
from telemetry.spans.otlp.writer import write_span
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from tests.corpus.recordings import explain_absence, find_folder, load_chats, load_dynamo
from tests.telemetry.observed import observe
from tests.telemetry.sdk_spans import encode_with_sdk
from tests.telemetry.tap_frames import exchange_frames

words = st.text(st.characters(codec="utf-8"), max_size=8)
# Lengths about which a length takes one byte more, in one of the messages around the text, or
# from which no bytes are kept.
long_words = (
    st.integers(20, 70).map("w".ljust)
    | st.integers(95, 135).map("é".ljust)
    | st.integers(16_250, 16_400).map("x".ljust)
)
times_ns = st.integers(0, 2**63)
numbers = (
    st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 300) | st.integers(2**16 - 2, 2**16 + 2)
)
singles = words | long_words | st.booleans() | numbers | st.floats()
values = st.recursive(
    singles | st.binary(max_size=3) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(words, inner, max_size=3)
    ),
    max_leaves=4,
)
attributes = st.dictionaries(words | long_words, values, max_size=6)


@st.composite
def limited(draw: st.DrawFn) -> BoundedAttributes:
    """Attributes as the SDK keeps them, some of them dropped."""
    return BoundedAttributes(draw(st.none() | st.integers(0, 3)), draw(attributes))


@st.composite
def contexts(draw: st.DrawFn) -> SpanContext:
    """A span of ours, or of somebody else."""
    members = draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True))
    return SpanContext(
        draw(st.integers(1, 2**128 - 1)),
        draw(st.integers(1, 2**64 - 1)),
        is_remote=draw(st.booleans()),
        trace_state=TraceState([(member, "1") for member in members]),
    )


def _listed(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Events or links: a tuple, or the SDK's list, which counts what it drops."""
    most = st.none() | st.integers(0, 2)
    return st.lists(items, max_size=3).map(tuple) | st.builds(
        BoundedList.from_seq, most, st.lists(items, max_size=3)
    )


spans = st.builds(
    ReadableSpan,
    name=words | long_words,
    context=contexts(),
    parent=st.none() | contexts(),
    resource=st.builds(Resource, attributes, words),
    attributes=attributes | limited(),
    events=_listed(st.builds(Event, words, limited(), times_ns)),
    links=_listed(st.builds(Link, contexts(), limited())),
    kind=st.sampled_from(SpanKind),
    instrumentation_scope=st.builds(InstrumentationScope, words, words, st.none() | words),
    status=st.sampled_from([Status(StatusCode.UNSET), Status(StatusCode.OK)])
    | st.builds(Status, st.just(StatusCode.ERROR), st.none() | words),
    start_time=times_ns,
    end_time=times_ns,
)


@given(spans)
def test_the_bytes_are_the_exporters(span: ReadableSpan) -> None:
    """Every field of every span, in the same order, defaults left out."""
    assert encode_span(span) == encode_with_sdk(span)


@given(st.lists(spans, min_size=2, max_size=3))
def test_each_span_has_its_own_resource_and_scope(drawn: list[ReadableSpan]) -> None:
    """What is remembered of one span's envelope is never put around another's."""
    for span in [*drawn, *reversed(drawn)]:
        assert encode_span(span) == encode_with_sdk(span)


def _span_with(value: object) -> ReadableSpan:
    context = SpanContext(1, 2, is_remote=False)
    held: Any = {"k": value}
    return ReadableSpan("n", context, resource=Resource.get_empty(), attributes=held)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("a\ud800", UnicodeEncodeError),
        (("a\ud800",), UnicodeEncodeError),
        (2**63, OverflowError),
        (-(2**63) - 1, OverflowError),
        ({"inner": {1, 2}}, TypeError),
        (object(), TypeError),
    ],
)
def test_what_cannot_be_written_is_refused(value: object, error: type[Exception]) -> None:
    """Nothing is altered to fit; the exporter leaves it out, and then its bytes count."""
    span = _span_with(value)
    with pytest.raises(error):
        write_span(span)
    assert encode_span(span) == encode_with_sdk(span)


FOLDER = find_folder()


@pytest.mark.skipif(FOLDER is None, reason=explain_absence())
def test_spans_of_recorded_chats_have_the_exporters_bytes() -> None:
    """So it is for the traffic that was recorded, read in one piece."""
    assert FOLDER is not None
    recorder = SpanRecorder(Resource({"service.name": "spantap"}), build_span_limits())
    count = 0
    for recording in chain(load_chats(FOLDER), load_dynamo(FOLDER)):
        frames = exchange_frames(
            recording.body,
            asked=recording.request,
            status=recording.status,
            headers=[(name.decode(), value.decode()) for name, value in recording.head],
        )
        span = recorder.record(observe(frames))
        assert span is not None
        assert encode_span(span) == encode_with_sdk(span), recording.id
        count += 1
    assert count > 100
