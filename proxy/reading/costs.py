"""Words for people about costs: what an amount means, and why one is unknown."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry.finding.where import ask_known, ask_word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from telemetry.finding.where import Where
    from telemetry.reading.calls import Calls
    from telemetry.store.rows import SpanSummary

OLD_DAYS: Final = 90
"""A list of prices that is older is marked: providers change prices a few times a year."""

MAX_GAPS: Final = 3
"""How many reasons for unknown costs a list of calls gives: enough to begin with."""

MAX_MODEL_CHARS: Final = 80

_GAP_CALLS: Final = 100
"""How many of the newest calls without a cost are asked for their reasons."""

_GAP_SECONDS: Final = 0.2
"""How long these are looked for: where all calls have a cost, all of them would be read."""

NEWEST_ROWS: Final = 20_000
"""Rows among which the page looks for them, in some 10 ms."""

_NO_USAGE: Final = "no_usage"

_DEFAULT: Final = "default"
"""The name of the upstream that ``SPANTAP_UPSTREAM`` names, without a table."""

_ASK_UNPRICED: Final = (ask_known("cost_gap"), ask_word("cost_gap", _NO_USAGE, is_not=True))
"""The conditions of calls whose cost is unknown for want of a price."""

_WHY: Final = {
    _NO_USAGE: "the answer has no counts of tokens, or they contradict each other",
    "unknown_provider": "the list of prices has no provider at the upstream {upstream}",
    "unknown_model": "the list of prices has no model {model}",
    "unpriced_terms": "{model} has no price for the service tier, the speed or the place",
    "unpriced_tool": "{model} used a tool of the provider's that has no price, or no count",
    "unpriced_tokens": "{model} has no price for a kind of these tokens",
}


DOMINANT_SHARE: Final = 0.8
"""The share of a cost from which on its part is named."""


def find_input_share(input_usd: float | None, cost_usd: float | None) -> float | None:
    """Find which share of a cost is input, if that is most of it; ``None`` if not.

    Calls from before this part was recorded have none, so that a smaller share may be too small.
    """
    if not input_usd or not cost_usd or input_usd < DOMINANT_SHARE * cost_usd:
        return None
    return min(input_usd / cost_usd, 1.0)


def describe_input_share(input_usd: float | None, cost_usd: float | None) -> str:
    """Say how much of a cost is input, if that is most of it; empty if not.

    >>> describe_input_share(0.97, 1.0), describe_input_share(0.5, 1.0)
    ('97 % is input', '')
    """
    share = find_input_share(input_usd, cost_usd)
    return "" if share is None else f"{share:.0%} is input".replace("%", " %")


class Gap(NamedTuple):
    """Why the cost of a call is unknown.

    Attributes:
        why: in words.
        mend: what to write into the settings' file to give it a cost; empty if nothing does.
    """

    why: str
    mend: str = ""

    @property
    def words(self) -> str:
        """Both of them in a line."""
        return "; ".join(filter(None, self))


def explain_gap(gap: str, model: str | None, upstream: str | None) -> Gap:
    """Explain a value of the fact ``cost_gap``."""
    name = json.dumps((model or "")[:MAX_MODEL_CHARS], ensure_ascii=False)
    shown = name if model else "the model"
    words = _WHY.get(gap, gap).format(model=shown, upstream=upstream or "of this call")
    if gap == _NO_USAGE or gap not in _WHY:
        return Gap(words)
    rates = "input and output in dollars per million tokens"
    if gap == "unpriced_tool":
        rates += ", and web_search by the thousand"
    of = f"model = {name}, " if model else ""
    price = f"a [[price]] table with {of}{rates}"
    if gap == "unknown_provider":
        table = (
            "an [[upstream]] table" if upstream in {None, _DEFAULT} else "its [[upstream]] table"
        )
        return Gap(
            words,
            f'write the provider whose prices it has into {table}, such as provider = "anthropic";'
            f" or write {price} into the settings' file",
        )
    return Gap(words, f"write {price} into the settings' file")


class Gaps:
    """Collects why costs of many calls are unknown, each reason once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str | None, str | None], None] = {}

    def add(self, row: SpanSummary) -> None:
        """Add a call, if its cost is unknown for want of a price."""
        gap = row.columns.cost_gap
        if gap is not None and gap != _NO_USAGE and len(self._found) <= MAX_GAPS:
            self._found[gap, row.model, row.columns.upstream] = None

    def explain(self) -> list[Gap]:
        """Explain up to :data:`MAX_GAPS` of them."""
        return [explain_gap(*key) for key in [*self._found][:MAX_GAPS]]


def explain_gaps(rows: Iterable[SpanSummary]) -> list[Gap]:
    """Explain why costs of calls are unknown, each reason once."""
    gaps = Gaps()
    for row in rows:
        gaps.add(row)
    return gaps.explain()


def explain_newest(calls: Calls, where: Where, rows: int | None = None) -> list[Gap]:
    """Explain why the newest calls without a price have none.

    Args:
        calls: of any store.
        where: which calls are meant.
        rows: look only among so many rows, the newest of all.
    """
    after = 0 if rows is None else max(0, calls.last_seq() - rows)
    unpriced = calls.that(where.also(*_ASK_UNPRICED))
    return explain_gaps(unpriced.page(_GAP_CALLS, after=after, seconds=_GAP_SECONDS).rows)


def describe_list(day: str, at_ns: int) -> str:
    """Describe the list of prices of a day, with a mark if it is too old at a time.

    >>> describe_list("2026-11-09", 1_795_000_000_000_000_000)
    'list of 2026-11-09'
    """
    days = count_days(day, at_ns)
    return f"list of {day}" + (f", {days} days old" if days is not None and days > OLD_DAYS else "")


def count_days(day: str, at_ns: int) -> int | None:
    """Count the days from a day such as ``2026-11-09`` to a time; ``None`` if it is no day."""
    try:
        then = date.fromisoformat(day)
        return (datetime.fromtimestamp(at_ns / 1e9, UTC).date() - then).days
    except (ValueError, OverflowError, OSError):
        return None
