"""Readers of an exchange, by which the rows of tables get their values.

Each row reads a part of it: the usage, what the request asks for, the exchange itself. A part is
found once, for all rows of all tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

__all__ = ("OfPart", "OfRequest", "Pairs", "Reader", "RowReader")

Pairs = Iterable[tuple[str, object]]
"""Names and values, to be read once; a value is ``None`` where the row does not apply."""


class OfPart:
    """Reads an attribute of a part of an exchange.

    Args:
        find: finds the part, ``None`` where there is none.
        name: of the attribute; with dots, of what an attribute holds.
    """

    __slots__ = ("find", "get")

    def __init__(self, find: Callable[[Exchange], object], name: str) -> None:
        self.find = find
        self.get: Callable[[object], object] = attrgetter(name)


@dataclass(frozen=True, slots=True)
class OfRequest:
    """Reads what the request asks for (:attr:`codec.call.Asked.options`).

    Attributes:
        members: the options that it reads; without any of these there is no value.
        read: the value from all options.
    """

    members: frozenset[str]
    read: Callable[[Mapping[str, Any]], object]


Reader = OfPart | OfRequest
"""The source of a row's value."""


class RowReader:
    """Reads the values of rows off one exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._options = exchange.request.options if exchange.request is not None else {}
        self._parts: dict[Callable[[Exchange], object], object] = {}

    def read(self, reader: Reader) -> object:
        """Read the value of a row; ``None`` where there is none."""
        if isinstance(reader, OfRequest):
            has_some = not reader.members.isdisjoint(self._options)
            return reader.read(self._options) if has_some else None
        find, parts = reader.find, self._parts
        if find not in parts:
            parts[find] = find(self._exchange)
        part = parts[find]
        return None if part is None else reader.get(part)
