"""The memory of which models reject ``stream_options`` (``design.md`` section 4)."""

from __future__ import annotations

from proxy.relay.rejections import (
    MAX_KEY_BYTES,
    MAX_REMEMBERED,
    REMEMBERED_SECONDS,
    RejectionKey,
    Rejections,
)
from tests.proxy.turned_time import TurnedClock


def key(number: int) -> RejectionKey:
    return ("default", "/v1/chat/completions", b'"m-%d"' % number)


def test_a_rejection_is_remembered_for_ten_minutes() -> None:
    """And forgotten after, whether or not it was asked for meanwhile."""
    clock = TurnedClock()
    rejections = Rejections(clock)
    assert key(1) not in rejections
    rejections.add(key(1))
    clock.turn(REMEMBERED_SECONDS - 1)
    assert key(1) in rejections
    assert key(2) not in rejections
    clock.turn(1)
    assert key(1) not in rejections
    assert not rejections._until_ns


def test_a_new_rejection_starts_the_ten_minutes_anew() -> None:
    """The upstream has just said so again."""
    clock = TurnedClock()
    rejections = Rejections(clock)
    rejections.add(key(1))
    clock.turn(REMEMBERED_SECONDS - 1)
    rejections.add(key(1))
    clock.turn(REMEMBERED_SECONDS - 1)
    assert key(1) in rejections


def test_the_least_recently_used_are_forgotten_first() -> None:
    """At most 1,024 are kept: model names come from clients."""
    rejections = Rejections(TurnedClock())
    for number in range(MAX_REMEMBERED):
        rejections.add(key(number))
    assert key(0) in rejections
    rejections.add(key(MAX_REMEMBERED))
    assert key(0) in rejections
    assert key(1) not in rejections
    assert len(rejections._until_ns) == MAX_REMEMBERED


def test_a_key_too_long_to_keep_is_not_kept() -> None:
    """Target and model are the client's to choose (R5): such a one pays a request each time."""
    rejections = Rejections(TurnedClock())
    long_one = ("default", "/v1/chat/completions", b"m" * MAX_KEY_BYTES)
    rejections.add(long_one)
    assert long_one not in rejections
