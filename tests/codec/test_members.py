from __future__ import annotations

import json
from typing import Any

import pytest

from codec.members import FRAGMENT_BYTES, Budget, compact_text, merge_members, without_empty


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
    """span-contract.md 1.5: the last non-null wins, objects merge, lists of deltas join."""
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

    assert cost({"k": "x" * 100}) == 100 + 1 + FRAGMENT_BYTES
    assert cost({"k": "x" * 100}) == 0
    assert cost({"k": "x" * 150}) == 50
    assert cost({"k": "x" * 10}) == -140
    assert cost({"l": [1, 2]}) == len("[1,2]") + 1 + FRAGMENT_BYTES
    assert cost({"l": [1, 2]}) == len("[1,2]")
    assert cost({"n": 5}) == 1 + FRAGMENT_BYTES
    assert cost({"n": 6}) == 0


def test_what_does_not_fit_is_left_out_for_good() -> None:
    """Once something did not fit, nothing grows: an answer with holes would be a lie (R6)."""
    budget = Budget(100)
    assert [budget.take(60), budget.take(41), budget.take(1)] == [True, False, False]
    assert budget.exceeded
    assert merged({"a": "x" * 500}, {"b": 1}, room=400) == {}
    assert merged({"a": [1]}, {"a": ["x" * 500]}, room=400) == {"a": [1]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, "é"]}, '{"a":[1,"é"]}'),
        ("\ud800", '"\ud800"'),
        (2**70, str(2**70)),
        pytest.param(10**5000, "[ValueError]", id="thousands of digits"),
    ],
)
def test_compact_text(value: Any, expected: str) -> None:
    """Any JSON value has a compact text, with the standard encoder where the fast one refuses."""
    assert compact_text(value) == expected


def test_compact_text_of_endless_nesting() -> None:
    """What is nested too deeply is named instead of raising."""
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert compact_text(value) == "[RecursionError]"


def test_without_empty() -> None:
    """Nulls and what is empty go."""
    assert without_empty({"a": None, "b": "", "c": [], "d": {}, "e": "x"}) == {"e": "x"}
