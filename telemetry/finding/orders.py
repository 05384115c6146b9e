"""The orders in which calls are listed.

Calls of which the quantity is unknown come last, and of two that are alike the newer one first.
"""

from __future__ import annotations

from typing import Final

ORDERS: Final = {"slow": "duration_ns", "cost": "cost_usd", "tokens": "total_tokens"}
"""Each by its name, with the fact (:mod:`telemetry.facts`) of which the largest comes first."""
