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

__all__ = ("View", "integer", "list_of", "number", "objects", "text")


class View:
    """One JSON object, read by name.

    Args:
        raw: the object as decoded; it must not be changed while it is viewed.
    """

    __slots__ = ("raw",)

    KNOWN: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, raw: JsonObject) -> None:
        self.raw = raw

    @property
    def extra(self) -> JsonObject:
        """The members that have no name here, nulls left out."""
        known = self.KNOWN
        return {k: value for k, value in self.raw.items() if k not in known and value is not None}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View) or type(other) is not type(self):
            return NotImplemented
        return bool(_without_nulls(self.raw) == _without_nulls(other.raw))

    __hash__: ClassVar[None]  # type: ignore[assignment]  # JSON is not hashable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.raw!r})"


def text(value: Any) -> str | None:
    """Return a string, ``None`` for everything else."""
    return value if isinstance(value, str) else None


def integer(value: Any) -> int | None:
    """Return an integer, ``None`` for everything else, ``true`` included."""
    return value if type(value) is int else None


def number(value: Any) -> float | None:
    """Return a number of either form, ``None`` for everything else."""
    return value if type(value) in {int, float} else None


def list_of(value: Any) -> list[Any]:
    """Return a list, an empty one for everything else."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[JsonObject]:
    """Return the objects in a list."""
    return [item for item in list_of(value) if isinstance(item, dict)]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(member) for k, member in value.items() if member is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
