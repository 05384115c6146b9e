from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given

from codec.budget import Budget, size_bytes
from codec.text.jsontext import decode_json
from tests.codec.test_error_objects import json_values


def test_what_does_not_fit_is_left_out_for_good() -> None:
    """Once something did not fit, nothing grows: an answer with holes would be a lie (R6)."""
    budget = Budget(100)
    assert [budget.reserve(60), budget.reserve(41), budget.reserve(1)] == [True, False, False]
    assert budget.exceeded


def test_what_does_not_grow_always_fits() -> None:
    """A running count may be replaced past the limit; what is given back stays unused."""
    budget = Budget(100)
    budget.reserve(101)
    assert [budget.reserve(0), budget.reserve(-50), budget.reserve(1)] == [True, True, False]


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("", 0),
        ("é漢😀", 3),
        (5, 0),
        (2**64 - 1, 0),
        (2**64, 8),
        (10**4000, 1661),
        (1.5, 0),
        (None, 0),
        ([], 64),
        ([1, "ab"], 64 + 2 * 8 + 24 + 48 + 2),
        ([2**64, 1.5], 64 + 2 * 8 + 24 + 8 + 24),
        ({"key": "ab", "": None}, 64 + 2 * 48 + 3 + 48 + 2),
        ([[{}]], 3 * 64 + 2 * 8),
    ],
)
def test_sizes(value: Any, size: int) -> None:
    """Characters, numbers, strings, and containers with their places."""
    assert size_bytes(value) == size


def test_no_value_is_too_deep_to_have_a_size() -> None:
    """What no parser, writer or comparison would follow."""
    value: Any = "A" * 1000
    for _ in range(100_000):
        value = [value, {}]
    assert size_bytes(value) == 100_000 * (64 + 2 * 8 + 64) + 48 + 1000


@given(json_values)
def test_every_value_has_a_size(value: Any) -> None:
    """And an object's is the sum of what its parts take."""
    size = size_bytes(value)
    assert size >= 0
    if isinstance(value, dict):
        places = size_bytes([None] * len(value)) - 8 * len(value)
        members = size_bytes(list(value.values())) - 8 * len(value) - places
        members += sum(48 + len(key) for key in value)
        assert size == 64 + members


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([[] for _ in range(1000)], id="empty lists"),
        pytest.param([{} for _ in range(1000)], id="empty objects"),
        pytest.param([{"a": n} for n in range(1000)], id="objects of one member"),
        pytest.param({f"k{n}": n for n in range(1000)}, id="many keys"),
        pytest.param([f"{n:02}" for n in range(1000)], id="short texts"),
        pytest.param([2**60 + n for n in range(1000)], id="large integers"),
        pytest.param([n + 0.5 for n in range(1000)], id="floats"),
    ],
)
def test_an_estimate_is_not_far_off(value: Any) -> None:
    """Tiny things take hardly more than twice their estimate."""
    text = json.dumps(value)
    decode_json(text)
    tracemalloc.start()
    try:
        kept = decode_json(text)
        taken_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.75 * size_bytes(kept) < taken_bytes < 2.2 * size_bytes(kept)
