"""Changes between two readings of a value."""

from __future__ import annotations

from typing import Any

import pytest

from codec.text.nesting import MAX_DEPTH
from codec.values._changes import MAX_CHANGE_DEPTH, merge_changes

_LATER = [{"a": 3}, {"x": 1}, {"x": 2}]  # what was there moved on, and took along what it had


@pytest.mark.parametrize(
    ("original", "before", "after", "merged"),
    [
        ({"a": 1.0, "x": 9}, {"a": 1}, {"a": 1}, {"a": 1.0, "x": 9}),
        ({"a": 1.0, "x": 9}, {"a": 1}, {"a": 2}, {"a": 2, "x": 9}),
        ({"a": 1, "x": 9}, {"a": 1}, {}, {"x": 9}),
        ({"x": 9}, {}, {"b": None}, {"x": 9, "b": None}),
        ({"u": "bare"}, {"u": {"url": "bare"}}, {"u": {"url": "new"}}, {"u": {"url": "new"}}),
        ({"x": 9}, {"assumed": 1}, {"assumed": 1, "b": 2}, {"x": 9, "b": 2}),
        ([{"x": 1, "a": 1}, 5], [{"a": 1}, 5], [{"a": 2}, 5], [{"x": 1, "a": 2}, 5]),
        ([{"x": 1}, {"x": 2}], [{}, {"a": 1}], [{"a": 3}, {}, {"a": 1}], _LATER),
        ([1, 2, "skipped"], [1, 2], [1, 3], [1, 3]),
        ([1, 2], [1, 2], [2], [2]),
    ],
)
def test_a_change_is_brought_into_the_original(
    original: Any, before: Any, after: Any, merged: Any
) -> None:
    """What the reader does not know stays; what it assumed and nobody changed is not written."""
    assert merge_changes(original, before, after) == merged


def _nested(depth: int, **members: Any) -> dict[str, Any]:
    value = dict(members)
    for _ in range(depth):
        value = {"in": value}
    return value


@pytest.mark.parametrize(("depth", "kept"), [(MAX_CHANGE_DEPTH - 1, 9), (MAX_CHANGE_DEPTH, None)])
def test_changes_are_looked_for_to_a_limit(depth: int, kept: int | None) -> None:
    """``MAX_CHANGE_DEPTH``: below it a change is one of the whole value."""
    merged = merge_changes(_nested(depth, a=1, x=9), _nested(depth, a=1), _nested(depth, a=2))
    for _ in range(depth):
        merged = merged["in"]
    assert (merged["a"], merged.get("x")) == (2, kept)


def test_values_that_are_too_deep_are_refused() -> None:
    """By a limit of ours, whatever the interpreter could compare."""
    most = _nested(MAX_DEPTH - 1, a=1)
    assert merge_changes(most, most, {}) == {}
    for place in range(3):
        values: list[Any] = [{}, {}, {}]
        values[place] = {"": most}
        with pytest.raises(ValueError, match="nested too deeply"):
            merge_changes(*values)
