"""The memory of which models reject ``stream_options``.

See ``docs/contract/promises.md#rejections``.
"""

from __future__ import annotations

import asyncio

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
    assert not rejections._known


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
    assert len(rejections._known) == MAX_REMEMBERED


def test_a_key_too_long_to_keep_is_not_kept() -> None:
    """Target and model are the client's to choose (R5): such a one pays a request each time."""
    rejections = Rejections(TurnedClock())
    long_one = ("default", "/v1/chat/completions", b"m" * MAX_KEY_BYTES)
    rejections.add(long_one)
    assert long_one not in rejections
    assert not rejections.leaves_doubt(long_one)


async def test_what_a_trial_finds_is_remembered_for_ten_minutes() -> None:
    """That the option is rejected, or that it is not the option; what was given up says nothing."""
    clock = TurnedClock()
    rejections = Rejections(clock)
    for taken, is_rejected, is_doubtful in (
        (None, False, True),
        (True, True, True),
        (False, False, False),
    ):
        rejections.begin_trial(key(1))
        rejections.end_trial(key(1), taken=taken)
        assert (key(1) in rejections) is is_rejected
        assert rejections.leaves_doubt(key(1)) is is_doubtful
        assert rejections.leaves_doubt(key(2))
        clock.turn(REMEMBERED_SECONDS)
        assert key(1) not in rejections
        assert rejections.leaves_doubt(key(1))


async def test_a_request_that_was_taken_with_the_option_leaves_no_doubt() -> None:
    """However long ago; but the option may be rejected later, by name."""
    clock = TurnedClock()
    rejections = Rejections(clock)
    rejections.begin_trial(key(1))
    rejections.note_taken(key(1))
    rejections.end_trial(key(1), taken=True)
    clock.turn(10 * REMEMBERED_SECONDS)
    assert not rejections.leaves_doubt(key(1))
    assert key(1) not in rejections
    rejections.add(key(1))
    rejections.note_taken(key(1))
    assert key(1) in rejections


async def test_a_trial_is_waited_for() -> None:
    """By all that have to know, and until the last one that begins meanwhile."""
    rejections = Rejections(TurnedClock())
    rejections.begin_trial(key(1))
    await rejections.wait_for_trial(key(2))
    waiting = asyncio.ensure_future(rejections.wait_for_trial(key(1)))
    await asyncio.sleep(0)
    rejections.end_trial(key(1), taken=None)
    rejections.begin_trial(key(1))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    rejections.end_trial(key(1), taken=False)
    await waiting
    assert not rejections._trials
