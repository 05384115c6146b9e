"""Durations, costs and times in words, for people at a terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from math import floor, log10
from typing import TYPE_CHECKING

from telemetry.facts import LIST_BASIS

if TYPE_CHECKING:
    from datetime import tzinfo

    from telemetry.facts import CallColumns


def format_duration(duration_ns: float) -> str:
    """Write a duration with a fitting precision.

    >>> [format_duration(seconds * 1e9) for seconds in (0.131, 2.04, 185, 7_500)]
    ['131 ms', '2.04 s', '3 min 05 s', '2 h 05 min']
    """
    seconds = duration_ns / 1e9
    # The bounds are where the shorter form would round up to the next unit.
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(int(seconds + 0.005), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def format_dollars(amount: float) -> str:
    """Write six significant digits behind a dollar sign, never a power of ten."""
    digits = max(2, 5 - floor(log10(amount))) if amount > 0 else 2
    text = f"${amount:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_cost(cost_usd: float, list_usd: float | None = None) -> str:
    """Write a cost, and apart from it the part of it that is a list price, as a subscription pays.

    >>> format_cost(0.25), format_cost(0.25, 0.25), format_cost(0.35, 0.25)
    ('$0.25', '$0.25 list', '$0.1 + $0.25 list')
    """
    if not list_usd:
        return format_dollars(cost_usd)
    spent = round(cost_usd - list_usd, 12)
    listed = f"{format_dollars(list_usd)} list"
    return f"{format_dollars(spent)} + {listed}" if spent > 0 else listed


def describe_costs(cost_usd: float, list_usd: float | None, unpriced: int) -> str:
    """Describe what calls cost, and how many others have no price.

    >>> describe_costs(0.25, None, 2)
    '$0.25, 2 calls have no price'
    """
    have = "1 call has" if unpriced == 1 else f"{unpriced:,} calls have"
    return format_cost(cost_usd, list_usd) + (f", {have} no price" if unpriced else "")


def write_call_cost(columns: CallColumns) -> str | None:
    """Write what a call cost; ``None`` if that is not known."""
    cost = columns.cost_usd
    if cost is None:
        return None
    return format_cost(cost, cost if columns.cost_basis == LIST_BASIS else None)


def local_time(at_ns: int, zone: tzinfo | None) -> datetime:
    """Convert a time to a zone, by default the local one."""
    # By whole microseconds, because a float of seconds cannot hold today's nanoseconds.
    moment = datetime.fromtimestamp(at_ns // 1_000_000_000, UTC)
    return moment.replace(microsecond=at_ns // 1_000 % 1_000_000).astimezone(zone)
