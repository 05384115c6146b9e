"""Calls that are held for a while, and recorded in the order in which they ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from telemetry.observing import call_ordering
from telemetry.observing.call_ordering import CallOrdering
from tests.telemetry.exchanges import make_exchange

if TYPE_CHECKING:
    import pytest


def test_held_calls_are_recorded_in_the_order_of_their_ends() -> None:
    """None before the release, and behind it each at once."""
    ended: list[int] = []
    ordering = CallOrdering(lambda exchange, _: ended.append(exchange.end_ns))
    call = make_exchange({"messages": []})
    ordering.hold()
    for end_ns in (3, 1, 2):
        ordering.take(replace(call, end_ns=end_ns), None)
    assert not ended
    ordering.release()
    ordering.take(replace(call, end_ns=0), None)
    assert ended == [1, 2, 3, 0]


def test_held_calls_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past it those that ended first are recorded, and the next ones are held."""
    monkeypatch.setattr(call_ordering, "MAX_HELD_CALLS", 4)
    ended: list[int] = []
    ordering = CallOrdering(lambda exchange, _: ended.append(exchange.end_ns))
    call = make_exchange({"messages": []})
    ordering.hold()
    for end_ns in (7, 3, 1, 5, 2):
        ordering.take(replace(call, end_ns=end_ns), None)
    assert ended == [1, 3, 5]
    assert ordering.is_holding
    ordering.release()
    assert ended == [1, 3, 5, 2, 7]


def test_a_large_call_is_not_held() -> None:
    """What ended before it comes before it, what ended later is held."""
    ended: list[int] = []
    ordering = CallOrdering(lambda exchange, _: ended.append(exchange.end_ns))
    call = make_exchange({"messages": []})
    ordering.hold()
    for end_ns in (3, 1):
        ordering.take(replace(call, end_ns=end_ns), None)
    ordering.take(replace(call, end_ns=2, is_large=True), None)
    assert ended == [1, 2]
    ordering.release()
    assert ended == [1, 2, 3]
