"""``telemetry.finding.patterns``: a value with ``*`` in it, as SQL and as a predicate."""

from __future__ import annotations

import contextlib
import re
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.finding.patterns import Pattern, read_pattern
from telemetry.reading.sqlite.conditions import find_prefix, write_pattern

LETTERS = 'ab*?[]\\"é\ud7ff\ue000\U0010ffff'
TEXTS = st.text(alphabet=LETTERS, max_size=6)


def find_by_sql(pattern: Pattern, value: str) -> bool:
    where, values = write_pattern(pattern, "x")
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        select = f"SELECT {where} FROM (SELECT ? AS x)"
        (found,) = connection.execute(select, (*values, value)).fetchone()
    return bool(found)


@pytest.mark.parametrize(
    ("written", "pieces"),
    [
        ("gpt-5", ("gpt-5",)),
        ("gpt-5*", ("gpt-5", "")),
        ("*", ("", "")),
        ("***", ("", "")),
        ("a**b", ("a", "b")),
        (r"a\*b", ("a*b",)),
        (r"a\\*", ("a\\", "")),
        (r"C:\x\"", ('C:\\x"',)),
        ("a\\", ("a\\",)),
    ],
)
def test_rule_1_stars_and_escapes(written: str, pieces: tuple[str, ...]) -> None:
    """A star parts pieces, a backslash keeps one."""
    assert read_pattern(written).pieces == pieces


@given(st.text(alphabet="ab*", max_size=8), st.text(alphabet="ab", max_size=8))
def test_rule_1_a_star_is_any_characters(written: str, value: str) -> None:
    """As a regular expression says."""
    expected = re.fullmatch(written.replace("*", ".*"), value) is not None
    assert read_pattern(written).matches(value) == expected


@given(st.lists(TEXTS, min_size=1, max_size=4), TEXTS)
def test_rule_3_sql_says_the_same(pieces: list[str], value: str) -> None:
    """Whatever signs of ``GLOB`` are in the pattern or the value."""
    pattern = Pattern(tuple(pieces))
    assert find_by_sql(pattern, value) == pattern.matches(value)


@pytest.mark.parametrize(
    ("written", "value", "is_like"),
    [
        ("a?*x", "abx", False),
        ("a?*x", "a?bx", True),
        ("[a]*b", "ab", False),
        ("[a]*b", "[a]b", True),
        (r"a\*b*c", "axbc", False),
        (r"a\*b*c", "a*bc", True),
    ],
)
def test_rule_3_signs_of_glob_are_letters(written: str, value: str, is_like: bool) -> None:
    """But for the star, which is one where it is escaped."""
    pattern = read_pattern(written)
    assert find_by_sql(pattern, value) == pattern.matches(value) == is_like


def test_rule_3_no_bound_is_a_surrogate() -> None:
    """SQLite has no such text."""
    assert find_prefix("x", "a\ud7ff")[1] == ("a\ud7ff", "a\ue000")
    assert find_prefix("x", "a\U0010ffff")[1] == ("a\U0010ffff", "b")


@given(TEXTS, TEXTS)
def test_rule_3_a_prefix_is_a_range(prefix: str, value: str) -> None:
    """Of code points, as SQLite sorts them; after the last code point comes the next prefix."""
    where, bounds = find_prefix("x", prefix)
    assert where.count("?") == len(bounds)
    in_range = all(
        value.encode() >= bound.encode() if number == 0 else value.encode() < bound.encode()
        for number, bound in enumerate(map(str, bounds))
    )
    assert in_range == value.startswith(prefix)


@pytest.mark.parametrize(
    ("written", "where"),
    [
        ("gpt-5", "model = ?"),
        ("gpt-5*", "model >= ? AND model < ?"),
        ("*", "model IS NOT NULL"),
        ("*mini*", "instr(model, ?) > 0"),
        ("*mini", "model GLOB ?"),
        ("g*i", "model GLOB ?"),
    ],
)
def test_rule_3_what_can_be_a_comparison_is_one(written: str, where: str) -> None:
    """And is no ``GLOB``."""
    assert write_pattern(read_pattern(written), "model")[0] == where


def test_many_stars_take_no_time() -> None:
    """Each piece is looked for once, so that no pattern can keep anybody waiting."""
    pattern = read_pattern("*a" * 1_000 + "*b")
    assert not pattern.matches("a" * 100_000)
