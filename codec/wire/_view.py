"""Typed views over decoded JSON: nothing is copied, nothing is rejected.

Rules (``seeds.md`` S2.1, ``dialects.md`` section 1, rules 8 and 9):

1. A member of another type than it should have reads as ``None``; ``raw`` keeps it.
2. Null and absence are equal, everywhere in the value.
3. Members without a name here are in ``extra``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from codec.jsontext import JsonObject

__all__ = ("View", "list_of", "number", "objects", "text")


class View:
    """One JSON object, read by name.

    Args:
        raw: the object as decoded; it must not be changed while it is viewed.
    """

    __slots__ = ("_raw",)

    KNOWN: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, raw: JsonObject) -> None:
        self._raw = raw

    @property
    def raw(self) -> JsonObject:
        """The object as decoded."""
        return self._raw

    @property
    def extra(self) -> JsonObject:
        """The members that have no name here, nulls left out."""
        known = self.KNOWN
        return {k: value for k, value in self._raw.items() if k not in known and value is not None}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View) or type(other) is not type(self):
            return NotImplemented
        return _are_equal(self._raw, other.raw)

    __hash__: ClassVar[None]  # type: ignore[assignment]  # JSON is not hashable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.raw!r})"


def text(value: Any) -> str | None:
    """Return a string, ``None`` for everything else."""
    return value if isinstance(value, str) else None


def number(value: Any) -> float | None:
    """Return a number of either form, ``None`` for everything else."""
    return value if type(value) in {int, float} else None


def list_of(value: Any) -> list[Any]:
    """Return a list, an empty one for everything else."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[JsonObject]:
    """Return the objects in a list."""
    return [item for item in list_of(value) if isinstance(item, dict)]


def _are_equal(one: JsonObject, other: JsonObject) -> bool:
    """Compare by rule 2, numbers by their type as well; no recursion, JSON may be deep."""
    pending: list[tuple[Any, Any]] = [(one, other)]
    while pending:
        left, right = pending.pop()
        if type(left) is not type(right):
            return False
        if isinstance(left, dict):
            names = {name for name, value in left.items() if value is not None}
            if names != {name for name, value in right.items() if value is not None}:
                return False
            pending += [(left[name], right[name]) for name in names]
        elif isinstance(left, list):
            if len(left) != len(right):
                return False
            pending += zip(left, right, strict=True)
        elif repr(left) != repr(right):  # NaN is the same as itself
            return False
    return True
