"""Checks the prices that costs are made of, and says which calls have none."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from proxy.commands.check.findings import good, note
from proxy.reading.costs import OLD_DAYS, count_days, explain_newest
from telemetry.errors import StoreError
from telemetry.finding.where import ALL_CALLS
from telemetry.pricing.catalogue import find_list_date
from telemetry.reading.stored_calls import open_calls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proxy.commands.check.findings import Finding
    from proxy.settings.settings import Settings


def check_costs(settings: Settings) -> Iterator[Finding]:
    """Check how old the list of prices is, and whether recent calls have a price."""
    if not settings.cost:
        yield good("cost", "no costs are recorded: SPANTAP_COST is false")
        return
    day = find_list_date()
    own = f"; {len(settings.prices):,} of your own come first" if settings.prices else ""
    if day is None:
        mend = "install genai-prices anew, or write [[price]] tables into the settings' file"
        yield note("cost", "the list of genai-prices cannot be read", mend)
    elif (days := count_days(day, time.time_ns()) or 0) > OLD_DAYS:
        words = f"the newest price in the list of genai-prices is of {day}, {days} days ago{own}"
        yield note("cost", words, "update genai-prices, or spantap, which brings it")
    else:
        yield good("cost", f"the newest price in the list of genai-prices is of {day}{own}")
    yield from _judge_calls(settings.store)


def _judge_calls(store: Path) -> Iterator[Finding]:
    """Say why the newest calls without a price have none."""
    if not store.exists():
        return
    with contextlib.suppress(StoreError), open_calls(store) as calls:  # check_store says why
        for gap in explain_newest(calls, ALL_CALLS):
            yield note("cost", f"calls have no cost: {gap.why}", gap.mend)
