"""Sums: of what was told, and of how many calls."""

from __future__ import annotations

from codec.usage import Usage
from telemetry.conversations.usage_sums import UsageSums


def test_counts_are_summed_and_a_zero_is_one() -> None:
    """What no call told is not there (R6)."""
    sums = UsageSums()
    assert sums.tell(0) == {}
    for cached in (0, 5):
        sums.add(Usage(prompt=10, cache_read=cached, completion=1))
    assert sums.tell(2) == {"prompt_tokens": 20, "cached_tokens": 5, "completion_tokens": 2}


def test_a_sum_of_fewer_calls_says_so() -> None:
    """Rule 1."""
    sums = UsageSums()
    sums.add(Usage(prompt=10, cache_write=3))
    sums.add(Usage(prompt=10))
    assert sums.tell(2) == {
        "prompt_tokens": 20,
        "cache_write_tokens": 3,
        "calls_that_told": {"cache_write_tokens": 1},
    }


def test_a_sum_that_no_attribute_holds_is_not_told() -> None:
    """Rule 2."""
    sums = UsageSums()
    for _ in range(2):
        sums.add(Usage(prompt=2**63 - 1, completion=1))
    assert sums.tell(2) == {"completion_tokens": 2}
