"""Sketches of answers: the quick way to find words is the slow one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telemetry.conversations.sketch import _list_ascii_words, _list_words

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
