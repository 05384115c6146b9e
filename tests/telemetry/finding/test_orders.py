"""``telemetry.finding.orders``: the orders in which calls are listed."""

from __future__ import annotations

import pytest

from telemetry.finding.orders import NEWEST_FIRST, ORDERS
from tests.telemetry.finding.calls import fill_table, make_call


@pytest.mark.parametrize(
    ("order", "numbers"),
    [
        (ORDERS["slow"], [4, 1, 3, 2]),
        (ORDERS["cost"], [1, 2, 4, 3]),
        (ORDERS["tokens"], [3, 4, 2, 1]),
        (NEWEST_FIRST, [4, 3, 2, 1]),
    ],
)
def test_an_order(order: str, numbers: list[int]) -> None:
    """The largest first, then the newer one; what is unknown last."""
    calls = [
        make_call(1, start_ns=1, end_ns=5, cost_usd=0.5),
        make_call(2, start_ns=1, end_ns=2, cost_usd=0.1, total_tokens=7),
        make_call(3, start_ns=1, end_ns=4, total_tokens=9),
        make_call(4, start_ns=1, end_ns=5, total_tokens=7),
    ]
    found = fill_table(calls).execute(f"SELECT seq FROM spans ORDER BY {order}")
    assert [seq for (seq,) in found] == numbers
