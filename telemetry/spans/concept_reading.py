"""How the rows of tables are read off an exchange.

Each row reads a part of it: the usage, what the request asks for, the exchange itself. A part is
found once, for all rows of all tables, and its attributes are read in one call: there are sixty
rows, and every call has its span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

__all__ = ("OfPart", "OfRequest", "Pairs", "Reader", "Row", "join_tables")

Find = Callable[["Exchange"], object]
"""Finds a part of an exchange, ``None`` where there is none."""

Pairs = Iterable[tuple[str, object]]
"""Names and values, to be read once; a value is ``None`` where the row does not apply."""


@dataclass(frozen=True, slots=True)
class OfPart:
    """Reads an attribute of a part of an exchange.

    Attributes:
        find: finds the part.
        name: of the attribute; with dots, of what an attribute holds.
    """

    find: Find
    name: str


@dataclass(frozen=True, slots=True)
class OfRequest:
    """Reads what the request asks for (:attr:`codec.call.Asked.options`).

    Attributes:
        members: the options that it reads; without any of these there is no value.
        read: the value from all options.
    """

    members: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], object]


Reader = OfPart | OfRequest
"""The source of a row's value."""

Row = tuple[str, Reader]
"""A name and where its value comes from."""


def join_tables(tables: Sequence[Sequence[Row]]) -> Callable[[Exchange], list[Pairs]]:
    """Make what reads the rows of each of these tables, in their order.

    All values are gathered in one list, first those of the request, then part by part; each table
    picks its own of them.
    """
    of_request: list[OfRequest] = []
    of_parts: dict[Find, list[OfPart]] = {}
    for reader in dict.fromkeys(reader for table in tables for _, reader in table):
        if isinstance(reader, OfRequest):
            of_request.append(reader)
        else:
            of_parts.setdefault(reader.find, []).append(reader)
    places = {reader: i for i, reader in enumerate(chain(of_request, *of_parts.values()))}
    options_by_name = {
        member: (places[reader], reader.read) for reader in of_request for member in reader.members
    }
    parts = [(find, _get_all(readers), len(readers)) for find, readers in of_parts.items()]
    orders = [
        ([name for name, _ in table], itemgetter(*[places[reader] for _, reader in table]))
        for table in tables
    ]

    def read(exchange: Exchange) -> list[Pairs]:
        values: list[object] = [None] * len(of_request)
        options = exchange.request.options if exchange.request is not None else {}
        for member in options.keys() & options_by_name.keys():
            place, read_option = options_by_name[member]
            values[place] = read_option(options)
        for find, get_all, count in parts:
            part = find(exchange)
            values += get_all(part) if part is not None else [None] * count
        return [zip(names, pick(values), strict=True) for names, pick in orders]

    return read


def _get_all(readers: Sequence[OfPart]) -> Callable[[object], tuple[object, ...]]:
    """Make what reads all these attributes of a part, in one call where there are several."""
    get = attrgetter(*[reader.name for reader in readers])
    return get if len(readers) > 1 else lambda part: (get(part),)
