"""What an engine has to do, so that :class:`~telemetry.reading.calls.Calls` can read its rows.

Rows have numbers (``seq``): a later one has a greater number, and none is given twice.

Rules:

1. No read is long: another process may be writing. Whatever may take long goes step by step, and
   where the caller gives a time (``is_late``) it ends between two steps and says so.
2. What is not known is ``None``, and no value of a damaged row breaks an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from telemetry.facts import RANKED, SUMMED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from telemetry.finding.where import Where
    from telemetry.raw_answer import RawAnswer
    from telemetry.store.rows import CallPicture, SpanSummary, StoredSpan
    from telemetry.store.unobserved_calls import UnobservedCalls

LAST_SEQ: Final = (1 << 63) - 1
"""Above any number of a row."""


def never() -> bool:
    """Tell that there is time."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some rows, and how far they were looked for.

    Attributes:
        back_to: all rows from this number on were looked at; oldest first, those up to it.
        is_done: there are no more.
        is_late: the time was over before there were as many rows as were asked for.
    """

    rows: Sequence[SpanSummary]
    back_to: int
    is_done: bool
    is_late: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStep:
    """What a step of a search has found, and how far it has come.

    Attributes:
        hits: numbers of the spans that were found in this step, newest first.
        back_to: all spans from this number on have been searched.
        back_to_ns: when the oldest of them began; ``None`` where the store is empty.
        spans: how many spans have been read in all steps so far.
        size_bytes: and how many bytes.
        is_done: this is the last step.
    """

    hits: tuple[int, ...]
    back_to: int
    back_to_ns: int | None
    spans: int
    size_bytes: int
    is_done: bool


AMOUNTS: Final = {
    **{fact.name: "sum" for fact in SUMMED},
    "rows": "sum",
    "calls": "sum",
    "errors": "sum",
    "failed_calls": "sum",
    "priced": "sum",
    "unpriced": "sum",
    "list_usd": "sum",
    "input_usd": "sum",
    "output_ms": "sum",
    "tools": "sum",
    "tool_errors": "sum",
    "derived": "sum",
    "pending": "sum",
    "size_bytes": "sum",
    "start_ns": "min",
    "last_start_ns": "max",
    "end_ns": "max",
    "first_seq": "min",
    "last_seq": "max",
    "last_call_seq": "max",
}
"""What rows may come to, and how two of one amount become one.

A fact that is summed up is an amount by its name. Errors are of all rows; tokens and costs are of
calls. Priced are calls that have a cost. Unpriced are those of which a cost is missing, as the
filter word ``unpriced`` finds them: a call that failed without a count of tokens is neither.
``list_usd`` is the part of the cost that a subscription pays, ``input_usd`` that of the requests'
tokens, of calls that have a cost. Output is counted from the first output, where that is known, or
else from the beginning, to the end, of calls with completion tokens. A lone call has no run.
``size_bytes`` is of the spans. All amounts have the limits of :mod:`telemetry.store.minutes`.
"""

Group = str | int
"""What rows may have in common.

A fact that calls are grouped by (:data:`~telemetry.facts.GROUPED`) is a text, empty where it is not
known. ``state``, ``conversation``, ``run``, ``tool_calls`` and the counts of tokens are as they
are. A number is that of seconds: of the step since the epoch, of that length, in which a call
began."""


class Amounts(NamedTuple):
    """What rows come to.

    Attributes:
        groups: by what they have in common, the amounts that were asked for, in their order.
        is_whole: nothing was left out for the time that it would take.
    """

    groups: Mapping[tuple[Any, ...], tuple[Any, ...]]
    is_whole: bool = True


class Times:
    """How long calls took, and other durations that are ranked, in nanoseconds.

    Attributes:
        of: by the name of each fact in :data:`~telemetry.facts.RANKED`, the known ones by group.
        is_whole: nothing was left out for the time that it would take.
    """

    def __init__(self) -> None:
        self.of: dict[str, dict[tuple[Any, ...], list[int]]] = {fact.name: {} for fact in RANKED}
        self.is_whole = True

    def add(self, key: tuple[Any, ...], durations: Iterable[object]) -> None:
        """Add a call with a duration for each of the facts; what is not a number is left out."""
        for known, duration in zip(self.of.values(), durations, strict=False):
            if isinstance(duration, int):
                known.setdefault(key, []).append(duration)


class Failure(NamedTuple):
    """Calls that failed in one way: the class of the error, how many, and the newest one."""

    error_type: str
    calls: int
    last_seq: int


class Notable(NamedTuple):
    """Calls that somebody wants to see.

    Attributes:
        slowest: numbers, the slowest first.
        dearest: numbers, the dearest first.
        failed: the most frequent first.
        is_whole: all rows were looked at.
    """

    slowest: Sequence[int]
    dearest: Sequence[int]
    failed: Sequence[Failure]
    is_whole: bool


class Engine(Protocol):
    """Reads rows, wherever they are kept. It is for one thread.

    Each method raises :exc:`~telemetry.errors.StoreError` where they cannot be read.

    Attributes:
        path: of what it reads, for people.
    """

    path: Path

    def close(self) -> None:
        """End reading."""

    def is_current(self) -> bool:
        """Tell whether it still reads what is at its path."""

    def last_seq(self) -> int:
        """Return the number of the newest row of all; 0 where there is none."""

    def first_ns(self) -> int | None:
        """Find the beginning of the minute in which the first row began; ``None`` for none."""

    def select(
        self,
        where: Where,
        limit: int,
        *,
        after: int = 0,
        before: int = LAST_SEQ,
        oldest_first: bool = False,
        is_late: Callable[[], bool] = never,
    ) -> Page:
        """Read rows with numbers between these two, newest first; texts are not looked for."""

    def facts(
        self,
        where: Where,
        names: Sequence[str],
        limit: int,
        *,
        after: int = 0,
        before: int = LAST_SEQ,
        oldest_first: bool = False,
    ) -> Sequence[tuple[Any, ...]]:
        """Read some facts of rows, else as :meth:`select`: those that are fields or columns."""

    def numbers(
        self, where: Where, *, before: int = LAST_SEQ, limit: int = LAST_SEQ, oldest_first: bool
    ) -> Iterator[int]:
        """Yield the numbers of rows, found when they are needed; texts are not looked for."""

    def largest(self, where: Where, fact: str, limit: int) -> Iterator[int]:
        """Yield the numbers of the rows with the most of a fact, then of those without it.

        Of two that are alike the newer one comes first.
        """

    def rows(self, numbers: Iterable[int], *, at_once: int = 1) -> Iterator[SpanSummary]:
        """Yield the rows with these numbers, so many of them read when the first is needed.

        A row that is gone is left out. Of many at once the numbers have to rise.
        """

    def one(self, span_id: str) -> SpanSummary | None:
        """Find the row of any kind with exactly this span id; ``None`` if no row has it.

        No other row is looked at.
        """

    def find(self, id_prefix: str, limit: int) -> list[SpanSummary]:
        """Find rows whose id begins so, in upper or lower case, the newest first.

        A whole id finds only the rows that have it, and a whole span id finds its row alone. A
        trace id and a request id find calls.
        """

    def bodies(self, rows: Iterable[SpanSummary]) -> Iterator[StoredSpan]:
        """Yield rows with their bytes, each read when needed; one that is gone is left out."""

    def pictures(self, seq: int) -> list[CallPicture]:
        """Read which pictures the row with this number has, without their bytes."""

    def picture(self, seq: int, digest: str) -> bytes | None:
        """Read the bytes of a picture of this row; ``None`` if they are not there."""

    def raw_answer(self, seq: int) -> RawAnswer | None:
        """Read the true bytes of the answer of this row; ``None`` if they are not kept."""

    def search(self, where: Where, *, before: int = LAST_SEQ) -> Iterator[SearchStep]:
        """Search the bytes of the rows for texts, newest first, in steps; at least one."""

    def sum(
        self,
        where: Where,
        by: Sequence[Group],
        names: Sequence[str],
        *,
        after: int = 0,
        before: int = LAST_SEQ,
        is_late: Callable[[], bool] | None = None,
    ) -> Amounts:
        """Sum rows up; texts are not looked for.

        Args:
            where: which rows.
            by: what the rows of a group have in common.
            names: some of :data:`AMOUNTS`.
            after: only rows with a greater number.
            before: only rows with a smaller number.
            is_late: tells that the time is over; where nobody gives it, one read may be enough.
        """

    def largest_groups(
        self, where: Where, by: str, names: Sequence[str], limit: int
    ) -> tuple[Sequence[tuple[Any, ...]], int]:
        """Sum up the groups with the most of the first amount, and count all groups.

        Args:
            where: which rows; texts are not looked for.
            by: a fact; rows of which it is not known are one group.
            names: some of :data:`AMOUNTS`. Groups without the first come last; of two that are
                alike the one with more rows comes first, and then that of the greater number.
            limit: how many groups at most. An engine keeps no others.
        """

    def count_by(self, where: Where, by: Sequence[Group]) -> Iterator[tuple[Any, ...]]:
        """Yield what rows have in common, and how many have it; texts are not looked for.

        There may be as many groups as rows: the engine keeps none of them.
        """

    def times(
        self,
        where: Where,
        by: Sequence[Group],
        calls: int,
        most: int,
        is_late: Callable[[], bool] = never,
    ) -> Times:
        """Read how long calls took: of `calls` of them `most` at most, chosen evenly."""

    def notable(self, where: Where, count: int, is_late: Callable[[], bool]) -> Notable:
        """Find the slowest and dearest calls, and how calls failed, `count` of each."""

    def runs(self, where: Where, limit: int, largest: str = "") -> Sequence[int]:
        """Find the numbers of runs that have such a row, the newest first.

        `largest`: a fact in :data:`~telemetry.facts.ORDERS`; then the runs come first whose rows
        have the most of it in all. How long a run took is from its first beginning to its last end.
        """

    def unobserved(self, since_ns: int) -> list[UnobservedCalls]:
        """Read the calls that were not observed, since proxies that began later."""
