"""How the rows of tables are read off an exchange.

Each row reads a part of it: the usage, the request's JSON, the exchange itself. A part is found
once, for all rows of all tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

__all__ = ("OfPart", "OfRequest", "Pairs", "Reader", "Row", "join_tables")

Reader = Callable[["Exchange"], object]
"""The value of a row, ``None`` where it does not apply."""

Row = tuple[str, Reader]
"""A name and how its value is read."""

Pairs = Iterable[tuple[str, object]]
"""Names and values."""


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
        read: the value from these.
    """

    read: Callable[[Mapping[str, Any]], object]

    def __call__(self, exchange: Exchange) -> object:
        """The value, ``None`` where the request could not be decoded."""
        options = _request_options(exchange)
        return self.read(options) if options is not None else None


def join_tables(tables: Iterable[Iterable[Row]]) -> Callable[[Exchange], list[Pairs]]:
    """Make what reads the rows of each of these tables, in their order."""
    taken_apart = [[(name, *_take_apart(reader)) for name, reader in table] for table in tables]
    finders = {find for rows in taken_apart for _, find, _ in rows}

    def read(exchange: Exchange) -> list[Pairs]:
        parts = {find: find(exchange) for find in finders}
        return [
            [(name, get(part)) for name, find, get in rows if (part := parts[find]) is not None]
            for rows in taken_apart
        ]

    return read


def _take_apart(reader: Reader) -> tuple[Reader, Callable[[Any], object]]:
    """The part of an exchange that a row reads, and what it reads there."""
    if isinstance(reader, OfPart):
        return reader.part, attrgetter(reader.name)
    if isinstance(reader, OfRequest):
        return _request_options, reader.read
    return lambda exchange: exchange, reader


def _request_options(exchange: Exchange) -> Mapping[str, Any] | None:
    return exchange.request.options if exchange.request is not None else None
