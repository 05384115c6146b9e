"""Foreign text on its way to a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.escape import escape, escape_line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text, äöü, 日本, 👩‍💻", "plain text, äöü, 日本, 👩‍💻"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("windows\r\nlines", "windows\nlines"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("\x00\x08\x7f", "\\x00\\x08\\x7f"),
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("half \ud83d", "half \\ud83d"),
        ("next\u2028line", "next\\u2028line"),
    ],
)
def test_unsafe_characters_become_visible(text: str, expected: str) -> None:
    """Control characters are shown by their number, everything readable stays."""
    assert escape(text) == expected


def test_one_line_stays_one_line() -> None:
    """Line feeds and tabs are visible where only one line is wanted."""
    assert escape_line("a\nb\tc\r\nd") == "a\\nb\\tc\\nd"


@given(st.text(st.characters()))
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    """No control, direction or surrogate character comes out, whatever goes in."""
    out = escape_line(text)
    assert not any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in out)
    assert not any(unicodedata.bidirectional(c) in {"LRE", "RLO", "LRI", "PDF"} for c in out)
    out.encode()
