"""Members of JSON objects: those that have a meaning, and all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ("Members", "insert_at", "others", "put", "without_nulls")

Members = Mapping[str, Any]

_MAX_DEPTH = 50
"""How deep nulls are searched for. Members that providers add nest less than ten deep."""


def others(members: Members, *known: str, **read: Any) -> dict[str, Any]:
    """Return the members that were not understood, without nulls, which say nothing.

    Args:
        members: all members.
        known: names that were read.
        read: names with the values that were read; if a value is ``None``, the member counts as
            not understood.
    """
    names = {*known, *(name for name, value in read.items() if value is not None)}
    return {k: value for k, value in members.items() if k not in names and value is not None}


def put(members: dict[str, Any], **values: Any) -> dict[str, Any]:
    """Add the values that are not ``None``."""
    return members | {name: value for name, value in values.items() if value is not None}


def without_nulls(members: Members, depth: int = _MAX_DEPTH) -> dict[str, Any]:
    """Leave out nulls and empty objects, also within objects; lists stay as they are.

    They say nothing in an answer, and folded chunks may have them or not
    (``docs/contract/spans.md#accumulated-object``).
    """
    kept: dict[str, Any] = {}
    for name, value in members.items():
        said = without_nulls(value, depth - 1) if depth and isinstance(value, dict) else value
        if said is not None and said != {}:
            kept[name] = said
    return kept


def insert_at(entries: list[Any], rest: Mapping[int, Any]) -> list[Any]:
    """Return a list with more entries in it, each at its place in the whole list."""
    whole = list(entries)
    for place, entry in rest.items():
        whole.insert(place, entry)
    return whole
