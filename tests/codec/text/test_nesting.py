"""Pieces of a value passed over: the same as bracket by bracket, and for far less."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.text import jsontext, nesting
from codec.text.jsontext import encode_json, is_too_deep
from codec.text.nesting import CLOSERS, MAX_DEPTH, Ending, is_shallow, pass_over

ENDINGS = {b"": Ending.OUTSIDE, b'"': Ending.IN_STRING, b"\\": Ending.BEHIND_BACKSLASH}
FILL = b" \t\n\r,:+-.0"

SCRAPS = (
    b"[", b"]", b"{", b"}", b"{}", b"[]", b"[[[", b"]]]", b"{}{}{}{}", b'"', b"\\", b'""', b'"}"',
    b'"\\""', b'"\\\\"', b",", b"0", b"/", b"\x0b", b"\0", b"\xc3\xa9",
)  # fmt: skip
pieces = st.lists(st.sampled_from(SCRAPS), min_size=1, max_size=40).map(b"".join)


def follow(piece: bytes, closers: bytearray, max_depth: int) -> Ending | None:
    """The same, a byte at a time."""
    opened, inside = closers[:], b""
    for byte in piece:
        if inside == b"\\":
            inside = b'"'
        elif inside:
            inside = {ord('"'): b"", ord("\\"): b"\\"}.get(byte, inside)
        elif byte == ord('"'):
            inside = b'"'
        elif byte in CLOSERS and len(opened) < max_depth:
            opened.append(CLOSERS[byte])
        elif byte == opened[-1] and len(opened) > 1:
            opened.pop()
        elif byte not in FILL:
            return None
    closers[:] = opened
    return ENDINGS[inside]


@given(pieces, st.lists(st.sampled_from(b"]}"), min_size=1, max_size=4), st.integers(4, 9))
def test_a_piece_is_passed_over_as_it_is_followed(
    piece: bytes, opened: list[int], max_depth: int
) -> None:
    """The same ending, and the same brackets open, or neither is said nor changed."""
    expected, closers = bytearray(opened), bytearray(opened)
    with mock.patch.object(nesting, "MAX_DEPTH", max_depth):
        assert pass_over(piece, closers) == follow(piece, expected, max_depth)
    assert closers == expected


@given(
    st.recursive(
        st.sampled_from([1, None, "", "a", '"', "\\", "{[", "]", "?!"]),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text("a[}"), inner, max_size=4)
        ),
        max_leaves=30,
    ),
    st.integers(1, 6),
)
def test_a_container_is_shallow_where_its_values_are(value: object, max_depth: int) -> None:
    """The brackets in its strings are none; anything else but a container is not known."""
    text = encode_json(value).encode()
    with (
        mock.patch.object(nesting, "MAX_DEPTH", max_depth),
        mock.patch.object(jsontext, "MAX_DEPTH", max_depth),
    ):
        is_known = isinstance(value, list | dict)
        assert is_shallow(text) == (is_known and not is_too_deep(value))


@pytest.mark.parametrize("byte", range(256))
def test_what_may_stand_outside_a_string_is_what_json_is_made_of(byte: int) -> None:
    """Digits, letters, signs, punctuation and white space, quotes and brackets."""
    may = chr(byte).isascii() and (chr(byte).isalnum() or byte in b' \t\n\r,:+-."[{')
    assert (pass_over(bytes([byte]), bytearray(b"]}")) is not None) == (may or byte == ord("}"))


TREE = b""
for _ in range(9):
    TREE = b"[%b{%b}]" % (TREE, TREE)


@pytest.mark.parametrize(
    "unit",
    [b"{}", b"[{}]", b"[" * 500 + b"]" * 500, b'{"a":' * 200 + b"}" * 200, b"[]" * 99 + b"[", TREE],
)
def test_few_brackets_are_looked_at_by_themselves(unit: bytes) -> None:
    """Of any shape, one step for eight of them at most, and few rounds over all."""
    brackets = (unit * (16_000 // len(unit))).translate(None, b'"a:')
    left, _ = nesting._remove_pairs(brackets)
    assert len(nesting._find_runs(left)) <= len(brackets) / 8
    work, rest = 0, brackets
    while True:
        work += len(rest)
        shorter = rest.replace(b"{}", b"").replace(b"[]", b"")
        if shorter == left:
            break
        rest = shorter
    assert work <= 8 * len(brackets)


def test_the_limit_of_depth_is_exact_below_what_was_taken_out() -> None:
    """Pairs that were taken out count, too."""
    for depth in (MAX_DEPTH, MAX_DEPTH + 1):
        piece = b"[" * (depth - 3) + b"[{}]," * 9
        closers = bytearray(b"}")
        assert (pass_over(piece, closers) is None) == (depth > MAX_DEPTH)
        assert len(closers) == (depth - 2 if depth <= MAX_DEPTH else 1)
