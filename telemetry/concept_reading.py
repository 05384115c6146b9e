"""How the rows of a table are read off an exchange, many in one step.

Rules:

1. What is read, and in which order, is what each row's own reader gives, one after the other; of a
   row that does not apply, the value is ``None`` or the row is absent.
2. Rows that stand side by side and ask the same part of an exchange are read at once. Rows that ask
   for members of the request's JSON are looked at only where one of these members came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telemetry.exchange import Exchange

__all__ = ("OfPart", "OfRequest", "Reader", "Row", "join_rows")

MAX_KNOWN_REQUESTS = 64
"""Sets of members for which it is kept which rows apply: a handful is in use."""

Reader = Callable[["Exchange"], object]
"""The value of a row, ``None`` where it does not apply."""

Row = tuple[str, Reader]
"""A name and how its value is read."""

_Read = Callable[["Exchange"], Iterable[tuple[str, object]]]


@dataclass(frozen=True, slots=True)
class OfPart:
    """Reads an attribute of a part of an exchange.

    Attributes:
        part: finds the part, ``None`` where there is none.
        name: of the attribute.
    """

    part: Reader
    name: str

    def __call__(self, exchange: Exchange) -> object:
        """The value, ``None`` where there is no such part."""
        part = self.part(exchange)
        return getattr(part, self.name) if part is not None else None


@dataclass(frozen=True, slots=True)
class OfRequest:
    """Reads the request's JSON.

    Attributes:
        members: which it looks at; where none of them came there is no value.
        read: the value from the JSON.
    """

    members: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], object]

    def __call__(self, exchange: Exchange) -> object:
        """The value, ``None`` where the request could not be decoded."""
        return self.read(exchange.request.body) if exchange.request is not None else None


def join_rows(rows: Iterable[Row]) -> tuple[_Read, ...]:
    """What reads these rows, in their order (rule 2)."""
    groups = [(kind, [*group]) for kind, group in groupby(rows, key=_kind)]
    return tuple(_join(kind, group) for kind, group in groups)


def _kind(row: Row) -> object:
    """What rows have in common that are read at once."""
    reader = row[1]
    return reader.part if isinstance(reader, OfPart) else type(reader)


def _join(kind: object, rows: Sequence[Row]) -> _Read:
    of_part = [reader for _, reader in rows if isinstance(reader, OfPart)]
    if len(of_part) > 1:
        names = tuple(name for name, _ in rows)
        return _read_part(of_part[0].part, names, [reader.name for reader in of_part])
    if kind is OfRequest:
        return _read_request(rows)
    return lambda exchange: [(name, reader(exchange)) for name, reader in rows]


def _read_part(find: Reader, names: tuple[str, ...], attributes: Sequence[str]) -> _Read:
    take = attrgetter(*attributes)

    def read(exchange: Exchange) -> Iterable[tuple[str, object]]:
        part = find(exchange)
        return zip(names, take(part), strict=True) if part is not None else ()

    return read


def _read_request(rows: Sequence[Row]) -> _Read:
    readers = [(name, reader) for name, reader in rows if isinstance(reader, OfRequest)]
    known = frozenset(member for _, reader in readers for member in reader.members)

    @lru_cache(maxsize=MAX_KNOWN_REQUESTS)
    def choose(came: frozenset[str]) -> Sequence[tuple[str, Callable[..., object]]]:
        return [(name, row.read) for name, row in readers if not came.isdisjoint(row.members)]

    def read(exchange: Exchange) -> Iterable[tuple[str, object]]:
        if exchange.request is None:
            return ()
        body = exchange.request.body
        return [(name, take(body)) for name, take in choose(frozenset(body.keys() & known))]

    return read
