"""Sketches of answers: the quick way to find words is the slow one, and which are chosen."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from codec.units import Unit, UnitKind
from telemetry.conversations.sketch import (
    END_CHARS,
    FIRST_ENDS,
    MAX_SKETCH_WORDS,
    WORD_BYTES,
    _list_ascii_words,
    _list_words,
    is_alike,
    make_sketch,
)

if TYPE_CHECKING:
    from random import Random

WORDS = st.lists(st.text("abcdefghijklmnop", min_size=2, max_size=9), min_size=12, unique=True)

ASCII = st.text(st.characters(max_codepoint=127), max_size=200)


def sketch_of(*texts: str) -> bytes:
    return make_sketch([Unit(UnitKind.TEXT, "assistant", None, text) for text in texts])


@given(ASCII)
def test_words_of_ascii_are_those_of_any_text(text: str) -> None:
    """The table of bytes finds the same words as the pattern, in lower case."""
    assert _list_ascii_words(text) == _list_words(text)


def test_every_ascii_character_is_told_alike() -> None:
    """Each one between two letters: a part of the word, or an end of it."""
    for code in range(128):
        text = f"a{chr(code)}B"
        assert _list_ascii_words(text) == _list_words(text), code


@given(st.lists(st.text("abcdefgh1234", min_size=1, max_size=3), max_size=80), st.randoms())
def test_a_sketch_is_of_the_first_words(words: list[str], chance: Random) -> None:
    """Words are ranked by their last byte and their CRC-32, wherever and how often they stand."""
    ranked = sorted({*words}, key=lambda one: (ord(one[-1]) not in FIRST_ENDS, crc32(one.encode())))
    wanted = [crc32(word.encode()) for word in ranked[:MAX_SKETCH_WORDS]]
    mixed = [*words, *words]
    chance.shuffle(mixed)
    sketch = sketch_of(" ".join(mixed))
    assert sorted(array("I", sketch)) == sorted(wanted)


@given(WORDS, st.integers(0, 8), st.integers(0, 8), st.booleans())
def test_a_long_answer_is_known_by_its_beginning_and_by_its_end(
    words: list[str], front: int, back: int, is_ascii: bool
) -> None:
    """What is between is not looked at; one that lost all but either is alike."""
    start, end = " ".join(words), " ".join(reversed(words))
    if not is_ascii:
        start, end = start.upper().replace("A", "É"), end.replace("a", "é")
    start, end = (start + " ") * END_CHARS, (" " + end) * END_CHARS
    start, end = start[: END_CHARS + front], end[-END_CHARS - back :]
    whole = sketch_of(start + " one middle " * 200 + end)
    assert len(whole) <= MAX_SKETCH_WORDS * WORD_BYTES
    assert whole == sketch_of(start + " other words " * 300 + end)
    assert is_alike(whole, sketch_of(start + "and no end that anybody knows " * 50))
    assert is_alike(whole, sketch_of("a beginning that nobody knows " * 50 + end))
    assert not is_alike(whole, sketch_of("QQ RR SS TT UU VV WW XX YY ZZ " * 200))


def test_units_are_one_text() -> None:
    """A long one among short ones is cut by itself: beginning and end are those of all."""
    long = "word " * 1_000_000
    assert sketch_of("first", long, "last") == sketch_of(f"first {long} last")
