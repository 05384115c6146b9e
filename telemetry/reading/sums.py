"""What calls come to, by what they have in common: counts, tokens, cost, and how long they took.

Rules:

1. Sums are exact, or say that the time was over before all was summed up.
2. How long calls took is known by rank: of all, where they are :data:`MAX_RANKED` at most; of more,
   of as many of them, chosen evenly. :attr:`Ranks.calls` says of how many. Percentiles come from
   nowhere else.
3. An unknown value counts neither in a sum nor in a rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from telemetry.fact import Form
from telemetry.facts import GROUPED, RANKED, SUMMED
from telemetry.finding.where import Rows
from telemetry.reading.engine import never

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from telemetry.finding.where import Where
    from telemetry.reading.engine import Engine, Group

MAX_RANKED: Final = 20_000
"""Calls that are ranked: the rank of a percentile is right within less than one in a hundred."""

HOUR_SECONDS: Final = 3_600

GROUPS: Final[dict[str, tuple[Group, ...]]] = {
    **{name: (fact,) for name, fact in GROUPED.items()},
    "hour": (HOUR_SECONDS,),
    "": (),
}
"""What calls may have in common, by the name of it. The last one is nothing at all. A tool is what
rows of tools have in common."""

_NAMES: Final = (
    "errors",
    "priced",
    "unpriced",
    "list_usd",
    "input_usd",
    "output_ms",
    *(fact.name for fact in SUMMED),
)

_PERCENTS: Final = (50, 90, 95, 99)


class Ranks(NamedTuple):
    """Percentiles of a duration, in nanoseconds; ``None`` where it is known of no call.

    Attributes:
        calls: how many were ranked (rule 2).
        p50_ns: what half of them took at most; the others likewise.
    """

    calls: int = 0
    p50_ns: int | None = None
    p90_ns: int | None = None
    p95_ns: int | None = None
    p99_ns: int | None = None

    @property
    def shown(self) -> tuple[int | None, int | None, int | None]:
        """What ``spantap stats`` shows: p50, p90 and p99."""
        return self.p50_ns, self.p90_ns, self.p99_ns


NO_RANKS: Final = Ranks()


def rank(times: Sequence[int]) -> Ranks:
    """Rank times.

    >>> rank([7, 9, 8]).p50_ns, rank([])
    (8, Ranks(calls=0, p50_ns=None, p90_ns=None, p95_ns=None, p99_ns=None))
    """
    if not times:
        return NO_RANKS
    times, count = sorted(times), len(times)
    return Ranks(count, *(times[-(-count * percent // 100) - 1] for percent in _PERCENTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSums:
    """What the calls of one group come to.

    Attributes:
        key: what they have in common: a text, empty where it is not known, or of a step of time its
            number since the epoch. Of several things a tuple.
        priced: how many of them have a cost.
        unpriced: of how many a cost is missing, as the filter word ``unpriced`` finds them.
        list_usd: the part of the cost at list price, which a subscription paid.
        input_usd: the part of the cost that the requests' tokens have, as far as it is known.
        output_ms: how long the output of those took that have completion tokens: from the first
            output, where that is known, or else from the beginning, to the end.
        totals: of each fact in :data:`~telemetry.facts.SUMMED`, by its name.
        ranks: of each fact in :data:`~telemetry.facts.RANKED`, by its name.
    """

    key: Any
    calls: int
    errors: int
    priced: int
    unpriced: int
    list_usd: float
    input_usd: float
    output_ms: int
    totals: Mapping[str, Any]
    ranks: Mapping[str, Ranks]


NO_SUMS: Final = CallSums(
    key="",
    calls=0,
    errors=0,
    priced=0,
    unpriced=0,
    list_usd=0.0,
    input_usd=0.0,
    output_ms=0,
    totals={fact.name: 0 for fact in SUMMED},
    ranks={fact.name: NO_RANKS for fact in RANKED},
)
"""The sums of no calls."""


class Aggregate(NamedTuple):
    """What calls come to.

    Attributes:
        groups: those with most calls first, or hours in their order.
        total: all calls, with an empty key; ``None`` where there is no call.
        steps: calls and errors by the number of the step of time, where these were asked for.
        is_whole: nothing was left out for the time that it would take.
    """

    groups: Sequence[CallSums]
    total: CallSums | None
    steps: Mapping[int, tuple[int, int]]
    is_whole: bool


def aggregate(
    engine: Engine,
    where: Where,
    by: Sequence[Group],
    step_seconds: int = 0,
    is_late: Callable[[], bool] | None = None,
) -> Aggregate:
    """Sum calls up, each group and all of them.

    Args:
        engine: reads them.
        where: which calls.
        by: what the calls of a group have in common.
        step_seconds: the length of steps of time in which calls are counted as well; 0 for none.
        is_late: tells that the time is over; ``None`` for all the time that it takes.
    """
    groups = (*by, step_seconds) if step_seconds else by
    counted_as = "calls" if where.rows is Rows.CALLS else "rows"
    sums, is_whole = engine.sum(where, groups, (counted_as, *_NAMES), is_late=is_late)
    counted: dict[tuple[Any, ...], list[Any]] = {}
    steps: dict[int, tuple[int, int]] = {}
    for key, values in sums.items():
        amounts = [value or 0 for value in values]
        if not (amounts[0] or step_seconds):
            continue
        group = key[: len(by)]
        known = counted.get(group)
        counted[group] = amounts if known is None else [*map(sum, zip(known, amounts, strict=True))]
        if step_seconds:
            calls, errors = steps.get(key[-1], (0, 0))
            steps[key[-1]] = (calls + amounts[0], errors + amounts[1])
    total = [*map(sum, zip(*counted.values(), strict=True))]
    if not total or not total[0]:
        return Aggregate([], None, {}, is_whole)
    times = engine.times(where, by, total[0], MAX_RANKED, is_late or never)
    found = [
        _make_sums(
            key[0] if len(key) == 1 else key or "",
            amounts,
            {name: known.get(key, ()) for name, known in times.of.items()},
        )
        for key, amounts in counted.items()
    ]
    all_times = {name: [*chain.from_iterable(one.values())] for name, one in times.of.items()}
    is_of_time = len(by) == 1 and isinstance(by[0], int)
    found.sort(key=lambda one: one.key if is_of_time else (-one.calls, one.key))
    return Aggregate(found, _make_sums("", total, all_times), steps, is_whole and times.is_whole)


def _make_sums(key: Any, sums: Sequence[Any], times: Mapping[str, Sequence[int]]) -> CallSums:
    calls, errors, priced, unpriced, list_usd, input_usd, output_ms, *totals = sums
    return CallSums(
        key=key,
        calls=calls,
        errors=errors,
        priced=priced,
        unpriced=unpriced,
        list_usd=float(list_usd),
        input_usd=float(input_usd),
        output_ms=output_ms,
        totals={
            fact.name: float(total) if fact.form is Form.DOLLARS else total
            for fact, total in zip(SUMMED, totals, strict=True)
        },
        ranks={name: rank(durations) for name, durations in times.items()},
    )
