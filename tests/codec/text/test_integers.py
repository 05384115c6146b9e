from __future__ import annotations

from typing import Any

import pytest

from codec.text.integers import count_of, index_of

NEITHER: list[Any] = [
    None, True, False, -1, -1.0, 1.5, float("nan"), float("inf"), 1e300, 2**63, [], {}, "", " 1",
    "01", "-1", "1.0", "x", "²", "٣", "9" * 19, "9" * 5000,
]  # fmt: skip


@pytest.mark.parametrize(("value", "number"), [(0, 0), (12, 12), (12.0, 12), (-0.0, 0)])
def test_whole_numbers_are_both(value: Any, number: int) -> None:
    """Written as an integer or as a whole float."""
    assert (count_of(value), index_of(value)) == (number, number)
    assert type(count_of(value)) is int


@pytest.mark.parametrize("value", NEITHER)
def test_what_is_neither(value: Any) -> None:
    """Booleans, negatives, fractions, what 64 bits do not hold, and ambiguous text."""
    assert (count_of(value), index_of(value)) == (None, None)


@pytest.mark.parametrize(("text", "index"), [("0", 0), ("17", 17), (str(2**63 - 1), 2**63 - 1)])
def test_digits_are_an_index_but_no_count(text: str, index: int) -> None:
    """An index only tells entries apart; a count as text is nothing to rely on."""
    assert (index_of(text), count_of(text)) == (index, None)
