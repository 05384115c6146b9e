"""What may stand in an attribute, rule by rule."""

from __future__ import annotations

import json
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.text.jsontext import encode_json
from telemetry.attribute_values import (
    AttributeValue,
    clean_attributes,
    clean_text,
    count_chars,
    json_text,
    strict_json_text,
)
from telemetry.observing.exchange import Outcome
from telemetry.spans.size_limits import size_bytes
from tests.telemetry.exchanges import cleaned


def nested(depth: int) -> object:
    """Lists in lists."""
    value: object = []
    for _ in range(depth):
        value = [value]
    return value


def round_to_thousandth(number: float) -> float:
    """A number that no writer gives an exponent."""
    return round(number, 3)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("ümläut 🎉", "ümläut 🎉"),
        ("a\ud800b", "a\ufffdb"),
        ("\udc00", "\ufffd"),
        ("tail \ud83c", "tail \ufffd"),
        ("\ud83c\udf89 whole", "🎉 whole"),
        ("nul\x00stays", "nul\x00stays"),
    ],
)
def test_text_becomes_valid_unicode(text: str, cleaned: str) -> None:
    """Lone surrogates are replaced, split pairs joined, everything else stays."""
    assert clean_text(text) == cleaned


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_becomes_valid_unicode(text: str) -> None:
    """The result always encodes, and valid text is not touched."""
    cleaned = clean_text(text)
    assert cleaned.encode().decode() == cleaned
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert cleaned == text


def test_enum_members_become_plain_strings() -> None:
    """A member of a string enumeration leaves as the plain string that it holds."""
    assert type(cleaned([("k", Outcome.TIMEOUT)])["k"]) is str


@pytest.mark.parametrize("number", [0, -1, 2**63 - 1, -(2**63)])
def test_integers_of_64_bits_stay(number: int) -> None:
    """What OTLP can hold stays exactly."""
    assert cleaned([("k", number)]) == {"k": number}


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400])
def test_larger_integers_are_left_out(number: int) -> None:
    """What OTLP cannot hold is absent rather than wrong."""
    assert cleaned([("k", number)]) == {}


def test_other_kinds_are_left_out() -> None:
    """Nothing but leaves; order stays."""
    pairs: list[tuple[str, object]] = [
        ("none", None),
        ("b", True),
        ("dict", {"a": 1}),
        ("f", 1.5),
        ("list", ["a"]),
        ("a", ""),
    ]
    assert list(cleaned(pairs).items()) == [("b", True), ("f", 1.5), ("a", "")]


@given(
    st.dictionaries(
        st.text(),
        st.none()
        | st.text(st.characters(exclude_categories=()))
        | st.integers()
        | st.floats()
        | st.lists(st.text()).map(tuple)
        | st.lists(st.floats()).map(tuple),
    )
)
def test_characters_are_never_counted_too_few(pairs: dict[str, object]) -> None:
    """No text has more, four bytes for each are enough for all, and cleaning counts no fewer."""
    attributes, chars = clean_attributes(pairs.items())
    values = attributes.values()
    assert chars >= count_chars(values) >= max(map(_longest, values), default=0)
    assert 4 * count_chars(values) >= sum(size_bytes(value) for value in values)


def _longest(value: AttributeValue) -> int:
    texts = value if isinstance(value, tuple) else (value,)
    return max(len(text) if isinstance(text, str) else 0 for text in texts)


def test_json_text_keeps_characters() -> None:
    """JSON text is written with non-ASCII kept (``docs/contract/spans.md#accumulated-object``)."""
    assert json_text({"ü": "é"}) == '{"ü": "é"}'


@pytest.mark.parametrize("value", [{"n": 10**5000}, {"x": object()}])
def test_unwritable_values_are_none(value: object) -> None:
    """Too many digits, or no JSON value at all: absent, never an exception."""
    with pytest.raises((ValueError, TypeError)):
        encode_json(value)
    assert json_text(value) is None


def test_deep_values_are_written_or_absent() -> None:
    """The fast writer's limit is the interpreter's; no body that was read is so deep."""
    assert json_text(nested(100_000)) in {None, "[" * 100_001 + "]" * 100_001}


def json_values(numbers: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """What may come out of a JSON text, lone surrogates and integers of any size included."""
    leaves = st.none() | st.booleans() | st.text(st.characters()) | st.integers() | numbers
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
        max_leaves=8,
    )


@given(json_values(st.floats()))
def test_json_text_reads_back(value: object) -> None:
    """What is written as JSON text says all of the value: what is no number stays what it is."""
    text = json_text(value)
    assert text is not None
    assert repr(json.JSONDecoder().decode(text)) == repr(value)


@given(json_values(st.floats(min_value=-(10.0**15), max_value=10.0**15).map(round_to_thousandth)))
def test_json_text_is_the_standard_librarys(value: object) -> None:
    """The text is that of ``json.dumps``, but for the exponents of numbers."""
    assert json_text(value) == encode_json(value)
    assert strict_json_text(value) == encode_json(value)


@given(json_values(st.floats()))
def test_strict_json_text_has_null_for_what_is_no_number(value: object) -> None:
    """JSON for any reader: the rest is as it was."""
    text = strict_json_text(value)
    assert text is not None
    assert repr(json.JSONDecoder().decode(text)) == repr(without_infinity(value))


def without_infinity(value: object) -> object:
    """The value with ``None`` for each float that JSON does not know."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: without_infinity(item) for key, item in value.items()}
    return [without_infinity(item) for item in value] if isinstance(value, list) else value
