"""Which rows are meant, as values. The module that keeps the rows decides how to find them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from telemetry.facts import FACTS
from telemetry.finding.predicates import Among, IsKnown, OfLaunch

if TYPE_CHECKING:
    from typing import Self

    from telemetry.finding.predicates import Predicate
    from telemetry.store.rows import SpanSummary

_GET: Final = {fact.name: fact.get for fact in FACTS}


@dataclass(frozen=True, slots=True)
class Ask:
    """A condition that a row must fulfil, or must not fulfil.

    Attributes:
        options: names of facts (:mod:`telemetry.facts`), each with its predicate: one fact that
            fulfils its predicate is enough. A fact that is not known fulfils nothing.
        is_not: no fact may fulfil its predicate.
    """

    options: tuple[tuple[str, Predicate], ...]
    is_not: bool = False

    def matches(self, row: SpanSummary) -> bool:
        """Tell whether the condition holds for a row."""
        return self.is_not != any(
            _fulfils(row, name, predicate) for name, predicate in self.options
        )


def _fulfils(row: SpanSummary, name: str, predicate: Predicate) -> bool:
    value = _GET[name](row)
    return value is not None and predicate.holds(value)


class Rows(Enum):
    """Which kinds of rows are meant. Rows that are not calls were derived from calls."""

    CALLS = "calls"
    ALL = "all"
    WITH_FOUND_OUT = "with what was found out"
    """All rows that fit, and the rows that were derived from a call that fits: the rows of its run
    that are not calls, and the call's own mark."""
    FOUND_OUT = "found out"
    """Only the rows that are not calls, among those that were found out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which rows are meant; by default all calls.

    Attributes:
        asks: conditions that must all hold.
        texts: the bytes of a span must hold each of them.
        rows: the kinds of rows.
        since_ns: the rows began then or later, in nanoseconds since the epoch.
        until_ns: the rows began before this time.
        conversation: the number of their conversation. An engine may have an index for it, and for
            the run.
        run: the number of their run.
    """

    asks: tuple[Ask, ...] = ()
    texts: tuple[str, ...] = ()
    rows: Rows = Rows.CALLS
    since_ns: int | None = None
    until_ns: int | None = None
    conversation: int | None = None
    run: int | None = None

    def also(self, *asks: Ask, **changes: Any) -> Self:
        """Add conditions, or replace some of these attributes."""
        return dataclasses.replace(self, asks=(*self.asks, *asks), **changes)

    @property
    def is_plain(self) -> bool:
        """Whether nothing is asked of calls except their time."""
        return dataclasses.replace(self, since_ns=None, until_ns=None) == ALL_CALLS

    def matches(self, row: SpanSummary) -> bool:
        """Tell whether a row is meant, whatever its kind and the bytes of its span."""
        return (
            all(ask.matches(row) for ask in self.asks)
            and (self.since_ns is None or row.start_ns >= self.since_ns)
            and (self.until_ns is None or row.start_ns < self.until_ns)
            and self.conversation in {None, row.columns.conversation}
            and self.run in {None, row.columns.run}
        )


ALL_CALLS: Final = Where()

ALL_ROWS: Final = Where(rows=Rows.ALL)


def ask_word(name: str, *words: str, is_not: bool = False) -> Ask:
    """Build the condition that a fact is one of some words."""
    return Ask(((name, Among("", words)),), is_not)


def ask_known(*names: str) -> Ask:
    """Build the condition that one of some facts is known."""
    return Ask(tuple((name, IsKnown()) for name in names))


def ask_launch(name: str, number: str = "") -> Ask:
    """Build the condition that a row belongs to the launches of a name, or to one of them."""
    return Ask((("launch", OfLaunch(name, number)),))
