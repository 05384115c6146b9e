"""Predicates: what a filter can ask of the value of a fact.

An unknown value fulfils no predicate. A predicate can be written as it stands after its key; the
parser then reads the same predicate again.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from telemetry.finding.patterns import Pattern
from telemetry.finding.quantities import Unit, write_quantity
from telemetry.finding.words import quote
from telemetry.launch_labels import build_label

if TYPE_CHECKING:
    from collections.abc import Callable

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}

_NUMBER_MARK = "~~"
"""Between a launch's name and its number (:mod:`telemetry.launch_labels`)."""


class Predicate(Protocol):
    """A condition that a value fulfils or not."""

    def holds(self, value: Any) -> bool:
        """Tell whether a value, which is not ``None``, fulfils it."""


class IsKnown(msgspec.Struct, frozen=True):
    """Any value."""

    def holds(self, _value: Any) -> bool:
        """Return true: the value is known."""
        return True


class Like(msgspec.Struct, frozen=True):
    """A text like a pattern."""

    pattern: Pattern

    def __str__(self) -> str:
        return f":{self.pattern}"

    def holds(self, value: str) -> bool:
        """Tell whether the value fulfils it."""
        return self.pattern.matches(value)


class Among(msgspec.Struct, frozen=True):
    """A predicate that a value fulfils if it is one of some known words.

    Attributes:
        written: a pattern, or the word, in lower case.
        values: the words as they are stored; at least one.
    """

    written: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f":{self.written}"

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

    def holds(self, value: float) -> bool:
        """Tell whether the value fulfils it."""
        return _COMPARE[self.sign](value, self.quantity)


class Listed(msgspec.Struct, frozen=True):
    """A list, joined by a separator; one of its items must be like the pattern.

    Attributes:
        separator: one character, which is in no piece of the pattern.
    """

    pattern: Pattern
    separator: str

    def __str__(self) -> str:
        return f":{self.pattern}"

    def holds(self, value: str) -> bool:
        """Tell whether the value fulfils it."""
        return any(self.pattern.matches(item) for item in value.split(self.separator))


class Begins(msgspec.Struct, frozen=True):
    """The beginning of an id; the digits of our ids may be typed in capitals."""

    prefix: str

    def __str__(self) -> str:
        return f":{Pattern((self.prefix,))}"

    def holds(self, value: str) -> bool:
        """Tell whether the value fulfils it."""
        return value.startswith((self.prefix, self.prefix.lower()))


class Stem(msgspec.Struct, frozen=True):
    """A name, or its beginning up to a separator: ``chat`` also means ``chat.completions``.

    Attributes:
        separators: the characters that may follow.
    """

    name: str
    separators: str

    def __str__(self) -> str:
        return f":{Pattern((self.name,))}"

    def holds(self, value: str) -> bool:
        """Tell whether the value fulfils it."""
        return value == self.name or value.startswith(self.prefixes)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The name, followed by each of the separators."""
        return tuple(self.name + separator for separator in self.separators)


class OfLaunch(msgspec.Struct, frozen=True):
    """The label of a launch, by the name of the launch (:mod:`telemetry.launch_labels`).

    Attributes:
        name: the name of the launch, or its beginning.
        number: the number of one launch; empty for all that have the name.
        is_prefix: the name is only a beginning.
    """

    name: str
    number: str = ""
    is_prefix: bool = False

    def __str__(self) -> str:
        if self.number:
            return f":{quote(build_label(self.name, self.number))}"
        return f":{Pattern((self.name, '') if self.is_prefix else (self.name,))}"

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
