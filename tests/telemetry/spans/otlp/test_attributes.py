"""``telemetry.spans.otlp.attributes``: attributes written at a stroke, and what is kept of them."""

from __future__ import annotations

from enum import StrEnum
from math import inf, nan
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext

from telemetry.attribute_values import clean_attributes
from telemetry.spans.otlp import attributes as otlp_attributes
from telemetry.spans.otlp.attributes import MAX_WORD_CHARS, WrittenAttributes
from telemetry.spans.otlp.encoding import encode_span
from telemetry.spans.otlp.writer import FinishedSpan
from tests.telemetry.sdk_spans import encode_with_sdk

if TYPE_CHECKING:
    import pytest

CONTEXT = SpanContext(1, 2, is_remote=False)


class Word(StrEnum):
    """A text that is no plain one."""

    ONE = "1"


class Text(str):
    """Another."""

    __slots__ = ()


class Number(int):
    """An integer that is no plain one."""

    __slots__ = ()


# Python takes most of these for one of the others.
SINGLES: list[Any] = [
    *(0, 1, -1, False, True, 0.0, -0.0, 1.0, -1.0, nan, inf, -inf, None),
    *("", "0", "1", Word.ONE, Text("1"), Number(1), Number(0), b"1", object()),
    *(127, 128, 2**16 - 1, 2**16, 2**53, 2.0**53, 2**63 - 1, 2**63, -(2**63), 10**400),
    *("é", "a\ud800", "\ud83c\udf89", "\udf89" * MAX_WORD_CHARS, "\udf89" * (MAX_WORD_CHARS + 1)),
]
LENGTHS = [23, 24, 25, 63, 64, 65, 100, 120, 127, 128, 16_370, 16_384]
one_value = (
    st.sampled_from(SINGLES)
    | st.floats()
    | st.integers()
    | st.text(st.characters(exclude_categories=()), max_size=30)
    | st.sampled_from(LENGTHS).map("x".ljust)
    | st.sampled_from(LENGTHS).map("\udf89é".ljust)
)
any_value = (
    one_value
    | st.lists(one_value, max_size=2)
    | st.lists(one_value, max_size=2).map(tuple)
    | st.dictionaries(st.text(max_size=1), one_value, max_size=1)
)
# Few names, so that equal values meet under one.
many_values = st.dictionaries(st.sampled_from(["", "k", "é", "n" * 90]), any_value, max_size=4)


def _sdk_bytes(attributes: dict[str, Any]) -> bytes:
    return encode_with_sdk(
        ReadableSpan("n", CONTEXT, resource=Resource.get_empty(), attributes=attributes)
    )


def _own_bytes(values: dict[str, Any]) -> bytes:
    written: Any = WrittenAttributes(values)
    return encode_span(
        FinishedSpan("n", CONTEXT, resource=Resource.get_empty(), attributes=written)
    )


@given(st.lists(many_values, min_size=1, max_size=4))
def test_the_bytes_are_the_exporters_of_the_clean_values(
    drawn: list[dict[str, Any]],
) -> None:
    """Of whatever the wire held, also where something like it was written before."""
    for values in drawn:
        clean, _ = clean_attributes(values.items())
        assert _own_bytes(values) == _sdk_bytes({**clean})


def test_equal_values_do_not_share_bytes() -> None:
    """Whichever of two equal values is written first."""
    for order in (SINGLES, SINGLES[::-1], SINGLES):
        for single in order:
            for value in (single, (single,), (single, single)):
                clean, _ = clean_attributes([("k", value)])
                assert _own_bytes({"k": value}) == _sdk_bytes({**clean}), repr(value)


@given(many_values)
def test_whoever_looks_sees_the_clean_values(values: dict[str, Any]) -> None:
    """Names, values, their types, their order and their number; what was left out is not there."""
    clean, _ = clean_attributes(values.items())
    written = WrittenAttributes(values)
    assert [*map(repr, written.items())] == [*map(repr, clean.items())]
    assert len(written) == len(clean)
    for key in values:
        assert (key in written) == (key in clean)
    assert "absent" not in written


@given(many_values, st.integers(0, 200))
def test_what_is_over_a_size_is_found(values: dict[str, Any], size: int) -> None:
    """Every text of more characters is among it."""
    over = [*WrittenAttributes(values).over(size)]
    for value in clean_attributes(values.items())[0].values():
        assert not isinstance(value, str) or len(value) <= size or over
    assert not [*WrittenAttributes(values).over(20_000)]


def test_only_what_is_short_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """No id, no sentence, no large number, no list of several."""
    written = otlp_attributes._Written()
    monkeypatch.setattr(otlp_attributes, "_look_up", written.__getitem__)
    word = "w" * MAX_WORD_CHARS
    short: list[Any] = [word, 7, True, None, (), (word,)]
    others: list[Any] = [word + "w", 2**16, -1, 0.5, (word + "w",), (word, word), (1.0,)]
    for value in short:
        WrittenAttributes({"kept": value})
    for value in [*others, Text("t")]:
        WrittenAttributes({"not kept": value})
    assert {key for key, _, _ in written} == {"kept"}
    assert len(written) == 6


def test_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was kept is forgotten in favour of what comes."""
    written = otlp_attributes._Written()
    monkeypatch.setattr(otlp_attributes, "_look_up", written.__getitem__)
    monkeypatch.setattr(otlp_attributes, "MAX_KEPT_ATTRIBUTES", 10)
    for number in range(100):
        attributes = WrittenAttributes({"k": number, "l": str(number)})
        assert [*attributes.values()] == [number, str(number)]
        assert 0 < len(written) <= 10
