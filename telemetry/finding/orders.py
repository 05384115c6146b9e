"""The orders in which calls are listed, as SQL to follow ``ORDER BY`` on the table ``spans``.

Calls of which the quantity is unknown come last, and of two that are alike the newer one first.
"""

from __future__ import annotations

from typing import Final

NEWEST_FIRST: Final = "seq DESC"
"""By number, which is the order of recording and costs nothing."""

ORDERS: Final = {
    "slow": f"end_ns - start_ns DESC, {NEWEST_FIRST}",
    "cost": f"cost_usd DESC, {NEWEST_FIRST}",
    "tokens": f"total_tokens DESC, {NEWEST_FIRST}",
}
"""Each by its name; the largest first. All rows that a filter finds are read for the first one."""
