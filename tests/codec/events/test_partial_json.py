from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.events.partial_json import (
    MAX_NESTING,
    PartialJson,
    parse_partial_json,
    parse_payload,
)

NOTHING = object()
"""No value; null is one."""

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
documents = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def value_of(text: str) -> Any:
    """The value of a text, or NOTHING."""
    partial = parse_partial_json(text)
    return NOTHING if partial is None else partial.value


def begins(part: Any, whole: Any) -> bool:
    """Whether a value is a beginning of another: all members whole but for the last one."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return list(part) == list(whole)[: len(part)] and begins_members(
            list(part.values()), list(whole.values())
        )
    if isinstance(whole, list) and isinstance(part, list):
        return len(part) <= len(whole) and begins_members(part, whole)
    if isinstance(whole, str) and isinstance(part, str):
        return whole.startswith(part)
    if isinstance(whole, float | int) and not isinstance(whole, bool):
        text = json.dumps(whole)
        numbers = [value_of(text[:end]) for end in range(1, len(text) + 1)]
        return any(type(part) is type(number) and part == number for number in numbers)
    return type(part) is type(whole) and part == whole


def begins_members(part: list[Any], whole: list[Any]) -> bool:
    """As begins, for what is in a container."""
    same = all(same_value(a, b) for a, b in zip(part[:-1], whole, strict=False))
    return same and (not part or begins(part[-1], whole[len(part) - 1]))


def same_value(one: Any, other: Any) -> bool:
    """Equal, and written equally: true is not 1."""
    return json.dumps(one) == json.dumps(other)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"n":7e', {"n": 7}),
        ('{"n":7e+', {"n": 7}),
        ('{"n":7.', {"n": 7}),
        ('{"n":7.5E', {"n": 7.5}),
        ('{"n":-', {}),
        ('{"n":70', {"n": 70}),
        ("-", NOTHING),
        ("3.", 3),
        ('{"town":}', NOTHING),
        ('{"rows":[2,{"k":"v', {"rows": [2, {"k": "v"}]}),
        ('{"rows":2,"ne', {"rows": 2}),
        ('{"rows":2,"next"', {"rows": 2}),
        ('{"rows":2,"next" :', {"rows": 2}),
        ('{"rows":2, ', {"rows": 2}),
        ('{"rows":2} as you wished', {"rows": 2}),
        ("[4]]", [4]),
        ('{"ok":tru', {}),
        ('{"ok":true', {"ok": True}),
        ("[null,fal", [None]),
        ("[NaN,-Infini", [NOTHING]),
        ('"half a sen', "half a sen"),
        ("null", None),
        ("nul", NOTHING),
        ("", NOTHING),
        (" \n\t", NOTHING),
        ("\ufeff [6", [6]),
    ],
)
def test_a_text_that_ends_anywhere(text: str, value: Any) -> None:
    """Closed where open, trimmed where cut off (``docs/contract/sources.md#s1-11``)."""
    got = value_of(text)
    if value == [NOTHING]:
        assert math.isnan(got[0])
        assert len(got) == 1
    else:
        assert got is value or got == value


@pytest.mark.parametrize(
    "text",
    [
        "[1 2", "[,", "[1,]", "[1,,", "{,", '{"a":1,}', '{"a" 1', '{"a":1:', "{1:2}", "]", "}", ":",
        "[}", '{"a":1]', "[01", "[1ex", "[1e ", "[1.x", "[tru ", "[trux", "[+1", "what",
        "[1 tru", "{tru", '[{"a":},', '[{"a"},', "[[1,],",
        '["\\x', '["\\u12"]',
        "[" + "9" * 5000,
    ],
)  # fmt: skip
def test_what_cannot_become_json_has_no_value(text: str) -> None:
    """Where nothing that follows would help there is none, rather than a guess (rule 4)."""
    assert parse_partial_json(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'["\ud83e\udd80"', "\U0001f980"),
        (r'["\ud83e\udd80', "\U0001f980"),
        (r'["a\ud83e\udd8', "a"),
        (r'["a\ud83e\ud', "a"),
        (r'["a\ud83e\u', "a"),
        ('["a\\ud83e\\', "a"),
        (r'["a\ud83e', "a"),
        (r'["a\ud83', "a"),
        (r'["a\u', "a"),
        ('["a\\', "a"),
        (r'["a\\', "a\\"),
        (r'["a\\u12', "a\\u12"),
        (r'["a\n', "a\n"),
        (r'["\ud83e!', "\ud83e!"),
        (r'["\ud83e\n', "\ud83e\n"),
        (r'["\ud83e"', "\ud83e"),
        (r'["\udd80', "\udd80"),
        (r'["\u00e9\u00', "\u00e9"),
    ],
)
def test_escapes_cut_anywhere(text: str, value: str) -> None:
    """An escaped pair is one character, half of it waits."""
    assert value_of(text) == [value]


@pytest.mark.parametrize(
    ("text", "complete"),
    [("[1]", True), ("[1] x", True), ("[1", False), ("5", True), ("5e", False), ('"a', False)],
)
def test_whether_a_value_is_all_there(text: str, *, complete: bool) -> None:
    """A cut value says so; a number at the end of the text counts as whole."""
    partial = parse_partial_json(text)
    assert partial is not None
    assert partial.complete is complete


def test_null_is_a_value() -> None:
    """Which is no reason to take it for none."""
    assert parse_partial_json(" null ") == PartialJson(value=None, complete=True)


@given(document=documents, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
def test_each_prefix_has_a_beginning_of_the_value(
    document: Any, *, ascii_only: bool, indent: int | None
) -> None:
    """From the first bracket or quote on it grows at its end, up to the whole."""
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    for end in range(len(text)):
        value = value_of(text[:end])
        if value is NOTHING:
            assert end == 0 or not isinstance(document, list | dict | str)
        else:
            assert begins(value, document), text[:end]
    assert same_value(value_of(text), document)


@given(documents, st.text(max_size=6))
def test_what_follows_a_container_is_ignored(document: Any, junk: str) -> None:
    """Trailing text does not take a complete value away (rule 5)."""
    text = json.dumps([document])
    assert parse_partial_json(text + junk) == parse_partial_json(text)


@given(st.text(alphabet='{}[]:,"\\ud83e123.eE+-truefalsn \n', max_size=40) | st.text())
def test_no_text_raises(text: str) -> None:
    """Rule 6: whatever a model writes; a whole value is what the standard parser makes of it."""
    partial = parse_partial_json(text)
    parse_payload(text)
    try:
        whole = json.loads(text)  # noqa: TID251 - the oracle
    except ValueError:
        return
    assert partial is not None
    assert partial.complete
    assert repr(partial.value) == repr(whole)


def test_nesting_is_bounded() -> None:
    """The deepest that is allowed has a value, whole or not; one level more has none."""
    assert value_of("[" * MAX_NESTING) is not NOTHING
    assert value_of("[" * MAX_NESTING + "]" * MAX_NESTING) is not NOTHING
    assert value_of("[" * (MAX_NESTING + 1)) is NOTHING
    assert value_of('{"a":' * 1_000_000) is NOTHING


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        ('["', "\\ud83e"), ('["', "\\u"), ('["', '\\"'), ('["', "\\\\"),
        ("[", "1,"), ("[", '"a",'), ("[", "\n"), ("[1", "0"), ("{", '"a":1,'),
    ],
)  # fmt: skip
def test_the_work_is_linear(head: str, piece: str) -> None:
    """Rule 6: eight times the text takes far less than 64 times as long."""

    def seconds(count: int) -> float:
        text = head + piece * count
        times = []
        for _ in range(3):
            begin = time.process_time()  # whatever else the machine has to do
            parse_partial_json(text)
            times.append(time.process_time() - begin)
        return min(times)

    assert seconds(40_000) < 30 * max(seconds(5_000), 1e-4)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('```json\n{"town":"Bergen"}\n```', {"town": "Bergen"}),
        ('```\n["a"]```', ["a"]),
        ('  ```JSON {"town":"Ber', {"town": "Ber"}),
        ('\n {"town":"Bergen"}', {"town": "Bergen"}),
        ("[1, 2] are two", [1, 2]),
        ('```json\n{"town":"```"', {"town": "```"}),
    ],
)
def test_a_payload_that_looks_like_json(text: str, value: Any) -> None:
    """Bare or in a Markdown fence, whole or not (``docs/contract/sources.md#s1-5``)."""
    partial = parse_payload(text)
    assert partial is not None
    assert partial.value == value


@pytest.mark.parametrize(
    "text",
    ["", "Bergen", "42", '"quoted"', "true", "``", "```", "```json\n", "```python\n{}",
     '```json\n{"a":1\n```'],
)  # fmt: skip
def test_a_payload_that_looks_otherwise(text: str) -> None:
    """Prose is not parsed, not even where it happens to be JSON, nor is a cut fence."""
    assert parse_payload(text) is None
