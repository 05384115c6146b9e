"""Changed documents in the bytes of the ones they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.text.jsontext import decode_json
from codec.values.splice import splice_json

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["\\", '"', "\ud83d", "é", "\n", "a"]),
)
keys = st.sampled_from(["a", "b", "c", "é", 'q"', "\\"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
spaces = st.sampled_from(["", "", " ", "\n\t ", "\r\n"])


@st.composite
def texts(draw: st.DrawFn, value: Any) -> str:
    """A text of a value as a person or another serialiser might have it."""
    gap = draw(spaces)
    ascii_only = draw(st.booleans())
    twice = draw(st.booleans())
    if isinstance(value, dict):
        members: list[str] = [
            gap + json.dumps(k, ensure_ascii=ascii_only) + gap + ":" + draw(texts(v))
            for k, v in value.items()
        ]
        if members and twice:
            members.insert(0, members[-1])
        return gap + "{" + ",".join(members) + gap + "}" + gap
    if isinstance(value, list):
        return gap + "[" + ",".join(draw(texts(item)) for item in value) + gap + "]" + gap
    text = json.dumps(value, ensure_ascii=ascii_only)
    return gap + (text + ".0e0" if isinstance(value, int) and text.isdigit() else text) + gap


documents = values.flatmap(texts).map(lambda text: text.encode("utf-8", "backslashreplace"))


@given(documents)
def test_the_same_value_keeps_every_byte(original: bytes) -> None:
    """Whatever the text looks like (``docs/contract/sources.md#s4-4``)."""
    assert splice_json(original, decode_json(original)) == original


@given(documents, values)
def test_any_value_can_be_spliced_in(original: bytes, value: Any) -> None:
    """What comes out says the value, however little it has in common with the original."""
    assert repr(_sorted(decode_json(splice_json(original, value)))) == repr(_sorted(value))


@given(documents, st.data())
def test_what_did_not_change_keeps_its_bytes(original: bytes, data: st.DataObject) -> None:
    """An object around it gets a member, loses another; the value stays as it was."""
    body = b'{"x":1 ,"kept": ' + original + b', "gone":[1], "y" :2}'
    value = decode_json(body)
    del value["gone"]
    value[data.draw(st.sampled_from(["x", "y", "new"]))] = data.draw(scalars)
    spliced = splice_json(body, value)
    assert b'"kept": ' + original in spliced
    assert repr(_sorted(decode_json(spliced))) == repr(_sorted(value))


def _sorted(value: Any) -> Any:
    """The value with its members in order, so that repr compares what is said."""
    if isinstance(value, dict):
        return [(key, _sorted(value[key])) for key in sorted(value)]
    return [_sorted(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("original", "value", "spliced"),
    [
        ('{"n": 1.0}', {"n": 1}, '{"n": 1}'),
        ('{"n": 1}', {"n": True}, '{"n": true}'),
        ("[1 , 2 ,3]", [1, 3], "[1 , 3]"),
        ("[1 , 2 ,3]", [1, 2], "[1 , 2]"),
        ("[1 , 2]", [], "[]"),
        ("[ ]", [7], "[7 ]"),
        ("[1 , 2]", [1, 9, 2], "[1 , 9,2]"),
        ("[1 , 2]", [1, 2, 3], "[1 , 2,3]"),
        ('[{"a": 1}, {"b" : 2}]', [{"a": 1}, {"b": 3}], '[{"a": 1}, {"b" : 3}]'),
        ('{"a":1, "a":2}', {"a": 3}, '{"a":1, "a":3}'),
        ('{"a":1, "b":0 , "a":2}', {"b": 0}, '{"b":0}'),
        ('{"a" :1}', {}, "{}"),
        ("{ }", {"a": 1}, '{"a":1 }'),
        ('{"a" :1}', {"b": 2}, '{"b":2}'),
        ('{"\\u0061" : 1}', {"a": 2}, '{"\\u0061" : 2}'),
        ("\ufeff [NaN, Infinity]", [1], "\ufeff [1]"),
        ("\ufeff\ufeff [1 ]", [1, 2], "\ufeff\ufeff [1,2 ]"),
        ('"x"', None, "null"),
    ],
)
def test_a_change_is_as_small_as_it_can_be(original: str, value: Any, spliced: str) -> None:
    """One by one."""
    assert splice_json(original.encode(), value) == spliced.encode()


def test_depth_is_no_obstacle() -> None:
    """Below the depth that is looked into, a change replaces the value there."""
    deep = b"[" * 400 + b"1.0" + b"]" * 400
    value = decode_json(deep)
    assert splice_json(deep, value) == deep
    inner = value
    while isinstance(inner[0], list):
        inner = inner[0]
    inner[0] = 2
    assert decode_json(splice_json(deep, value)) == value


@pytest.mark.parametrize("original", [b"", b"{", b"\xff", b"[1] 2"])
def test_what_is_no_document_is_refused(original: bytes) -> None:
    """As the parser refuses it."""
    with pytest.raises(ValueError, match=r"."):
        splice_json(original, {})


def test_what_cannot_be_written_is_refused() -> None:
    """A value that is nested too deeply has no text."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        splice_json(b"[]", deep)
