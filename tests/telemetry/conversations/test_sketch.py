"""Sketches of answers: the quick way to find words is the slow one, and which are chosen."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from codec.history_items import HistoryItem, ItemKind
from telemetry.conversations.sketch import (
    FIRST_ENDS,
    MAX_SKETCH_WORDS,
    MAX_SKETCHED_CHARS,
    _list_ascii_words,
    _list_words,
    make_sketch,
)

if TYPE_CHECKING:
    from random import Random

ASCII = st.text(st.characters(max_codepoint=127), max_size=200)


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
    sketch = make_sketch([HistoryItem(ItemKind.TEXT, "assistant", None, " ".join(mixed))])
    assert sorted(array("I", sketch)) == sorted(wanted)


def test_of_a_long_answer_the_beginning_counts() -> None:
    """Up to so many characters, over all its items: the rest changes nothing."""
    texts = ["one two three ", "four five six ", "seven eight nine "]
    long = [HistoryItem(ItemKind.TEXT, "assistant", None, text * 200) for text in texts]
    rest = HistoryItem(ItemKind.TEXT, "assistant", None, "and nothing else")
    assert sum(len(item.text) for item in long) > MAX_SKETCHED_CHARS
    assert make_sketch([*long, rest]) == make_sketch(long)
    assert make_sketch([rest, *long]) != make_sketch(long)
