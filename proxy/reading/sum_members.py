"""The members of sums in JSON, wherever calls are summed up.

Dollars are added up in more than one place and order, so their sums differ in the last digits of a
float. They are rounded here, to :data:`_DIGITS` digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, overload

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.reading.branch_sums import BranchSums
    from telemetry.reading.conversations import ConversationSums
    from telemetry.reading.groups import GroupSums
    from telemetry.reading.runs import RunSums
    from telemetry.reading.sums import CallSums

_DIGITS: Final = 12
"""A float has 15; the sum of a million amounts is off by the last two or three."""


@overload
def round_dollars(amount: float) -> float: ...
@overload
def round_dollars(amount: None) -> None: ...
def round_dollars(amount: float | None) -> float | None:
    """Round a sum of dollars.

    >>> round_dollars(0.1 + 0.2), round_dollars(None)
    (0.3, None)
    """
    return None if amount is None else float(f"{amount:.{_DIGITS}g}")


def build_sums(sums: RunSums | ConversationSums | BranchSums | GroupSums) -> JsonObject:
    """Build the sums of calls."""
    return {
        "calls": sums.calls,
        "errors": sums.errors,
        "prompt_tokens": sums.prompt_tokens,
        "cached_tokens": sums.cached_tokens,
        "completion_tokens": sums.completion_tokens,
        "cost_usd": round_dollars(sums.cost_usd),
        "priced": sums.priced,
        "unpriced": sums.unpriced,
        "list_usd": round_dollars(sums.list_usd),
        "saved_usd": round_dollars(sums.saved_usd),
    }


def build_step_sums(sums: RunSums | ConversationSums | BranchSums) -> JsonObject:
    """Build the sums of calls and tools."""
    return {**build_sums(sums), "tools": sums.tools, "tool_errors": sums.tool_errors}


def build_costs(sums: CallSums) -> JsonObject:
    """Build the sums of dollars of calls of any kind; ``None`` if none of them has a cost."""
    amounts = {
        "cost_usd": sums.totals["cost_usd"],
        "list_usd": sums.list_usd,
        "saved_usd": sums.totals["saved_usd"],
    }
    rounded = {name: round_dollars(float(one)) for name, one in amounts.items() if sums.priced}
    return {"priced": sums.priced, "unpriced": sums.unpriced, **dict.fromkeys(amounts), **rounded}
