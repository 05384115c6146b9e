"""Members of JSON objects: reads them with the expected type, or merges those of unknown meaning.

Providers add unknown fields everywhere (``docs/contract/wire.md#unknown-members``). These belong in
the accumulated object of ``docs/contract/spans.md#accumulated-object``, and must not let a stream
take unlimited memory (R5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.budget import CONTAINER_BYTES, MEMBER_BYTES, size_bytes
from codec.text.jsontext import is_too_deep
from codec.text.nesting import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Container

    from codec.budget import Budget
    from codec.text.jsontext import JsonObject

__all__ = (
    "list_of",
    "merge_members",
    "object_of",
    "string_of",
    "text_of",
    "without_empty",
)

_CONTAINERS = (dict, list)


def merge_members(
    into: JsonObject,
    members: JsonObject,
    *,
    skip: Container[str],
    budget: Budget,
    extend_lists: bool,
) -> None:
    """Merge unknown members by the rules of ``docs/contract/spans.md#accumulated-object``.

    A null never replaces anything, objects are merged member by member (an empty one is left out),
    lists of deltas are concatenated, and everything else is replaced by what came last. What nests
    deeper than :data:`~codec.text.nesting.MAX_DEPTH` is left out, as decoding a text leaves it out;
    so comparing and copying never reach the interpreter's own limit.

    Args:
        into: what was merged so far; changed in place, never sharing lists with ``members``.
        members: the newer object.
        skip: names that have a meaning and are handled elsewhere.
        budget: the room for the growth of ``into``; members that do not fit are left out.
        extend_lists: lists are deltas (inside a choice) rather than repeated wholes (top level:
            Perplexity sends the same ``citations`` with every chunk).
    """
    levels = MAX_DEPTH  # brackets that a value may have open here
    within: list[tuple[JsonObject, JsonObject, int]] = []  # objects still to be merged
    while True:
        if not extend_lists:  # what is there already, as most is in most chunks, adds nothing
            get = into.get
            members = {
                key: value
                for key, value in members.items()
                if value is not None and key not in skip and get(key) != value
            }
        for key, value in members.items():
            if value is None or key in skip:
                continue
            old = into.get(key)
            if old is None and type(value) is str:  # as most are
                wide_bytes = 0 if value.isascii() else 3 * len(value)
                if budget.reserve(len(value) + len(key) + MEMBER_BYTES, wide_bytes):
                    into[key] = value
                continue
            if isinstance(value, _CONTAINERS):
                if isinstance(value, dict) and isinstance(old, dict):
                    within.append((old, value, levels - 1))
                elif isinstance(old, list) and extend_lists and isinstance(value, list):
                    size = size_bytes(value)
                    if size > levels * CONTAINER_BYTES and is_too_deep(value, levels):
                        budget.left_out = True
                    elif value and budget.reserve(size):
                        old.extend(value)
                elif value != {}:
                    _put(into, key, value, levels, budget)
                continue
            if old is None:
                growth = size_bytes(value) + len(key) + MEMBER_BYTES
            elif old == value:
                continue
            else:
                growth = size_bytes(value) - size_bytes(old)
            if budget.reserve(growth):
                into[key] = value
        if not within:
            return
        into, members, levels = within.pop()
        skip = ()


def _put(into: JsonObject, key: str, value: Any, levels: int, budget: Budget) -> None:
    """Set a list or an object that replaces another value."""
    old = into.get(key)
    size = size_bytes(value)
    if size > levels * CONTAINER_BYTES and is_too_deep(value, levels):  # most are too small for it
        budget.left_out = True
    elif budget.reserve(size + len(key) + MEMBER_BYTES if old is None else size - size_bytes(old)):
        into[key] = _own(value)


def object_of(value: Any) -> JsonObject:
    """Return an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def string_of(value: Any) -> str | None:
    """Return a string, an empty one as well; else ``None``."""
    return value if isinstance(value, str) else None


def text_of(value: Any) -> str | None:
    """Return a string that is not empty; else ``None``."""
    return value if isinstance(value, str) and value else None


def without_empty(members: JsonObject) -> JsonObject:
    """Leave out null and empty members, if absence and emptiness mean the same."""
    return {key: value for key, value in members.items() if value}


def _own(value: Any) -> Any:
    """Copy what a later merge would change in place; an object's own nulls are left out."""
    if isinstance(value, list):
        return list(value)
    own = {key: member for key, member in value.items() if member is not None}
    pending = [own]
    while pending:
        members = pending.pop()
        for key, member in members.items():
            if isinstance(member, dict):
                members[key] = copy = dict(member)
                pending.append(copy)
            elif isinstance(member, list):
                members[key] = list(member)
    return own
