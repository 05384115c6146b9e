"""What a filter can ask of a fact: a predicate on its value.

A value that is not known fulfils none. A predicate writes itself as it stands after its key, and
reads as the same.
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
    """Something that a value fulfils or not."""

    def holds(self, value: Any) -> bool:
        """Tell whether a value that is not ``None`` fulfils it."""


class IsKnown(msgspec.Struct, frozen=True):
    """Any value."""

    def holds(self, _value: Any) -> bool:
        """Tell that it is known."""
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
    """A predicate that wants one of some known words.

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
    """A list, joined by a separator, one of whose items is like a pattern.

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
    """An id that begins alike; digits of ours may be typed in capitals."""

    prefix: str

    def __str__(self) -> str:
        return f":{Pattern((self.prefix,))}"

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

    def holds(self, value: str) -> bool:
        """Tell whether the value fulfils it."""
        return value == self.name or value.startswith(self.prefixes)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The name with each of the separators behind it."""
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
