"""The comparison finds what differs, and nothing else (``docs/contract/spans.md#comparison``)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from telemetry.spans.otlp.decoding import DecodedEvent, DecodedSpan
from tests.differential.comparison import ABSENT, Difference, find_differences

_SPAN = DecodedSpan(
    name="ChatCompletion",
    trace_id="1" * 32,
    span_id="1" * 16,
    parent_span_id=None,
    trace_state="",
    start_ns=1,
    end_ns=2,
    status="OK",
    status_message="",
    attributes={"llm.system": "openai", "output.value": '{"a": [1, {"b": null}]}'},
    events=(DecodedEvent(name="exception", at_ns=1, attributes={"exception.type": "A"}),),
    links=(),
    resource={},
    scope=("a", "1"),
)


def _with(**attributes: Any) -> DecodedSpan:
    renamed = {key.replace("__", "."): value for key, value in attributes.items()}
    return replace(_SPAN, attributes={**_SPAN.attributes, **renamed})


def _paths(theirs: DecodedSpan, ours: DecodedSpan) -> list[tuple[str, Any, Any]]:
    return [(one.path, one.theirs, one.ours) for one in find_differences(theirs, ours)]


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (replace(_SPAN, name="Completion"), ("name", "ChatCompletion", "Completion")),
        (replace(_SPAN, status="UNSET"), ("status", "OK", "UNSET")),
        (replace(_SPAN, status_message="A"), ("status description", "", "A")),
        (replace(_SPAN, events=()), ("events/exception", 1, ABSENT)),
        (replace(_SPAN, events=_SPAN.events * 2), ("events/exception", 1, 2)),
        (
            replace(_SPAN, events=(replace(_SPAN.events[0], attributes={}),)),
            ("exception/exception.type", "A", ABSENT),
        ),
        (_with(llm__system="azure"), ("llm.system", "openai", "azure")),
        (_with(more=1), ("more", ABSENT, 1)),
        (_with(output__value="{}"), ("output.value/a", [1, {"b": None}], ABSENT)),
        (_with(output__value='{"a": [2, {"b": null}]}'), ("output.value/a/0", 1, 2)),
        (_with(output__value='{"a": [true, {"b": null}]}'), ("output.value/a/0", 1, True)),
        (_with(output__value='{"a": [1]}'), ("output.value/a/1", {"b": None}, ABSENT)),
        (_with(output__value="no"), ("output.value", {"a": [1, {"b": None}]}, "no")),
    ],
)
def test_what_differs_is_found(ours: DecodedSpan, expected: tuple[str, Any, Any]) -> None:
    """Down to the leaf, with both values."""
    assert _paths(_SPAN, ours) == [expected]


@pytest.mark.parametrize(
    "ours",
    [
        replace(_SPAN, start_ns=7, end_ns=8, scope=("b", "2"), span_id="2" * 16),
        replace(_SPAN, events=(replace(_SPAN.events[0], at_ns=9),)),
        _with(output__value='{"a":[1.0,{"b":null}]}'),
    ],
)
def test_what_need_not_be_equal_is_not_compared(ours: DecodedSpan) -> None:
    """Times, ids, scope; the spacing and the numbers' form of JSON."""
    assert _paths(_SPAN, ours) == []


def test_the_type_of_an_attribute_counts() -> None:
    """It is not JSON: OTLP has integers, floats and booleans."""
    assert _paths(_with(n=1), _with(n=1.0)) == [("n", 1, 1.0)]
    assert _paths(_with(n=1), _with(n=True)) == [("n", 1, True)]
    assert _paths(_with(n=[1.5, float("nan")]), _with(n=[1.5, float("nan")])) == []
    assert _paths(_with(n=[1.5]), _with(n=[2.5])) == [("n/0", 1.5, 2.5)]


def test_a_difference_is_a_value() -> None:
    """Two of the same are one."""
    assert Difference(path="a", theirs=1, ours=ABSENT) == Difference(
        path="a", theirs=1, ours=ABSENT
    )
    assert repr(ABSENT) == "ABSENT"
