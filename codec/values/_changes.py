"""Changes between two readings of a JSON value."""

from __future__ import annotations

from typing import Any

from codec.text.jsontext import is_too_deep

__all__ = ("MAX_CHANGE_DEPTH", "common_ends", "is_same", "merge_changes")

MAX_CHANGE_DEPTH = 200
"""How deep changes are searched for; a change below that replaces the whole value there. Requests
and answers nest less than ten deep, except for the JSON Schemas and examples in them."""


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are the same, including the types of numbers, and ``NaN``."""
    # Their text distinguishes values that compare equal (True and 1), and equates NaN with itself.
    return type(one) is type(other) and repr(one) == repr(other)


def merge_changes(original: Any, before: Any, after: Any) -> Any:
    """Apply the changes between two readings of a value to the value itself.

    Args:
        original: the value, with all that its reader does not know.
        before: what the reader made of it.
        after: the changed reading.

    Raises:
        ValueError: a value is nested too deeply, or holds an integer too long to be written.
    """
    if any(map(is_too_deep, (original, before, after))):
        raise ValueError("JSON nested too deeply")
    return _merge(original, before, after, MAX_CHANGE_DEPTH)


def _merge(original: Any, before: Any, after: Any, depth: int) -> Any:
    if is_same(before, after):
        return original
    values = (original, before, after)
    if depth and all(isinstance(value, dict) for value in values):
        return _merge_objects(original, before, after, depth - 1)
    if depth and all(isinstance(value, list) for value in values):
        return _merge_lists(original, before, after, depth - 1)
    return after


def _merge_objects(
    original: dict[str, Any], before: dict[str, Any], after: dict[str, Any], depth: int
) -> dict[str, Any]:
    merged = {key: value for key, value in original.items() if key in after or key not in before}
    for key, value in after.items():
        if key in before and key in original:
            merged[key] = _merge(original[key], before[key], value, depth)
        elif not (key in before and is_same(before[key], value)):
            merged[key] = value
    return merged


def _merge_lists(original: list[Any], before: list[Any], after: list[Any], depth: int) -> list[Any]:
    if len(original) != len(before):
        return after
    first, last = common_ends(before, after)
    middle = after[first : len(after) - last]
    for i in range(first, min(len(before), len(after)) - last):
        middle[i - first] = _merge(original[i], before[i], after[i], depth)
    return original[:first] + middle + original[len(original) - last :]


def common_ends(old: list[Any], new: list[Any]) -> tuple[int, int]:
    """Return how many items are the same at the beginning and, behind these, at the end."""
    most = min(len(old), len(new))
    first = next((i for i in range(most) if not is_same(old[i], new[i])), most)
    most -= first
    last = next((i for i in range(most) if not is_same(old[-1 - i], new[-1 - i])), most)
    return first, last
