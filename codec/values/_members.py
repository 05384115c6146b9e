"""Members of JSON objects: those that have a meaning, and all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ("Members", "object_of", "others", "put", "text_of")

Members = Mapping[str, Any]


def text_of(value: Any) -> str | None:
    """Return a string, ``None`` for everything else."""
    return value if isinstance(value, str) else None


def object_of(value: Any) -> dict[str, Any]:
    """Return an object, an empty one for everything else."""
    return value if isinstance(value, dict) else {}


def others(members: Members, *known: str, **read: Any) -> dict[str, Any]:
    """Return the members that were not understood, but for nulls, which say nothing.

    Args:
        members: all of them.
        known: names that were read.
        read: names with what was read of them; where that is ``None``, the member is still other.
    """
    names = {*known, *(name for name, value in read.items() if value is not None)}
    return {k: value for k, value in members.items() if k not in names and value is not None}


def put(members: dict[str, Any], **values: Any) -> dict[str, Any]:
    """Add the values that are not ``None``."""
    return members | {name: value for name, value in values.items() if value is not None}
