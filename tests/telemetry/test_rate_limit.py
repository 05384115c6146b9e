"""``telemetry.rate_limit``: a limit on how often the same kind of thing is done."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from telemetry.rate_limit import RateLimit


@dataclass
class Hands:
    """A clock that is turned by hand; its readings have no meaning of their own."""

    now_ns: int = -7_000_000_000

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock() -> Hands:
    """A clock that stands still."""
    return Hands()


def test_the_first_is_admitted_and_those_soon_after_it_are_counted(clock: Hands) -> None:
    """The next one that is admitted tells how many were not."""
    limit = RateLimit(clock, interval_seconds=10.0)
    assert limit.admit() == 0
    assert [limit.admit() for _ in range(3)] == [None, None, None]
    clock.now_ns += 9_999_999_999
    assert limit.admit() is None
    clock.now_ns += 1
    assert limit.admit() == 4
    assert limit.admit() is None


def test_a_quiet_time_leaves_nothing_to_tell(clock: Hands) -> None:
    """The count begins anew with each that is admitted."""
    limit = RateLimit(clock, interval_seconds=1.0)
    assert limit.admit() == 0
    clock.now_ns += 1_000_000_000
    assert limit.admit() == 0


def test_a_clock_put_back_silences_nobody(clock: Hands) -> None:
    """Then one is admitted at once, and the interval counts from there."""
    limit = RateLimit(clock, interval_seconds=1.0)
    limit.admit()
    clock.now_ns -= 1
    assert limit.admit() == 0
    clock.now_ns += 999_999_999
    assert limit.admit() is None
    clock.now_ns += 1
    assert limit.admit() == 1


def test_some_may_be_admitted_in_each_interval(clock: Hands) -> None:
    """The first of the next interval tells how many were not."""
    limit = RateLimit(clock, interval_seconds=1.0, burst=3)
    assert [limit.admit() for _ in range(5)] == [0, 0, 0, None, None]
    clock.now_ns += 1_000_000_000
    assert [limit.admit() for _ in range(4)] == [2, 0, 0, None]
