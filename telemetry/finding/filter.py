"""A filter: words typed by somebody, as a condition on calls.

Rules (``docs/contract/page.md#filter``):

1. All words must hold. ``-`` before a condition negates it: then it holds for every call for which
   the condition does not, also for calls whose value is unknown.
2. :meth:`Filter.where` and :meth:`Filter.matches` say the same of every call.
3. A filter writes itself as a text that reads as the same filter.
4. Any text is either a filter or a :exc:`~telemetry.errors.FilterError`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from telemetry.errors import FilterError
from telemetry.finding.keys import KEYS, explain_unknown_key
from telemetry.finding.readers import Asked
from telemetry.finding.where import Ask, Rows, Where
from telemetry.finding.words import quote_text, read_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from telemetry.finding.predicates import Predicate
    from telemetry.finding.words import Word
    from telemetry.store.rows import SpanSummary

_MAY_BE_NUMBER = re.compile(r"[<>=]*[0-9.]+[kKmMgG]?\Z|\Z")
"""Matches a value that is not a name, for keys that take names and numbers."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: what the value of one key must be, or must not be.

    Attributes:
        key: one of :data:`telemetry.finding.keys.KEYS`.
    """

    key: str
    predicate: Predicate
    is_not: bool = False

    def __str__(self) -> str:
        return f"{'-' if self.is_not else ''}{self.key}{self.predicate}"

    @property
    def ask(self) -> Ask:
        """The condition on a call."""
        return Ask(tuple((name, self.predicate) for name in KEYS[self.key].facts), self.is_not)


@dataclass(frozen=True, slots=True)
class Filter:
    """The conditions on the calls to be found; an empty filter finds all.

    Attributes:
        texts: the bytes of a span must hold each of these.
    """

    conditions: tuple[Condition, ...] = ()
    texts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.conditions or self.texts)

    def __str__(self) -> str:
        return " ".join((*map(str, self.conditions), *map(quote_text, self.texts)))

    @property
    def asks_kind(self) -> bool:
        """Whether it names a kind of rows; then it may also ask for rows that are not calls."""
        return any(one.key == "kind" and not one.is_not for one in self.conditions)

    def where(self) -> Where:
        """Say which rows it asks for."""
        rows = Rows.ALL if self.asks_kind else Rows.CALLS
        return Where(asks=tuple(one.ask for one in self.conditions), texts=self.texts, rows=rows)

    def matches(self, summary: SpanSummary) -> bool:
        """Tell whether the conditions hold for a call, whatever the bytes of its span."""
        return all(one.ask.matches(summary) for one in self.conditions)


def parse_filter(words: Sequence[str] | str, *, now_ns: int, zone: tzinfo = UTC) -> Filter:
    """Read a filter.

    Args:
        words: a text, or the arguments of a command line.
        now_ns: what ``since:2h`` counts back from, in nanoseconds since the epoch.
        zone: the time zone for times without one, such as ``since:14:03``.

    Raises:
        FilterError: the text is not a filter; the error has the position.
    """
    text, found = read_words(words)
    conditions: list[Condition] = []
    texts: list[str] = []
    for word in found:
        if word.key:
            conditions.append(_read_condition(word, text, now_ns, zone))
        else:
            texts.append(word.value)
    return Filter(tuple(conditions), tuple(texts))


def _read_condition(word: Word, text: str, now_ns: int, zone: tzinfo) -> Condition:
    """Read a word that has a key.

    Raises:
        FilterError: there is no such key, or it has no such value.
    """
    key = KEYS.get(word.key.lower())
    if key is None:
        raise FilterError(explain_unknown_key(word.key), text, word.start + word.is_not)
    if not word.value:
        raise FilterError(
            f"`{key.name}` has no value; write `{key.example}`", text, word.start + word.is_not
        )
    if word.operator not in {":", "="} and not key.has_order:
        raise FilterError(
            f"`{key.name}` takes `:`, as in `{key.example}`",
            text,
            word.value_start - len(word.operator),
        )
    meant = key
    if key.of_names and word.operator in {":", "="} and not _MAY_BE_NUMBER.match(word.value):
        meant = KEYS[key.of_names]
    try:
        predicate = meant.read(Asked(word.operator, word.value, now_ns, zone))
    except ValueError as error:
        raise FilterError(f"`{key.name}` {error}", text, word.value_start) from None
    return Condition(meant.name, predicate, word.is_not)
