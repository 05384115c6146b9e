"""Changes between two readings of a JSON value."""

from __future__ import annotations

from typing import Any

__all__ = ("common_ends", "is_same", "merge_changes")


def is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same, numbers by their type as well, ``NaN`` included."""
    # Their text tells apart what compares equal (True and 1), and makes NaN equal to itself.
    return type(one) is type(other) and repr(one) == repr(other)


def merge_changes(original: Any, before: Any, after: Any) -> Any:
    """Bring the changes between two readings of a value into the value itself.

    Args:
        original: the value, with all that its reader does not know.
        before: what the reader made of it.
        after: the same, changed.

    Returns:
        The original where nothing changed; none of the arguments is changed.
    """
    if is_same(before, after):
        return original
    if isinstance(original, dict) and isinstance(before, dict) and isinstance(after, dict):
        merged = {
            key: value for key, value in original.items() if key in after or key not in before
        }
        for key, value in after.items():
            known = key in before and key in original
            if known or not (key in before and is_same(before[key], value)):
                merged[key] = merge_changes(original[key], before[key], value) if known else value
        return merged
    if isinstance(original, list) and isinstance(before, list) and isinstance(after, list):
        return _merge_lists(original, before, after)
    return after


def _merge_lists(original: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    if len(original) != len(before):
        return after
    first, last = common_ends(before, after)
    middle = [
        merge_changes(original[i], before[i], after[i]) if i < len(before) - last else after[i]
        for i in range(first, len(after) - last)
    ]
    return original[:first] + middle + original[len(original) - last :]


def common_ends(old: list[Any], new: list[Any]) -> tuple[int, int]:
    """Return how many items are the same at the beginning and, behind these, at the end."""
    most = min(len(old), len(new))
    first = next((i for i in range(most) if not is_same(old[i], new[i])), most)
    most -= first
    last = next((i for i in range(most) if not is_same(old[-1 - i], new[-1 - i])), most)
    return first, last
