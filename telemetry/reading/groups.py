"""What the calls of each session, user, conversation or run come to, as a list.

The newest first: no index has these, so that the rows are read in steps, from the newest back,
until the time is over. What was read is exact, and the answer says how far back it goes.

The dearest first: there may be as many conversations as calls, so that the engine keeps only those
that are listed. All rows are read once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from telemetry.finding.where import ALL_ROWS
from telemetry.reading.conversations import find_first
from telemetry.reading.engine import AMOUNTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from telemetry.finding.where import Where
    from telemetry.reading.engine import Engine

STEP_NUMBERS: Final = 5_000
"""Numbers whose rows are summed up in one read: some 50 ms. So a step also has at most as many
groups."""

MAX_GROUPS: Final = 2_000
"""The most groups, some 2 MB; of more, those with the newest calls."""

_NAMES: Final = (
    *("calls", "failed_calls", "priced", "unpriced", "prompt_tokens", "cached_tokens"),
    *("completion_tokens", "cost_usd", "list_usd", "saved_usd", "input_usd"),
    *("start_ns", "end_ns", "last_call_seq"),
)

_MERGE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "sum": lambda one, other: one + other,
    "min": min,
    "max": max,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSums:
    """What the calls of a group come to.

    Attributes:
        key: what they have in common; ``None`` where a number is not known.
        errors: calls that failed.
        prompt_tokens: ``None`` if no provider reported any; the other amounts likewise.
        priced: how many calls have a cost.
        unpriced: of how many calls a cost is missing.
        list_usd: the part of the cost at list price, which a subscription paid.
        saved_usd: what the provider's cache saved.
        input_usd: the part of the cost that the requests' tokens have, as far as it is known.
        start_ns: when the first call began.
        end_ns: when the last one ended.
        last_seq: the number of the newest call.
        title: of a conversation or a run, the first question that the user asked there.
        launch: the label of the launch that began it.
    """

    key: str | int | None
    calls: int
    errors: int
    priced: int
    unpriced: int
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    list_usd: float | None
    saved_usd: float | None
    input_usd: float | None
    start_ns: int
    end_ns: int
    last_seq: int
    title: str | None = None
    launch: str | None = None


class DearestGroups(NamedTuple):
    """Groups of calls.

    Attributes:
        groups: the dearest first.
        total: all calls; ``None`` if there is none.
        left_out: how many groups are not among these.
    """

    groups: Sequence[GroupSums]
    total: GroupSums | None
    left_out: int


class NewestGroups(NamedTuple):
    """Groups of calls.

    Attributes:
        groups: those with the newest calls first.
        unnamed: calls of which it is not known.
        left_out: whether there are groups with older calls.
        back_to: calls with smaller numbers were not read; 0 if all were.
    """

    groups: Sequence[GroupSums]
    unnamed: int
    left_out: bool
    back_to: int


def group_newest(
    engine: Engine, where: Where, by: str, before: int, is_late: Callable[[], bool]
) -> NewestGroups:
    """Group calls by a fact, from a number back; one step is read, however late it is.

    Args:
        engine: reads them.
        where: which calls; texts are not looked for.
        by: a fact in :data:`~telemetry.facts.GROUPED` or :data:`~telemetry.facts.NUMBERED`.
        before: only calls with a smaller number.
        is_late: tells that the time is over.
    """
    oldest = engine.select(ALL_ROWS, 1, oldest_first=True).rows
    first = oldest[0].seq if oldest else before
    at = min(before, engine.last_seq() + 1)
    found: dict[str | int | None, tuple[Any, ...]] = {}
    left_out = False
    while at > first:
        low = max(first, at - STEP_NUMBERS)
        step = engine.sum(where, (by,), _NAMES, after=low - 1, before=at).groups
        # The newest of a step come first, so that those are left out that are older.
        for (key,), amounts in sorted(step.items(), key=lambda item: -(item[1][-1] or 0)):
            known = found.get(key)
            if known is not None:
                found[key] = _add(known, amounts)
            elif len(found) < MAX_GROUPS or not key:
                found[key] = amounts
            else:
                left_out = True
        at = low
        if is_late():
            break
    unnamed = sum(found.pop(nothing, (0,))[0] for nothing in ("", None))
    groups = [_make(key, amounts) for key, amounts in found.items() if amounts[0]]
    groups.sort(key=lambda one: -one.last_seq)
    return NewestGroups(groups, unnamed, left_out, at if at > first else 0)


def group_dearest(engine: Engine, where: Where, by: str, limit: int) -> DearestGroups:
    """Sum up the dearest groups by a number.

    Args:
        engine: reads the calls.
        where: which calls; texts are not looked for.
        by: a fact in :data:`~telemetry.facts.NUMBERED`, which is a field of
            :class:`~telemetry.finding.where.Where` as well.
        limit: how many groups at most.
    """
    names = ("cost_usd", *(name for name in _NAMES if name != "cost_usd"))
    found, count = engine.largest_groups(where, by, names, limit)
    known: dict[int | None, tuple[Any, ...]] = {}
    for number, *values in found:
        by_name = dict(zip(names, values, strict=True))
        amounts = tuple(by_name[name] for name in _NAMES)
        key = number if isinstance(number, int) else None  # a disk may have damaged it
        known[key] = _add(known[key], amounts) if key in known else amounts
    groups = []
    for key, amounts in known.items():
        sums = _make(key, amounts)
        groups.append(sums if key is None else add_title(engine, by, sums))
    return DearestGroups(groups, _sum_all(engine, where), count - len(found))


def add_title(engine: Engine, by: str, sums: GroupSums) -> GroupSums:
    """Add its title and its launch to a conversation or a run."""
    first = find_first(engine, ALL_ROWS.also(**{by: sums.key}))
    if first is None:
        return sums
    return replace(sums, title=first.columns.preview, launch=first.launch)


def _sum_all(engine: Engine, where: Where) -> GroupSums | None:
    """Sum all calls up. Their times are left out, so that the sums of minutes may be enough."""
    names = tuple("errors" if name == "failed_calls" else name for name in _NAMES[:-3])
    for amounts in engine.sum(where, (), names).groups.values():
        if amounts[0]:
            known = {name: amount or 0 for name, amount in zip(names, amounts, strict=True)}
            if not known["priced"]:
                known |= dict.fromkeys(("cost_usd", "list_usd", "saved_usd", "input_usd"))
            return _make(None, (*known.values(), 0, 0, 0))
    return None


def _add(known: tuple[Any, ...], more: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        other if one is None else one if other is None else _MERGE[AMOUNTS[name]](one, other)
        for name, one, other in zip(_NAMES, known, more, strict=True)
    )


def _make(key: str | int | None, amounts: tuple[Any, ...]) -> GroupSums:
    known = dict(zip(_NAMES, amounts, strict=True))
    known |= {name: known[name] or 0 for name in ("start_ns", "end_ns")}
    errors, last_seq = known.pop("failed_calls"), known.pop("last_call_seq") or 0
    return GroupSums(key=key, errors=errors, last_seq=last_seq, **known)
