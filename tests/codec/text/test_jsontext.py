"""JSON text to values and back."""

from __future__ import annotations

import json
import math
import tracemalloc
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from codec.text.jsontext import (
    compact_text,
    decode_json,
    decode_json_object,
    encode_json,
    is_json,
    join_text,
    split_object,
)
from codec.text.nesting import MAX_DEPTH
from tests.codec.text.test_scan import json_values


@given(json_values)
def test_what_was_encoded_is_decoded_to_the_same_value(value: Any) -> None:
    """Both ways, as text and as bytes; compared by text, for NaN is not equal to itself."""
    text = encode_json(value)
    assert json.dumps(decode_json(text)) == json.dumps(value)
    assert json.dumps(decode_json(text.encode())) == json.dumps(value)


@pytest.mark.parametrize(
    "number", [2**63, -(2**63) - 1, 2**64, 12345678901234567890123456789012345678901234567890]
)
def test_an_integer_of_any_size_stays_an_integer(number: int) -> None:
    """Rule 1: Together sends 64-bit seeds (``docs/contract/wire.md#dialects``)."""
    decoded = decode_json(b'{"seed":%d}' % number)
    assert decoded == {"seed": number}
    assert isinstance(decoded["seed"], int)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'[Infinity,-Infinity,"\\ud83d"]', [math.inf, -math.inf, "\ud83d"]),
        (b"1e400", math.inf),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        ("\ufeff[1]", [1]),
        (b'"line\nbreak"', "line\nbreak"),
        (b' \r\n\t{"a":1}\n', {"a": 1}),
        (b"9" * 400, int("9" * 400)),
    ],
)
def test_what_the_strict_parser_refuses_gets_a_second_chance(data: bytes | str, value: Any) -> None:
    """Rule 2: providers send such things."""
    assert decode_json(data) == value


def test_nan_is_taken() -> None:
    """Rule 2, for the one value that is not equal to itself."""
    assert math.isnan(decode_json(b"NaN"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{} {}",
        b"nope",
        b'"\xff"',
        b"\xff\xfe1\x00",
        "\ud800",
        b"[" * 200_000,
        b"[" * 200_000 + b"]" * 200_000,
        b"9" * 10_000,
    ],
)
def test_nothing_but_a_value_error_comes_out(data: bytes | str) -> None:
    """Rule 3: nesting beyond the parser and integers beyond the interpreter's limit included."""
    with pytest.raises(ValueError, match=r"\S"):
        decode_json(data)


@given(st.binary() | st.text())
def test_any_input_is_a_value_or_a_value_error(data: bytes | str) -> None:
    """Rule 3 on noise."""
    try:
        decode_json(data)
    except ValueError:
        return


@pytest.mark.parametrize("data", [b"[]", b'"{}"', b"null", b"1"])
def test_an_object_must_be_an_object(data: bytes) -> None:
    """Another JSON value is an error, named by its type."""
    with pytest.raises(ValueError, match="expected a JSON object, got"):
        decode_json_object(data)
    assert decode_json_object(b"{}") == {}


def test_encoded_text_keeps_non_ascii_and_default_separators() -> None:
    """``docs/contract/spans.md#accumulated-object``: what the in-process instrumentation writes."""
    assert encode_json({"a": ["ж", 1, None]}) == '{"a": ["ж", 1, null]}'


def test_encoded_text_can_always_be_encoded_to_utf8() -> None:
    """A lone surrogate, which rule 2 lets in, goes out as the escape that it came as."""
    value = decode_json(b'"\\ud83d \\u0436"')
    assert encode_json(value) == '"\\ud83d ж"'
    assert decode_json(encode_json(value).encode()) == value


def test_encoding_too_deep_a_value_is_a_value_error() -> None:
    """Rule 3 in the other direction."""
    value: list[Any] = []
    for _ in range(200_000):
        value = [value]
    with pytest.raises(ValueError, match="nested too deeply"):
        encode_json(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, "é"]}, '{"a":[1,"é"]}'),
        ("\ud800", '"\ud800"'),
        (2**70, str(2**70)),
        pytest.param(10**5000, "[ValueError]", id="thousands of digits"),
    ],
)
def test_compact_text(value: Any, expected: str) -> None:
    """Any JSON value has a compact text, with the standard encoder where the fast one refuses."""
    assert compact_text(value) == expected


def test_compact_text_of_endless_nesting() -> None:
    """What is nested too deeply is named instead of raising."""
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert compact_text(value) == "[JSON nested too deeply]"


@pytest.mark.parametrize(("opens", "closes"), [('{"[{":', "}"), ('[{"]\\"":0},', "]")])
@pytest.mark.parametrize("inner", ["[]", "[NaN]"])
def test_the_limit_of_depth_is_ours(opens: str, closes: str, inner: str) -> None:
    """Rule 3: what is just at it is a value, one level more is none, with any interpreter."""
    for levels, is_value in ((MAX_DEPTH - 1, True), (MAX_DEPTH, False)):
        text = opens * levels + inner + closes * levels
        assert is_json(text) is is_value
        for data in (text, text.encode()):
            if is_value:
                assert encode_json(decode_json(data))
            else:
                with pytest.raises(ValueError, match="nested too deeply"):
                    decode_json(data)


def test_many_brackets_are_not_deep_ones() -> None:
    """Rule 3: but for those that are open at once they are not counted."""
    text = "[" + ",".join(['{"[[[":[{}]}'] * MAX_DEPTH) + "]"
    assert is_json(text)
    assert len(decode_json(text)) == MAX_DEPTH


@given(st.text('[]{}:,"\\\ud83dnaNut0-9.e \n\ufeff', max_size=12) | json_values.map(encode_json))
def test_json_is_what_can_be_decoded(text: str) -> None:
    """Whatever the text, the second chance included."""
    decodes = False
    with suppress(ValueError):
        decode_json(text)
        decodes = True
    assert is_json(text) is decodes


@pytest.mark.parametrize(("end", "whole"), [("0]", True), ("oops", False)])
def test_json_is_told_without_its_values(end: str, whole: bool) -> None:
    """A long text that would be ten times its size as values takes next to nothing."""
    text = "[" + "[]," * 100_000 + end
    tracemalloc.start()
    try:
        assert is_json(text) is whole
        assert tracemalloc.get_traced_memory()[1] < len(text)
    finally:
        tracemalloc.stop()


@given(st.dictionaries(st.text(), json_values, max_size=3))
def test_an_object_is_split_into_the_texts_of_its_members(value: dict[str, Any]) -> None:
    """Each text is what its member's value was written as."""
    text = json.dumps(value)
    assume("NaN" not in text and "Infinity" not in text)
    members = split_object(text.encode())
    assert {name: decode_json(bytes(text)) for name, text in members.items()} == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"a":',
        b'{"a":NaN}',
        b'{"a\xff":1}',
    ],
)
def test_what_is_no_strict_object_is_not_split(data: bytes) -> None:
    """Another value, a mistake, and what only the lenient parser takes."""
    with pytest.raises(ValueError, match="not a strict JSON object"):
        split_object(data)


def test_what_is_too_deep_for_the_parser_is_not_split() -> None:
    """How deep that is the interpreter says; a value of a text that is split stays as it is."""
    deep = b"[" * 10**5 + b"]" * 10**5
    try:
        value = split_object(b'{"a":' + deep + b"}")["a"]
    except ValueError as error:
        assert str(error) == "not a strict JSON object"  # noqa: PT017 - one of two outcomes
    else:
        assert bytes(value) == deep


def test_the_last_of_two_members_of_a_name_is_kept() -> None:
    """As the parser itself has it; white space around a value is none of it."""
    assert bytes(split_object(b'{"a":1,"a": [ 2 ] }')["a"]) == b"[ 2 ]"


def test_the_second_chance_is_for_short_texts() -> None:
    """Where building the values costs little."""
    assert is_json("[" + "NaN," * 100 + "0]")
    assert not is_json("[" + "NaN," * 20_000 + "0]")


@given(st.text(st.characters(exclude_categories=())), st.lists(st.integers(0, 40)))
def test_text_is_the_same_however_its_escapes_are_cut(text: str, cuts: list[int]) -> None:
    """Rule 4: halves that meet are a character, and no other half changes."""
    units = text.encode("utf-16-le", "surrogatepass")
    places = sorted({0, len(units), *(2 * cut for cut in cuts if 2 * cut < len(units))})
    pieces = [
        units[start:stop].decode("utf-16-le", "surrogatepass") for start, stop in pairwise(places)
    ]
    assert join_text(pieces) == units.decode("utf-16-le", "surrogatepass")
