"""``codec.usage_fold``: the usage objects of a stream are one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec import usage_fold as module
from codec.budget import Budget, size_bytes
from codec.usage import decode_usage
from codec.usage_fold import MAX_USAGE_BYTES, UsageFold, merge_usage
from tests.codec.test_usage import BASE, counts


def fold(*raws: Any) -> UsageFold:
    """Fold `usage` members that ride on choices."""
    usage = UsageFold()
    for raw in raws:
        usage.feed(raw)
    return usage


def test_merge_takes_the_last_non_null_field_by_field() -> None:
    """Details included (Databricks sends null counts until the end)."""
    old = {"prompt_tokens": 402, "completion_tokens": None, "d": {"cached_tokens": 1, "a": 2}}
    new = {"prompt_tokens": None, "completion_tokens": 54, "d": {"cached_tokens": None, "a": 3}}
    into: dict[str, Any] = {}
    budget = Budget(10_000)
    merge_usage(into, old, budget)
    assert into == old, "as sent, nulls included"
    merge_usage(into, new, budget)
    assert into == {
        "prompt_tokens": 402, "completion_tokens": 54, "d": {"cached_tokens": 1, "a": 3},
    }  # fmt: skip
    assert old["d"] == {"cached_tokens": 1, "a": 2}, "the older object was changed"


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([{"d": 1}, {"d": {"a": 1}}], {"d": {"a": 1}}),
        ([{"d": {"a": 1}}, {"d": 1}], {"d": 1}),
        ([{"d": {"a": 1}}, {"d": None}], {"d": {"a": 1}}),
        ([{"d": {}}, {"d": None}], {"d": {}}),
        ([{"d": [1]}, {"d": [2]}], {"d": [2]}),
    ],
)
def test_members_of_changing_kinds(objects: list[Any], expected: dict[str, Any]) -> None:
    """Rule 1 whatever a member is: an object only merges with an object."""
    assert fold(*objects).raw == expected


def test_nothing_is_summed() -> None:
    """Running counts replace each other (``docs/contract/sources.md#s0-3``)."""
    running = [BASE | {"completion_tokens": n, "total_tokens": 10 + n} for n in (1, 2, 3, 3)]
    assert counts(decode_usage(fold(*running).raw)) == {"prompt": 10, "completion": 3, "total": 13}


def test_a_null_erases_nothing() -> None:
    """Neither a null usage nor null members (``docs/contract/sources.md#s0-8``)."""
    assert fold(BASE, None, {}, {"prompt_tokens": None}).raw == BASE


def alone(*parts: tuple[dict[str, int], int]) -> dict[str, int] | None:
    """Fold `usage` members, each with the number of choices that had finished before it.

    That number is 0 where it does not ride alone.
    """
    usage = UsageFold()
    for raw, alone_after in parts:
        usage.feed(raw, alone_after=alone_after)
    return counts(decode_usage(usage.raw))


SECOND = {"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17}


def test_llama_cpp_choices_are_summed() -> None:
    """One usage chunk for each choice, counting its own tokens only.

    See ``docs/contract/wire.md#usage-of-each-choice``.
    """
    assert alone((BASE, 1), (SECOND, 2)) == {"prompt": 10, "completion": 12, "total": 22}
    three = alone((BASE, 1), (SECOND, 2), (BASE, 3))
    assert three == {"prompt": 10, "completion": 17, "total": 27}


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([(BASE, 0), (SECOND, 1)], id="Groq, DeepSeek: finish chunk, then alone"),
        pytest.param([(BASE, 1), (SECOND, 1)], id="no choice finished between"),
        pytest.param([(BASE, 0), (SECOND, 0), (SECOND, 1)], id="running counts, then the last"),
        pytest.param([(BASE, 2), (SECOND, 1)], id="less than before"),
        pytest.param([(BASE, 1), (SECOND, 0)], id="the second rides on a choice"),
        pytest.param([(BASE | {"prompt_tokens": 9}, 1), (SECOND, 2)], id="another prompt count"),
        pytest.param([({"prompt_tokens": 10}, 1), (SECOND, 2)], id="counts are missing"),
    ],
)
def test_nothing_else_is_summed(parts: list[tuple[dict[str, int], int]]) -> None:
    """Each sign of llama.cpp's way is needed."""
    assert alone(*parts) == {"prompt": 10, "completion": 7, "total": 17}


def test_a_usage_object_is_bounded() -> None:
    """A stream cannot store text in its usage; what was there stays."""
    usage = fold(BASE, {"x": "y" * MAX_USAGE_BYTES})
    assert usage.exceeded
    assert usage.raw == BASE


def test_known_counts_are_taken_past_the_limit() -> None:
    """A running count stays the last one, nothing is added."""
    junk = {f"k{n}": {"x": "y" * 100} for n in range(1000)}
    usage = fold(BASE, junk, BASE | {"completion_tokens": 9, "total_tokens": 19, "new": 1})
    assert usage.exceeded
    assert counts(decode_usage(usage.raw)) == {"prompt": 10, "completion": 9, "total": 19}
    assert "new" not in usage.raw
    assert len(str(usage.raw)) < 2 * MAX_USAGE_BYTES


@pytest.mark.parametrize(
    ("raw", "known"), [({}, False), (BASE | {"completion_tokens": None}, False), (BASE, True)]
)
def test_a_completion_count_is_known_or_not(raw: dict[str, Any], known: bool) -> None:
    """Databricks sends it as null until the end: such a usage is not yet the usage."""
    assert fold(raw).has_completion is known


def test_a_usage_object_is_not_shared() -> None:
    """The chunk's own objects do not change when a later one is merged."""
    chunk = {"d": {"a": 1, "b": {"c": 1}}}
    fold(chunk, {"d": {"a": 2, "b": {"c": 2}}})
    assert chunk == {"d": {"a": 1, "b": {"c": 1}}}


def test_work_follows_the_new_object_not_the_merged_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full usage is not weighed again for each of the small ones that follow it."""
    usage = fold({f"k{n}": {"x": "y" * 90} for n in range(150)})
    assert not usage.exceeded
    weighed: list[int] = []

    def weigh(value: Any) -> int:
        weighed.append(size_bytes(value))
        return weighed[-1]

    monkeypatch.setattr(module, "size_bytes", weigh)
    usage.feed(BASE)
    assert sum(weighed) == 0
    assert len(weighed) == len(BASE)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda children: st.lists(children, max_size=3)
    | st.dictionaries(
        st.sampled_from(["prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens",
                         "prompt_tokens_details", "completion_tokens_details"]),
        children, max_size=4,
    ),
    max_leaves=10,
)  # fmt: skip


@given(st.lists(values, max_size=5), st.integers(0, 3))
def test_no_json_value_raises(raws: list[Any], alone_after: int) -> None:
    """Counts are non-negative integers or absent, whatever comes."""
    usage = UsageFold()
    for number, raw in enumerate(raws):
        usage.feed(raw, alone_after=alone_after and alone_after + number)
    found = counts(decode_usage(usage.raw)) or {}
    assert all(type(count) is int and count >= 0 for count in found.values())
