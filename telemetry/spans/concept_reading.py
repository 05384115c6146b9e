"""How the rows of tables are read off an exchange, all in one step.

Rules:

1. What is read, and in which order, is what each row's own reader gives, one after the other; of a
   row that does not apply, the value is ``None`` or the row is absent.
2. A part of an exchange is found once, for all rows of all tables that ask it, and so is a value
   that two tables tell. Rows that ask for members of the request's JSON are looked at only where
   one of these members came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

__all__ = ("OfPart", "OfRequest", "Pairs", "Reader", "Row", "join_tables")

MAX_KNOWN_REQUESTS = 64
"""Sets of members for which it is kept which rows apply: a handful is in use."""

Reader = Callable[["Exchange"], object]
"""The value of a row, ``None`` where it does not apply."""

Row = tuple[str, Reader]
"""A name and how its value is read."""

Pairs = Iterable[tuple[str, object]]
"""Names and values."""

_Values = list[object]

_NONE: Final = (None,)


@dataclass(frozen=True, slots=True)
class OfPart:
    """Reads an attribute of a part of an exchange.

    Attributes:
        part: finds the part, ``None`` where there is none.
        name: of the attribute; with dots, of what an attribute holds.
    """

    part: Reader
    name: str

    def __call__(self, exchange: Exchange) -> object:
        """The value, ``None`` where there is no such part."""
        part = self.part(exchange)
        return attrgetter(self.name)(part) if part is not None else None


@dataclass(frozen=True, slots=True)
class OfRequest:
    """Reads what the request asks for (:attr:`codec.call.Asked.options`).

    Attributes:
        members: which it looks at; where none of them came there is no value.
        read: the value from these.
    """

    members: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], object]

    def __call__(self, exchange: Exchange) -> object:
        """The value, ``None`` where the request could not be decoded."""
        return self.read(exchange.request.options) if exchange.request is not None else None


def join_tables(tables: Iterable[Iterable[Row]]) -> Callable[[Exchange], list[Pairs]]:
    """What reads the rows of each of these tables, in their order (rule 2)."""
    rows = [[*table] for table in tables]
    readers = [reader for _, reader in chain(*rows)]
    of_parts = dict.fromkeys(reader for reader in readers if isinstance(reader, OfPart))
    parts: dict[Reader, list[OfPart]] = {}
    for reader in of_parts:
        parts.setdefault(reader.part, []).append(reader)
    others = [*dict.fromkeys(r for r in readers if not isinstance(r, (OfPart, OfRequest)))]
    finders = [
        (find, _takes(attrgetter, [one.name for one in asked]), _NONE * len(asked))
        for find, asked in parts.items()
    ]
    order: list[Reader] = [*chain(*parts.values()), *others]
    positions = {reader: position for position, reader in enumerate(order)}
    joined = [_join(table, positions) for table in rows]

    def read(exchange: Exchange) -> list[Pairs]:
        values: _Values = []
        for find, take, nothing in finders:
            part = find(exchange)
            values += nothing if part is None else take(part)
        values += [reader(exchange) for reader in others]
        return [table(exchange, values) for table in joined]

    return read


def _join(rows: Sequence[Row], positions: Mapping[Reader, int]) -> Callable[..., Pairs]:
    """What makes the pairs of a table, from an exchange and the values at these positions."""
    runs = [
        _from_request(run) if of_request else _from_values(run, positions)
        for of_request, run in (
            (of_request, [*group])
            for of_request, group in groupby(rows, key=lambda row: isinstance(row[1], OfRequest))
        )
    ]
    if len(runs) == 1:
        return runs[0]
    return lambda exchange, values: chain.from_iterable([run(exchange, values) for run in runs])


def _from_values(rows: Sequence[Row], positions: Mapping[Reader, int]) -> Callable[..., Pairs]:
    names = [name for name, _ in rows]
    take = _takes(itemgetter, [positions[reader] for _, reader in rows])
    return lambda _, values: zip(names, take(values), strict=True)


def _from_request(rows: Sequence[Row]) -> Callable[..., Pairs]:
    readers = [(name, reader) for name, reader in rows if isinstance(reader, OfRequest)]
    known = frozenset(member for _, reader in readers for member in reader.members)

    @lru_cache(maxsize=MAX_KNOWN_REQUESTS)
    def choose(came: frozenset[str]) -> Sequence[tuple[str, Callable[..., object]]]:
        return [(name, row.read) for name, row in readers if not came.isdisjoint(row.members)]

    def read(exchange: Exchange, _: _Values) -> Pairs:
        if exchange.request is None:
            return ()
        asked = exchange.request.options
        return [(name, take(asked)) for name, take in choose(frozenset(asked.keys() & known))]

    return read


def _takes(getter: Callable[..., Any], keys: Sequence[object]) -> Callable[[Any], tuple[Any, ...]]:
    """What takes all of these at once: a getter of one alone gives no tuple."""
    if len(keys) == 1:
        take = getter(keys[0])
        return lambda held: (take(held),)
    all_of_them: Callable[[Any], tuple[Any, ...]] = getter(*keys)
    return all_of_them
