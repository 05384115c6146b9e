"""Readers of an exchange: they find the values for the rows of tables.

Each row reads a part of the exchange: the usage, the options of the request, or the exchange
itself. Each part is found once, for all rows of all tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

Pairs = Iterable[tuple[str, object]]
"""Names and values, to be read once; a value is ``None`` if the row does not apply."""


class OfPart:
    """Reads an attribute of a part of an exchange.

    Args:
        find: finds the part, ``None`` if there is none.
        name: the name of the attribute; with dots, of an attribute of an attribute.
    """

    __slots__ = ("find", "name")

    def __init__(self, find: Callable[[Exchange], object], name: str) -> None:
        self.find = find
        self.name = name


@dataclass(frozen=True, slots=True)
class OfRequest:
    """Reads the options of the request (:attr:`codec.asked.Asked.options`).

    Attributes:
        members: the options that it reads; if none is there, there is no value.
        read: returns the value, from all options.
    """

    members: frozenset[str]
    read: Callable[[Mapping[str, Any]], object]


Reader = OfPart | OfRequest
"""The source of a row's value."""


class RowReader:
    """Reads the values of all rows of a table from an exchange.

    All rows of a part are read at once: a step for each of fifty rows would take longer, by a
    twentieth of what a plain chat costs telemetry.

    Args:
        readers: of the rows, in their order.
    """

    def __init__(self, readers: Sequence[Reader]) -> None:
        of_parts: dict[Callable[[Exchange], object], list[tuple[int, str]]] = {}
        for position, reader in enumerate(readers):
            if isinstance(reader, OfPart):
                of_parts.setdefault(reader.find, []).append((position, reader.name))
        options = [(n, one) for n, one in enumerate(readers) if isinstance(one, OfRequest)]
        self._parts = [
            (find, _read_all([name for _, name in rows]), (None,) * len(rows))
            for find, rows in of_parts.items()
        ]
        self._options = [one for _, one in options]
        self._no_options = (None,) * len(options)
        self._of_member = {
            member: [at for at, one in enumerate(self._options) if member in one.members]
            for member in frozenset[str]().union(*(one.members for one in self._options))
        }
        read_as = [*(n for rows in of_parts.values() for n, _ in rows), *(n for n, _ in options)]
        self._in_order: Callable[[list[object]], tuple[object, ...]] = itemgetter(
            *map(read_as.index, range(len(readers)))
        )

    def read(self, exchange: Exchange) -> tuple[object, ...]:
        """Read the value of each row, in their order; ``None`` if there is none."""
        values: list[object] = []
        for find, get_all, nothing in self._parts:
            part = find(exchange)
            values += nothing if part is None else get_all(part)
        options = exchange.request.options if exchange.request is not None else {}
        said = self._of_member.keys() & options.keys()
        asked: list[object] = [*self._no_options]
        for member in said:  # an option of two members is read twice: hardly any request has both
            for at in self._of_member[member]:
                asked[at] = self._options[at].read(options)
        values += asked
        return self._in_order(values)


def _read_all(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    """Make a function that reads all these attributes of a part."""
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda part: (get(part),)
