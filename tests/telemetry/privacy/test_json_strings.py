"""The strings of a JSON text, rewritten where they stand."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.text.jsontext import decode_json
from telemetry.privacy import json_strings
from telemetry.privacy.json_strings import (
    MAX_NESTED_TEXTS,
    MIN_TELLING_DIGITS,
    REDACTED,
    looks_like_json,
    rewrite_strings,
    unescape,
)

TEXTS = st.text(max_size=8)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


TOKEN = re.compile(
    rf'"[^"\\]*+(?:\\.[^"\\]*+)*+"|(?<![\w.+-])\d{{{MIN_TELLING_DIGITS},}}+(?![\w.])', re.DOTALL
)
"""What is looked for, in one pattern."""

LENGTHS = st.integers(0, 3) | st.integers(1_022, 1_027) | st.just(3_000)


def without_ann(text: str) -> str:
    return text.replace("Ann", "Bo")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "Ann", "Ann": [1, "x Ann"]}', '{"a": "Bo", "Bo": [1, "x Bo"]}'),
        ('{"a": "Ann", "a": "x"}', '{"a": "Bo", "a": "x"}'),
        (r'{"a": "\u0041nn"}', '{"a": "Bo"}'),
        (r'["A\u006en \ud83d\ude00"]', '["Bo 😀"]'),
        (r'["Ann \ud83d"]', r'["Bo \ud83d"]'),
        (r'[ "\u0042o" ,1e400, 1.50,  NaN, "Ann"]', r'[ "\u0042o" ,1e400, 1.50,  NaN, "Bo"]'),
        ('"Ann"', '"Bo"'),
        ('\ufeff {"a": "Ann"}', '\ufeff {"a": "Bo"}'),
        ("Ann", "Bo"),
        ('{"a": "Ann', '{"a": "Bo'),
        ("[Ann] says", "[Bo] says"),
    ],
)
def test_strings_are_rewritten_in_place(text: str, expected: str) -> None:
    """Names, doubled members and escapes; all else stays character by character."""
    assert rewrite_strings(text, without_ann) == expected


def test_strings_inside_strings_are_rewritten() -> None:
    """JSON in a string is looked into, as deep as it is nested."""
    text, expected = json.dumps({"a": "A\u006en"}), json.dumps({"a": "Bo"})
    for _ in range(MAX_NESTED_TEXTS - 1):
        text, expected = json.dumps({"a": text}), json.dumps({"a": expected})
    assert rewrite_strings(text, without_ann) == expected


def test_text_nested_too_deep_is_hidden() -> None:
    """What is below the limit is replaced whole, whatever it says."""
    text = '["x"]'
    for _ in range(MAX_NESTED_TEXTS):
        text = json.dumps([text])
    rewritten = rewrite_strings(text, without_ann)
    assert REDACTED in rewritten
    assert "x" not in rewritten


@pytest.mark.parametrize(
    ("number", "rewritten"),
    [("4111111111111111", f'"{REDACTED}"'), ("5500000000000004", "5500000000000004")],
)
def test_long_integers_are_read(number: str, rewritten: str) -> None:
    """An integer that the rewriter would change is replaced, by a string."""
    text = f'{{"card": {number}, "n": 1}}'
    assert rewrite_strings(text, lambda string: string.replace("4111", "")) == (
        f'{{"card": {rewritten}, "n": 1}}'
    )


@pytest.mark.parametrize(
    "number", ["1" * (MIN_TELLING_DIGITS - 1), "0." + "1" * 16, "1" * 16 + ".5", "1e-400"]
)
def test_other_numbers_stay(number: str) -> None:
    """Counts, prices and times are no strings."""
    assert rewrite_strings(f"[{number}]", lambda _: "x") == f"[{number}]"


def test_short_strings_stay() -> None:
    """Strings of no more than `over` characters are not looked at."""
    assert rewrite_strings('["aaa", "aaaa"]', lambda _: "b", over=5) == '["aaa", "b"]'


@given(JSON, st.booleans())
def test_what_is_not_rewritten_is_the_same_text(value: Any, ascii_only: bool) -> None:
    """A rewriter that changes nothing gives the very same text."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert rewrite_strings(text, str) is text


@given(JSON, st.booleans())
def test_every_string_is_seen(value: Any, ascii_only: bool) -> None:
    """A rewriter sees each string of a text as a parser would."""
    seen: list[str] = []

    def see(text: str) -> str:
        seen.append(text)
        return f"{text}!"

    rewritten = decode_json(rewrite_strings(json.dumps([value], ensure_ascii=ascii_only), see))
    assert rewritten == [_marked(value)]
    assert len(seen) >= sum(_parsed(text) is None for text in _strings(value))


def _marked(value: Any) -> Any:
    """What the marks make of a value, by a parser."""
    if isinstance(value, str):
        nested = _parsed(value)
        return f"{value}!" if nested is None else json.dumps(_marked(nested), ensure_ascii=False)
    if isinstance(value, list):
        return [_marked(item) for item in value]
    if isinstance(value, dict):
        return {_marked(name): _marked(item) for name, item in value.items()}
    return value


def _parsed(text: str) -> Any:
    if not looks_like_json(text):
        return None
    try:
        return decode_json(text)
    except ValueError:
        return None


def _strings(value: Any) -> Any:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value.items() if isinstance(value, dict) else value:
            yield from (_strings(list(item)) if isinstance(item, tuple) else _strings(item))


@given(
    st.lists(
        st.lists(
            st.tuples(LENGTHS, st.sampled_from(["", "\\", '"', "\n", "é", "1" * 12])), max_size=4
        )
        | st.integers(0, 10**14),
        max_size=4,
    )
)
def test_long_strings_and_escapes_are_passed_over_whole(values: Any) -> None:
    """The tokens are those of one plain pattern, wherever the string's beginning is left."""
    text = json.dumps(
        [
            value if isinstance(value, int) else "".join("x" * count + end for count, end in value)
            for value in values
        ],
        ensure_ascii=False,
    )
    assert [*json_strings._find_tokens(text)] == [token.span() for token in TOKEN.finditer(text)]


@given(st.text(alphabet='[]{}",:\\ua0419 \ufeff\ud83d', max_size=40))
def test_nothing_is_raised(text: str) -> None:
    """Whatever text comes, text comes out."""
    assert isinstance(rewrite_strings(text, str), str)


def test_deep_nesting_is_no_recursion() -> None:
    """A text nested deeper than any parser goes is one string."""
    text = '["Ann", ' * 100_000
    assert rewrite_strings(text, without_ann) == text.replace("Ann", "Bo")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"user\u0040x", "user@x"),
        (r"a\/b\"c\\d\ne\tf", 'a/b"c\\d\ne\tf'),
        (r"\ud83d\ude00 \ud83d", "😀 \ufffd"),
        (r"\q \u12", r"\q \u12"),
        ("plain", "plain"),
    ],
)
def test_escapes_are_undone(text: str, expected: str) -> None:
    """JSON's escapes become their characters, valid Unicode all of them."""
    assert unescape(text) == expected
