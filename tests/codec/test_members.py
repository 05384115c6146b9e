from __future__ import annotations

import inspect
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.budget import MEMBER_BYTES, Budget, size_bytes
from codec.members import merge_members, without_empty
from codec.text.nesting import MAX_DEPTH
from tests.codec.test_error_objects import json_values


def merged(*objects: dict[str, Any], extend_lists: bool = True, room: int = 10**6) -> Any:
    """Merge objects into an empty one."""
    into: dict[str, Any] = {}
    budget = Budget(room)
    for members in objects:
        merge_members(into, members, skip={"skipped"}, budget=budget, extend_lists=extend_lists)
    return into


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([{"a": 1}, {"a": 2}], {"a": 2}),
        ([{"a": 1}, {"a": None}], {"a": 1}),
        ([{"a": "x"}, {"a": ""}], {"a": ""}),
        ([{"a": None, "skipped": 1}], {}),
        ([{"a": [1]}, {"a": [2]}, {"a": []}], {"a": [1, 2]}),
        ([{"a": [1]}, {"a": [1]}], {"a": [1, 1]}),
        ([{"a": {"b": 1, "c": None}}, {"a": {"c": 2}}], {"a": {"b": 1, "c": 2}}),
        ([{"a": {"b": {"c": None}}}], {"a": {"b": {"c": None}}}),
        ([{"a": {}}], {}),
        ([{"a": {"b": [1]}}, {"a": {"b": [2]}}], {"a": {"b": [1, 2]}}),
        ([{"a": {"b": 1}}, {"a": 3}], {"a": 3}),
        ([{"a": 3}, {"a": [1]}], {"a": [1]}),
        ([{"a": False}, {"b": 0}], {"a": False, "b": 0}),
    ],
)
def test_unknown_members_merge_as_in_the_instrumentor(
    objects: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    """The last non-null wins, objects merge, lists of deltas join.

    See ``docs/contract/spans.md#accumulated-object``.
    """
    assert merged(*objects) == expected


def test_lists_of_the_top_level_are_replaced() -> None:
    """Perplexity repeats its citations with every chunk: they are not deltas."""
    chunks = [{"citations": ["a"]}, {"citations": ["a"]}, {"citations": ["a", "b"]}]
    assert merged(*chunks, extend_lists=False) == {"citations": ["a", "b"]}


def test_the_chunks_are_not_changed() -> None:
    """Merging copies what it changes later."""
    first = {"list": [1], "object": {"list": [1], "inner": {"list": [1]}}}
    before = json.dumps(first)
    merged(first, {"list": [2], "object": {"list": [2], "inner": {"list": [2]}}})
    assert json.dumps(first) == before


def test_growth_is_taken_from_the_budget() -> None:
    """Lists that grow, keys that are new and text that gets longer count; repetitions do not."""
    into: dict[str, Any] = {}
    budget = Budget(10_000)

    def cost(members: dict[str, Any]) -> int:
        before = budget.left_bytes
        merge_members(into, members, skip=(), budget=budget, extend_lists=True)
        return before - budget.left_bytes

    assert cost({"k": "x" * 100}) == 100 + 1 + MEMBER_BYTES
    assert cost({"k": "x" * 100}) == 0
    assert cost({"k": "x" * 150}) == 50
    assert cost({"k": "x" * 10}) == -140
    assert cost({"l": [1, 2]}) == size_bytes([1, 2]) + 1 + MEMBER_BYTES
    assert cost({"l": [1, 2]}) == size_bytes([1, 2])
    assert cost({"n": 5}) == 1 + MEMBER_BYTES
    assert cost({"n": 6}) == 0


def test_what_does_not_fit_is_left_out_for_good() -> None:
    """Once something did not fit, nothing grows; what is replaced by no more is still taken."""
    assert merged({"a": "x" * 500}, {"b": 1}, room=400) == {}
    assert merged({"a": [1]}, {"a": ["x" * 500]}, {"a": [2]}, room=400) == {"a": [1]}
    assert merged({"a": 1}, {"b": "x" * 500}, {"a": 2, "c": 3}, room=400) == {"a": 2}


@given(st.lists(st.dictionaries(st.sampled_from("abc"), json_values, max_size=3), max_size=5))
def test_no_more_is_given_back_than_was_taken(objects: list[dict[str, Any]]) -> None:
    """What is kept never takes more than what is set aside for it."""
    into: dict[str, Any] = {}
    budget = Budget(10**6)
    for members in objects:
        merge_members(into, members, skip=(), budget=budget, extend_lists=True)
        assert size_bytes(into) - size_bytes({}) <= 10**6 - budget.left_bytes


def test_a_big_integer_is_paid_for_before_it_is_given_back() -> None:
    """Else a stream could win memory by replacing one, again and again."""
    rounds: list[dict[str, Any]] = [{"o": {"n": 1}}, {"o": {"n": 10**4000}}, {"o": 1}] * 50
    assert merged(*rounds, {"x": "x" * 2000}, room=4000) == {"o": 1, "x": "x" * 2000}
    assert merged(*rounds, {"x": "x" * 5000}, room=4000) == {"o": 1}


def plainly_merged(into: dict[str, Any], members: dict[str, Any]) -> dict[str, Any]:
    """The same rules, by recursion and without a budget."""
    merged = dict(into)
    for key, value in members.items():
        old = merged.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            merged[key] = plainly_merged(old, value)
        elif isinstance(value, list) and isinstance(old, list):
            merged[key] = old + value
        elif isinstance(value, dict) and value:
            merged[key] = {name: each for name, each in value.items() if each is not None}
        elif value is not None and value != {}:
            merged[key] = value
    return merged


@given(st.lists(st.dictionaries(st.sampled_from("abc"), json_values, max_size=3), max_size=5))
def test_objects_merge_as_the_rules_say(objects: list[dict[str, Any]]) -> None:
    """With room for all of it, whatever nests in whatever."""
    before = json.dumps(objects)
    expected: dict[str, Any] = {}
    for members in objects:
        expected = plainly_merged(expected, members)
    assert merged(*objects) == expected
    assert json.dumps(objects) == before


def nested(depth: int, value: Any = 1, kind: str = "objects") -> Any:
    """A value with so many objects, or lists, in each other."""
    for _ in range(depth):
        value = {"a": value} if kind == "objects" else [value]
    return value


@pytest.mark.parametrize("extend_lists", [True, False])
@pytest.mark.parametrize("kind", ["objects", "lists"])
@pytest.mark.parametrize(("depth", "is_kept"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_what_nests_too_deeply_is_left_out(
    depth: int, kind: str, *, is_kept: bool, extend_lists: bool
) -> None:
    """By a limit of ours; what stands beside it is taken, and what comes behind it."""
    into: dict[str, Any] = {}
    budget = Budget(10**6)
    for number in range(2):
        members = {"k": nested(depth, kind=kind), "n": number}
        merge_members(into, members, skip=(), budget=budget, extend_lists=extend_lists)
    assert into.pop("n") == 1
    assert ("k" in into) is is_kept
    assert (budget.left_out, budget.exceeded) == (not is_kept, False)


@pytest.mark.parametrize("kind", ["objects", "lists"])
def test_no_merge_makes_a_value_deeper_than_the_limit(kind: str) -> None:
    """Though each piece by itself is within it: the place where it is put counts."""
    budget = Budget(10**6)
    into = {"k": nested(500)}
    for depth, is_left_out in ((MAX_DEPTH - 500, False), (MAX_DEPTH - 499, True)):
        members = {"k": nested(500, {"b": nested(depth - 1, kind=kind)})}
        into["k"] = nested(500, {})
        merge_members(into, members, skip=(), budget=budget, extend_lists=True)
        assert budget.left_out is is_left_out


def test_merging_and_copying_take_no_stack() -> None:
    """What the deepest value comes to does not depend on how deep its caller is."""
    left = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 50)
    try:
        whole = merged({"k": nested(MAX_DEPTH)}, {"k": nested(MAX_DEPTH, 2)})
    finally:
        sys.setrecursionlimit(left)
    assert whole == {"k": nested(MAX_DEPTH, 2)}


def test_without_empty() -> None:
    """Nulls and what is empty go."""
    assert without_empty({"a": None, "b": "", "c": [], "d": {}, "e": "x"}) == {"e": "x"}
