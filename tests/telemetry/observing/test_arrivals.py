"""Calls that are held for a while, and recorded in the order in which they ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from telemetry.observing import arrivals as arrivals_module
from telemetry.observing.arrivals import Arrivals
from tests.telemetry.exchanges import make_exchange

if TYPE_CHECKING:
    import pytest


def test_held_calls_are_recorded_in_the_order_of_their_ends() -> None:
    """Rules 1 and 2: none before the release, and behind it each at once."""
    ended: list[int] = []
    arrivals = Arrivals(lambda exchange, _: ended.append(exchange.end_ns))
    call = make_exchange({"messages": []})
    arrivals.hold()
    for end_ns in (3, 1, 2):
        arrivals.take(replace(call, end_ns=end_ns), None)
    assert not ended
    arrivals.release()
    arrivals.take(replace(call, end_ns=0), None)
    assert ended == [1, 2, 3, 0]


def test_held_calls_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 3: past it they are recorded, and the next ones are held."""
    monkeypatch.setattr(arrivals_module, "MAX_HELD_CALLS", 2)
    ended: list[int] = []
    arrivals = Arrivals(lambda exchange, _: ended.append(exchange.end_ns))
    call = make_exchange({"messages": []})
    arrivals.hold()
    for end_ns in (2, 1, 0):
        arrivals.take(replace(call, end_ns=end_ns), None)
    assert ended == [1, 2]
    assert arrivals.is_holding
