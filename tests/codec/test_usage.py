from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from codec import usage as module
from codec.budget import Budget, size_bytes
from codec.usage import (
    MAX_USAGE_BYTES,
    Usage,
    UsageEstimate,
    UsageFold,
    decode_usage,
    merge_usage,
)


def counts(usage: Usage | None) -> dict[str, int] | None:
    """The counts that are there, by name."""
    if usage is None:
        return None
    return {key: n for key, n in asdict(usage).items() if key != "raw" and n is not None}


def fold(*raws: Any) -> UsageFold:
    """Fold `usage` members that ride on choices."""
    usage = UsageFold()
    for raw in raws:
        usage.feed(raw)
    return usage


BASE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
BASE_COUNTS = {"prompt": 10, "completion": 5, "total": 15}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(None, None, id="S4.15 null"),
        pytest.param({}, None, id="nothing"),
        pytest.param({"prompt_tokens": None}, None, id="nothing but nulls"),
        pytest.param([1], None, id="no object"),
        pytest.param(BASE, BASE_COUNTS, id="plain"),
        pytest.param(
            {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150,
             "prompt_tokens_details": {"cached_tokens": 42},
             "completion_tokens_details": {"reasoning_tokens": 40}},
            {"prompt": 100, "completion": 50, "total": 150, "cache_read": 42, "reasoning": 40},
            id="S4.15 S4.T2 details",
        ),
        pytest.param(
            {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
             "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36,
             "completion_tokens_details": {"reasoning_tokens": 12}},
            {"prompt": 100, "completion": 20, "total": 120, "cache_read": 64, "reasoning": 12},
            id="S2.5 DeepSeek",
        ),
        pytest.param(
            BASE | {"prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0}},
            BASE_COUNTS | {"cache_read": 0, "prompt_audio": 0}, id="S2.5 zeros are zeros",
        ),
        pytest.param(
            BASE | {"prompt_tokens_details": {"cache_write_tokens": 3},
                    "completion_tokens_details": {"audio_tokens": 2}},
            BASE_COUNTS | {"cache_write": 3, "completion_audio": 2}, id="1.4 cache write, audio",
        ),
        pytest.param(BASE | {"cached_tokens": 4}, BASE_COUNTS | {"cache_read": 4}, id="Together"),
        pytest.param(
            BASE | {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 0},
            BASE_COUNTS | {"cache_read": 4, "cache_write": 0}, id="Databricks",
        ),
        pytest.param(
            BASE | {"input_tokens_details": {"cached_tokens": 4}},
            BASE_COUNTS | {"cache_read": 4}, id="section 8, last name",
        ),
        pytest.param(BASE | {"reasoning_tokens": 1}, BASE_COUNTS | {"reasoning": 1}, id="flat"),
        pytest.param(
            BASE | {"prompt_tokens_details": None, "completion_tokens_details": "x"},
            BASE_COUNTS, id="details that are no objects",
        ),
        pytest.param(
            {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 303},
            {"prompt": 12, "completion": 3, "total": 303}, id="xAI: a larger total is legitimate",
        ),
        pytest.param(
            {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 0},
            {"prompt": 12, "completion": 3}, id="S0.3 total 0",
        ),
        pytest.param({"prompt_tokens": 12, "total_tokens": 11}, {"prompt": 12}, id="below prompt"),
        pytest.param({"total_tokens": 11}, {"total": 11}, id="only a total"),
        pytest.param(
            {"prompt_tokens": 12.0, "completion_tokens": 2.5, "total_tokens": float("nan")},
            {"prompt": 12}, id="rule 4: whole floats",
        ),
        pytest.param(
            {"prompt_tokens": True, "completion_tokens": "3", "total_tokens": -1, "x": 2**63},
            {}, id="rule 4: junk",
        ),
        pytest.param({"prompt_tokens": 2**63, "total_tokens": 0}, {"total": 0}, id="rule 4: huge"),
    ],
)  # fmt: skip
def test_counts(raw: Any, expected: dict[str, int] | None) -> None:
    """span-contract.md 1.4 and dialects.md section 8: what is a count, and under which name."""
    assert counts(decode_usage(raw)) == expected


@pytest.mark.parametrize(
    ("total", "inconsistent"), [(0, True), (14, True), (15, False), (16, False), (None, False)]
)
def test_an_inconsistent_total_is_told(total: int | None, inconsistent: bool) -> None:
    """Rule 3: it is left out, the raw object keeps it."""
    raw = BASE | {"total_tokens": total}
    usage = decode_usage(raw)
    assert usage is not None
    assert usage.total_inconsistent is inconsistent
    assert usage.raw == raw


def test_merge_takes_the_last_non_null_field_by_field() -> None:
    """Rule 2, details included (Databricks sends null counts until the end)."""
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
    """Rule 2 whatever a member is: an object only merges with an object."""
    assert fold(*objects).raw == expected


def test_nothing_is_summed() -> None:
    """S0.3, S0.7: running counts replace each other."""
    running = [BASE | {"completion_tokens": n, "total_tokens": 10 + n} for n in (1, 2, 3, 3)]
    assert counts(decode_usage(fold(*running).raw)) == {"prompt": 10, "completion": 3, "total": 13}


def test_a_null_erases_nothing() -> None:
    """S0.8: neither a null usage nor null members."""
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
    """dialects.md section 3: one usage chunk for each choice, counting its own tokens only."""
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
    """Rule 7 of the accumulator: a running count stays the last one, nothing is added."""
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


@pytest.mark.parametrize(
    ("completion", "total", "excluded"), [(3, 110, True), (3, 13, False), (100, 110, False)]
)
def test_a_total_tells_whether_reasoning_is_on_top(
    completion: int, total: int, *, excluded: bool
) -> None:
    """Those of xAI exclude it (``dialects.md`` section 8), and its total fits nothing else."""
    usage = decode_usage(
        {
            "prompt_tokens": 10,
            "completion_tokens": completion,
            "total_tokens": total,
            "completion_tokens_details": {"reasoning_tokens": 97},
        }
    )
    assert usage is not None
    assert usage.excludes_reasoning is excluded


def test_no_total_tells_nothing_of_reasoning() -> None:
    """Without a total, or without reasoning, nothing is claimed."""
    for raw in ({"prompt_tokens": 1}, {"total_tokens": 5}):
        usage = decode_usage(raw)
        assert usage is not None
        assert not usage.excludes_reasoning


def test_an_estimate_is_no_usage() -> None:
    """S3.13: it says of itself that it is estimated; an answer without usage has none of either."""
    estimate = UsageEstimate(prompt=8, completion=5)
    assert estimate.to_json() == {"prompt": 8, "completion": 5, "estimated": True}
    assert decode_usage(None) is None
