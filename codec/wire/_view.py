"""Typed views over decoded JSON: nothing is copied, nothing is rejected.

See ``docs/contract/sources.md#s2-1``, ``docs/contract/wire.md#unknown-members`` and
``docs/contract/wire.md#absent-null-empty``. A member of the wrong type reads as ``None``; ``raw``
keeps it. Members without a name here are in ``extra``. Null and absence are equal, everywhere in
the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from codec.members import list_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.text.jsontext import JsonObject

__all__ = ("Member", "View", "number_of", "view_of", "views_of")

_Value_co = TypeVar("_Value_co", covariant=True)


class View:
    """A JSON object, read by name.

    Args:
        raw: the object as decoded; it must not be changed while it is viewed.
    """

    __slots__ = ("_raw",)

    KNOWN: ClassVar[frozenset[str]] = frozenset()
    """The names of the members that are read."""

    def __init_subclass__(cls, *, also: tuple[str, ...] = ()) -> None:
        """Collect the names of the members: of attributes that read them, and of `also`."""
        read = {name for name, value in vars(cls).items() if isinstance(value, Member | property)}
        cls.KNOWN = frozenset(read.union(also))

    def __init__(self, raw: JsonObject) -> None:
        self._raw = raw

    @property
    def raw(self) -> JsonObject:
        """The object as decoded."""
        return self._raw

    @property
    def extra(self) -> JsonObject:
        """The members that have no name here, without nulls."""
        known = self.KNOWN
        return {k: value for k, value in self._raw.items() if k not in known and value is not None}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View) or type(other) is not type(self):
            return NotImplemented
        return _are_equal(self._raw, other.raw)

    __hash__: ClassVar[None]  # type: ignore[assignment]  # JSON is not hashable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.raw!r})"


class Member(Generic[_Value_co]):
    """A member of an object, with the name of the attribute.

    Args:
        read: makes the attribute's value of any JSON value.
        doc: what the member says.
    """

    def __init__(self, read: Callable[[Any], _Value_co], doc: str) -> None:
        self._read = read
        self.__doc__ = doc

    def __set_name__(self, _: type[View], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, view: None, _: type[View]) -> Member[_Value_co]: ...
    @overload
    def __get__(self, view: View, _: type[View]) -> _Value_co: ...
    def __get__(self, view: View | None, _: type[View]) -> Member[_Value_co] | _Value_co:
        return self if view is None else self._read(view.raw.get(self._name))


_View = TypeVar("_View", bound=View)


def number_of(value: Any) -> float | None:
    """Return a number of either JSON form; ``None`` for everything else."""
    return value if type(value) in {int, float} else None


def view_of(kind: type[_View]) -> Callable[[Any], _View | None]:
    """Return a function that makes a view of an object; it returns ``None`` for everything else."""
    return lambda value: kind(value) if isinstance(value, dict) else None


def views_of(kind: type[_View]) -> Callable[[Any], tuple[_View, ...]]:
    """Return a function that makes views of the objects in a list; other values have none."""
    return lambda value: tuple(kind(item) for item in list_of(value) if isinstance(item, dict))


def _are_equal(one: JsonObject, other: JsonObject) -> bool:
    """Compare objects: null equals absence, and numbers must have the same type.

    This does not recurse, because JSON may be deep.
    """
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
