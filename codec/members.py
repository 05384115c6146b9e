"""Members of JSON objects that have no meaning here: kept, merged and weighed.

Providers add fields of their own everywhere (``dialects.md`` section 1, rule 8). They belong into
the accumulated object of ``span-contract.md`` 1.5, and they must not be the hole through which a
stream takes unlimited memory (R5).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Container

    from codec.jsontext import JsonObject

__all__ = ("FRAGMENT_BYTES", "Budget", "compact_text", "merge_members", "without_empty")

FRAGMENT_BYTES = 64
"""What a short string and its place in a list cost CPython besides its characters."""

_CONTAINERS = (dict, list)

_encode = msgspec.json.encode


class Budget:
    """How much more may be kept. Once something did not fit, nothing fits any more.

    Attributes:
        left_bytes: what is left, an estimate of memory rather than of bytes on the wire.
        exceeded: something did not fit.
    """

    __slots__ = ("exceeded", "left_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.left_bytes = limit_bytes
        self.exceeded = False

    def take(self, size_bytes: int) -> bool:
        """Set ``size_bytes`` aside (negative: give back), or say that they do not fit."""
        if self.exceeded or size_bytes > self.left_bytes:
            self.exceeded = True
            return False
        self.left_bytes -= size_bytes
        return True


def compact_text(value: Any) -> str:
    """Dump a JSON value without white space, whatever it holds.

    What the fast encoder refuses (lone surrogates, big integers) the standard one writes;
    what neither can write (nested too deeply, thousands of digits) is only named.
    """
    try:
        return _encode(value).decode()
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        pass
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError) as error:
        return f"[{type(error).__name__}]"


def merge_members(
    into: JsonObject,
    members: JsonObject,
    *,
    skip: Container[str],
    budget: Budget,
    extend_lists: bool,
) -> None:
    """Merge unknown members by the rules of ``span-contract.md`` 1.5.

    A null never replaces anything, objects are merged member by member (an empty one is left out),
    lists of deltas are concatenated, and everything else is replaced by what came last.

    Args:
        into: what was merged so far; changed in place, never sharing lists with ``members``.
        members: the newer object.
        skip: names that have a meaning and are handled elsewhere.
        budget: what the growth of ``into`` is taken from; what does not fit is left out.
        extend_lists: lists are deltas (inside a choice) rather than repeated wholes (top level:
            Perplexity sends the same ``citations`` with every chunk).
    """
    for key, value in members.items():
        if value is None or key in skip:
            continue
        old = into.get(key)
        if isinstance(value, _CONTAINERS):
            if isinstance(value, list) and extend_lists and isinstance(old, list):
                if value and budget.take(_size_bytes(value)):
                    old.extend(value)
                continue
            if isinstance(value, dict) and isinstance(old, dict):
                merge_members(old, value, skip=(), budget=budget, extend_lists=extend_lists)
                continue
            if value == {}:
                continue
        if old == value:
            continue
        new_key_bytes = len(key) + FRAGMENT_BYTES if old is None else 0
        if budget.take(_size_bytes(value) - _size_bytes(old) + new_key_bytes):
            into[key] = _own(value)


def without_empty(members: JsonObject) -> JsonObject:
    """Leave out what is null or empty, for members whose absence and emptiness mean the same."""
    return {key: value for key, value in members.items() if value}


def _own(value: Any) -> Any:
    """Copy what a later merge would change in place; of an object's own members nulls go."""
    if isinstance(value, dict):
        return {key: _copy(member) for key, member in value.items() if member is not None}
    return _copy(value)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(member) for key, member in value.items()}
    return list(value) if isinstance(value, list) else value


def _size_bytes(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, _CONTAINERS):
        return len(compact_text(value))
    return 0  # numbers are covered by what their key cost
