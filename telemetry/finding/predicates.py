"""What a filter can ask of a column: each in SQL, and as a predicate on the column's value.

Rules:

1. The predicate and the SQL say the same of every value that is stored. ``NULL`` fulfils none.
2. A predicate writes itself as it stands after its key, and reads as the same.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from telemetry.finding.patterns import Pattern, find_prefix
from telemetry.finding.quantities import Unit, write_quantity
from telemetry.finding.words import quote
from telemetry.launch_labels import build_label, find_range

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.finding.patterns import Where

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}

_NUMBER_MARK = "~~"
"""Between a launch's name and its number (:mod:`telemetry.launch_labels`)."""


_SOME_ITEM = """EXISTS (
WITH RECURSIVE items (item, rest) AS (
    SELECT NULL, {column} || {separator}
    UNION ALL SELECT
        substr(rest, 1, instr(rest, {separator}) - 1), substr(rest, instr(rest, {separator}) + 1)
    FROM items WHERE rest <> ''
)
SELECT 1 FROM items WHERE {condition})"""
"""True where an item of a list, joined by a separator, fulfils a condition."""


class Predicate(Protocol):
    """Something that a column's value fulfils or not."""

    def where(self, column: str) -> Where:
        """Write it in SQL. `column` is an expression; what comes back may hold ``OR``."""

    def holds(self, value: Any) -> bool:
        """Tell whether a value that is not ``None`` fulfils it."""


class Like(msgspec.Struct, frozen=True):
    """A text like a pattern."""

    pattern: Pattern

    def __str__(self) -> str:
        return f":{self.pattern}"

    def where(self, column: str) -> Where:
        """Write it in SQL."""
        return self.pattern.where(column)

    def holds(self, value: str) -> bool:
        """Tell whether the value fulfils it."""
        return self.pattern.matches(value)


class Among(msgspec.Struct, frozen=True):
    """A predicate that wants one of some known words.

    Attributes:
        written: a pattern, or the word, in lower case.
        values: the words as they are stored; at least one.
    """

    written: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f":{self.written}"

    def where(self, column: str) -> Where:
        """Write it in SQL."""
        if len(self.values) == 1:
            return f"{column} = ?", self.values
        return f"{column} IN ({', '.join('?' * len(self.values))})", self.values

    def holds(self, value: str) -> bool:
        """Tell whether the value fulfils it."""
        return value in self.values


class Compares(msgspec.Struct, frozen=True):
    """A quantity that is greater than, less than or equal to another.

    Attributes:
        sign: ``>``, ``>=``, ``<``, ``<=`` or ``=``.
        quantity: in the column's own unit: nanoseconds, dollars, a number.
    """

    sign: str
    quantity: int | float
    unit: Unit

    def __str__(self) -> str:
        # The key alone says whether a time is the first or the last one.
        sign = ":" if self.unit is Unit.TIME or self.sign == "=" else self.sign
        return f"{sign}{write_quantity(self.quantity, self.unit)}"

    def where(self, column: str) -> Where:
        """Write it in SQL."""
        return f"{column} {self.sign} ?", (self.quantity,)

    def holds(self, value: float) -> bool:
        """Tell whether the value fulfils it."""
        return _COMPARE[self.sign](value, self.quantity)


class Listed(msgspec.Struct, frozen=True):
    """A list, joined by a separator, one of whose items is like a pattern.

    Attributes:
        separator: one character, which is in no piece of the pattern.
    """

    pattern: Pattern
    separator: str

    def __str__(self) -> str:
        return f":{self.pattern}"

    def where(self, column: str) -> Where:
        """Write it in SQL."""
        separator = f"char({ord(self.separator)})"
        items = f"{separator} || {column} || {separator}"
        first, *others = self.pattern.pieces
        between = [piece for piece in (first, *others) if piece] if others else [first]
        if len(between) <= 1:
            start = "" if others and not first else self.separator
            end = "" if others and not others[-1] else self.separator
            return f"instr({items}, ?) > 0", (f"{start}{''.join(between)}{end}",)
        # A star in the middle must not reach from one item into another. Only where one that does
        # would be found are the items looked at: that takes ten times as long.
        anywhere, like = Pattern(("", *between, "")).where(column)
        condition, values = self.pattern.where("item")
        some_item = _SOME_ITEM.format(column=column, separator=separator, condition=condition)
        return f"{anywhere} AND {some_item}", (*like, *values)

    def holds(self, value: str) -> bool:
        """Tell whether the value fulfils it."""
        return any(self.pattern.matches(item) for item in value.split(self.separator))


class Begins(msgspec.Struct, frozen=True):
    """An id that begins alike; digits of ours may be typed in capitals."""

    prefix: str

    def __str__(self) -> str:
        return f":{Pattern((self.prefix,))}"

    def where(self, column: str) -> Where:
        """Write it in SQL."""
        condition, values = find_prefix(column, self.prefix)
        if (lower := self.prefix.lower()) == self.prefix:
            return condition, values
        also, more = find_prefix(column, lower)
        return f"{condition} OR {also}", (*values, *more)

    def holds(self, value: str) -> bool:
        """Tell whether the value fulfils it."""
        return value.startswith((self.prefix, self.prefix.lower()))


class Stem(msgspec.Struct, frozen=True):
    """A name, or the beginning of one as far as a separator: ``chat`` is ``chat.completions`` too.

    Attributes:
        separators: the characters that may follow.
    """

    name: str
    separators: str

    def __str__(self) -> str:
        return f":{Pattern((self.name,))}"

    def where(self, column: str) -> Where:
        """Write it in SQL."""
        conditions, values = [f"{column} = ?"], [self.name]
        for prefix in self._prefixes():
            condition, bounds = find_prefix(column, prefix)
            conditions.append(condition)
            values += map(str, bounds)
        return " OR ".join(conditions), tuple(values)

    def holds(self, value: str) -> bool:
        """Tell whether the value fulfils it."""
        return value == self.name or value.startswith(self._prefixes())

    def _prefixes(self) -> tuple[str, ...]:
        return tuple(self.name + separator for separator in self.separators)


class OfLaunch(msgspec.Struct, frozen=True):
    """The label of a launch of some name (:mod:`telemetry.launch_labels`).

    Attributes:
        name: of the launch, or its beginning.
        number: of one launch; empty for all that have the name.
        is_prefix: the name goes on.
    """

    name: str
    number: str = ""
    is_prefix: bool = False

    def __str__(self) -> str:
        if self.number:
            return f":{quote(build_label(self.name, self.number))}"
        return f":{Pattern((self.name, '') if self.is_prefix else (self.name,))}"

    def where(self, column: str) -> Where:
        """Write it in SQL."""
        if self.number:
            return f"{column} = ?", (build_label(self.name, self.number),)
        label = build_label(self.name)
        if self.is_prefix:
            return find_prefix(column, label)
        # By the index, from the label without a number to the end of those that have one, and
        # none of those that merely begin alike.
        first, end = find_range(self.name)
        return (
            f"{column} >= ? AND {column} < ? AND ({column} = ? OR {column} >= ?)",
            (label, end, label, first),
        )

    def holds(self, value: str) -> bool:
        """Tell whether the value fulfils it."""
        if self.number:
            return value == build_label(self.name, self.number)
        label = build_label(self.name)
        return (
            value.startswith(label)
            if self.is_prefix
            else (value.partition(_NUMBER_MARK)[0] == label)
        )
