"""A limit on how often a line is logged."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.rate_limit import RateLimit


@dataclass
class Hands:
    """A clock that is turned by hand; its readings have no meaning of their own."""

    now_ns: int = -7_000_000_000

    def wall_ns(self) -> int:
        return 0

    def monotonic_ns(self) -> int:
        return self.now_ns


def test_the_first_is_admitted_and_those_soon_after_it_are_counted() -> None:
    """The next one that is admitted tells how many were not."""
    clock = Hands()
    limit = RateLimit(clock, interval_seconds=10.0)
    assert limit.admit() == 0
    assert [limit.admit() for _ in range(3)] == [None, None, None]
    clock.now_ns += 9_999_999_999
    assert limit.admit() is None
    clock.now_ns += 1
    assert limit.admit() == 4
    assert limit.admit() is None


def test_a_quiet_time_leaves_nothing_to_tell() -> None:
    """The count begins anew with each that is admitted."""
    clock = Hands()
    limit = RateLimit(clock, interval_seconds=1.0)
    assert limit.admit() == 0
    clock.now_ns += 1_000_000_000
    assert limit.admit() == 0
