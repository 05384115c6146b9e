"""The keys of the filter language: the name of each, and what it stands for.

Rules:

1. Each key is defined in the rows of the facts that it asks for (:mod:`telemetry.facts`); the
   parser, the SQL, the predicate and the list for people (:func:`describe_keys`) follow from them.
2. A key asks for columns only, never for the bytes of a span (``docs/contract/page.md#filter``).
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from telemetry.fact import Form
from telemetry.facts import FACTS
from telemetry.finding.quantities import Unit
from telemetry.finding.readers import (
    cut,
    read_id,
    read_launch,
    read_listed,
    read_number,
    read_stem,
    read_text,
    read_time_bound,
    read_word,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from telemetry.fact import Fact, FilterKey
    from telemetry.finding.readers import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of the filter language.

    Attributes:
        example: how it is used.
        meaning: what it asks for, in words for people.
        facts: the names of its facts (:mod:`telemetry.facts`); one of them has to fulfil the
            predicate.
        has_order: its values may be compared by ``>`` and ``<``.
        of_names: the key that is meant if the value is a name and not a number.
    """

    name: str
    example: str
    meaning: str
    facts: tuple[str, ...]
    read: Reader
    has_order: bool = False
    of_names: str = ""


_UNITS: Final = {
    Form.COUNT: Unit.COUNT,
    Form.DOLLARS: Unit.USD,
    Form.DURATION: Unit.DURATION,
    Form.FLAG: Unit.FLAG,
}


def _choose_reader(fact: Fact, asked: FilterKey) -> Reader:
    """Choose the reader for the values behind a key of a fact."""
    if asked.bound:
        return read_time_bound(asked.bound)
    if fact.words:
        return read_word(*fact.words)
    if fact.form in _UNITS:
        return read_number(_UNITS[fact.form])
    if fact.form is Form.ID:
        return read_id
    if fact.form is Form.LABEL:
        return read_launch
    if fact.form is Form.ITEMS:
        return read_listed(fact.separators)
    return read_stem(fact.separators) if fact.separators else read_text


def _build_keys(facts: Iterable[Fact]) -> Iterator[Key]:
    """Build the keys of facts, in the order in which people read them."""
    by_name: dict[str, list[tuple[Fact, FilterKey]]] = {}
    for fact in facts:
        for asked in fact.keys:
            by_name.setdefault(asked.name, []).append((fact, asked))
    for name, asking in sorted(by_name.items(), key=lambda one: one[1][0][1].place):
        fact, asked = asking[0]
        yield Key(
            name=name,
            example=asked.example,
            meaning=asked.meaning or fact.meaning,
            facts=tuple(fact.name for fact, _ in asking),
            read=_choose_reader(fact, asked),
            has_order=fact.form.is_number,
            of_names=asked.of_names,
        )


KEYS: Final = {key.name: key for key in _build_keys(FACTS)}
"""Every key by its name, in the order in which people read them."""


_MEANT: Final = {word: key.name for fact in FACTS for key in fact.keys for word in key.also} | {
    "https": ""  # rather an address
}
"""Words that people may use for a key although the two look different, and one that looks like a
key but means none."""


def describe_keys() -> list[tuple[str, str]]:
    """List an example and the meaning of each key."""
    return [(key.example, key.meaning) for key in KEYS.values()]


def explain_unknown_key(name: str) -> str:
    """Suggest a key instead of one that does not exist."""
    meant = _MEANT.get(name.lower())
    if meant is None and (near := get_close_matches(name.lower(), KEYS, n=1)):
        meant = near[0]
    if meant:
        return f"unknown key `{cut(name)}`; did you mean `{meant}`?"
    return f"unknown key `{cut(name)}`; put a text to be searched for in double quotes"
