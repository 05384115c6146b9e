from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict

from codec.usage import Usage, UsageEstimate, decode_token_usage, decode_usage


def counts(usage: Usage | None) -> dict[str, int] | None:
    """The counts that are there, by name."""
    if usage is None:
        return None
    return {
        key: n
        for key, n in asdict(usage).items()
        if key not in {"raw", "anomalies"} and n is not None
    }


BASE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
BASE_COUNTS = {"prompt": 10, "completion": 5, "total": 15}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(None, None, id="null"),
        pytest.param({}, None, id="nothing"),
        pytest.param({"prompt_tokens": None}, None, id="nothing but nulls"),
        pytest.param([1], None, id="no object"),
        pytest.param(BASE, BASE_COUNTS, id="plain"),
        pytest.param(
            {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150,
             "prompt_tokens_details": {"cached_tokens": 42},
             "completion_tokens_details": {"reasoning_tokens": 40}},
            {"prompt": 100, "completion": 50, "total": 150, "cache_read": 42, "reasoning": 40},
            id="details",
        ),
        pytest.param(
            {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
             "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36,
             "completion_tokens_details": {"reasoning_tokens": 12}},
            {"prompt": 100, "completion": 20, "total": 120, "cache_read": 64, "reasoning": 12},
            id="DeepSeek",
        ),
        pytest.param(
            BASE | {"prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0}},
            BASE_COUNTS | {"cache_read": 0, "prompt_audio": 0}, id="zeros are zeros",
        ),
        pytest.param(
            BASE | {"prompt_tokens_details": {"cache_write_tokens": 3},
                    "completion_tokens_details": {"audio_tokens": 2}},
            BASE_COUNTS | {"cache_write": 3, "completion_audio": 2}, id="1.4 cache write, audio",
        ),
        pytest.param(BASE | {"cached_tokens": 4}, BASE_COUNTS | {"cache_read": 4}, id="Together"),
        pytest.param(
            BASE | {"prompt_tokens_details": {
                "audio_tokens": 6, "image_tokens": 0, "cached_tokens": 5,
                "cached_tokens_details": {"text_tokens": 1, "audio_tokens": 4}}},
            BASE_COUNTS | {
                "cache_read": 5, "prompt_audio": 6, "cache_read_audio": 4, "prompt_image": 0,
            },
            id="Realtime",
        ),
        pytest.param(
            BASE | {"prompt_tokens_details": {
                "audio_tokens": 3, "image_tokens": 11, "cached_tokens": 5,
                "cached_tokens_details": {"audio_tokens": 4}}},
            BASE_COUNTS | {"cache_read": 5, "prompt_audio": 3}, id="more than there are",
        ),
        pytest.param(
            BASE | {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 0},
            BASE_COUNTS | {"cache_read": 4, "cache_write": 0}, id="Databricks",
        ),
        pytest.param(
            BASE | {"input_tokens_details": {"cached_tokens": 4}},
            BASE_COUNTS | {"cache_read": 4}, id="the last name",
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
            {"prompt": 12, "completion": 3}, id="total 0",
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
    """What is a count, and under which name.

    See ``docs/contract/spans.md#usage`` and ``docs/contract/wire.md#counts``.
    """
    assert counts(decode_usage(raw)) == expected


@pytest.mark.parametrize(
    ("total", "inconsistent"), [(0, True), (14, True), (15, False), (16, False), (None, False)]
)
def test_an_inconsistent_total_is_told(total: int | None, inconsistent: bool) -> None:
    """Rule 3: it is left out, the raw object keeps it."""
    raw = BASE | {"total_tokens": total}
    usage = decode_usage(raw)
    assert usage is not None
    assert usage.anomalies == (("total_inconsistent",) if inconsistent else ())
    assert usage.raw == raw


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            {"prompt_tokens": 1300, "completion_tokens": 5, "total_tokens": 1305,
             "prompt_tokens_details": {"cached_tokens": 1000, "cache_creation_tokens": 253}},
            {"prompt": 1300, "completion": 5, "total": 1305, "cache_read": 1000,
             "cache_write": 253}, id="LiteLLM's cache writes",
        ),
        pytest.param(
            {"prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 55,
             "prompt_tokens_details": {"cached_tokens": 0, "cache_creation_input_tokens": 40}},
            {"prompt": 50, "completion": 5, "total": 55, "cache_read": 0, "cache_write": 40},
            id="Qwen's cache writes",
        ),
        pytest.param(
            {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12,
             "input_tokens_details": {"cached_tokens": 2},
             "output_tokens_details": {"reasoning_tokens": 1}},
            {"prompt": 9, "completion": 3, "total": 12, "cache_read": 2, "reasoning": 1},
            id="Responses' names",
        ),
        pytest.param(
            {"input_tokens": 9, "output_tokens": 3, "input_token_details": {"audio_tokens": 4},
             "output_token_details": {"audio_tokens": 2}},
            {"prompt": 9, "completion": 3, "prompt_audio": 4, "completion_audio": 2},
            id="Realtime's names",
        ),
        pytest.param(
            {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12,
             "prompt_tokens_details": {"cached_tokens": 4}, "input_tokens": 0, "output_tokens": 0,
             "input_tokens_details": {"cached_tokens": 0}},
            {"prompt": 9, "completion": 3, "total": 12, "cache_read": 4},
            id="both, one of them zeros",
        ),
        pytest.param(
            {"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": 100,
             "cache_creation_input_tokens": 20},
            {"prompt": 125, "completion": 3, "cache_read": 100, "cache_write": 20},
            id="Messages' names: a cache beside the prompt",
        ),
        pytest.param(
            {"input_tokens": 125, "output_tokens": 3, "total_tokens": 128,
             "cache_read_input_tokens": 100},
            {"prompt": 125, "completion": 3, "total": 128, "cache_read": 100},
            id="and in it, by the total",
        ),
        pytest.param({"input_tokens": 7, "total_tokens": 7}, {"prompt": 7, "total": 7},
                     id="an embedding's"),
    ],
)  # fmt: skip
def test_names_of_other_apis(raw: dict[str, Any], expected: dict[str, int]) -> None:
    """Rules 1 and 2: gateways answer by the names of any API, wherever one is expected."""
    for decode in (decode_usage, decode_token_usage):
        usage = decode(raw)
        assert counts(usage) == expected
        assert usage is not None
        assert (usage.raw, usage.anomalies) == (raw, ())


@pytest.mark.parametrize(
    ("completion", "total", "expected"),
    [(3, 110, (100, 97)), (3, 13, (3, None)), (100, 110, (100, 97)), (3, None, (3, None))],
)
def test_a_total_tells_whether_reasoning_is_on_top(
    completion: int, total: int | None, expected: tuple[int, int | None]
) -> None:
    """That of xAI excludes it, and its total fits nothing else.

    See ``docs/contract/wire.md#reasoning-beside``.
    """
    usage = decode_usage(
        {
            "prompt_tokens": 10,
            "completion_tokens": completion,
            "total_tokens": total,
            "completion_tokens_details": {"reasoning_tokens": 97},
        }
    )
    assert usage is not None
    assert (usage.completion, usage.reasoning) == expected
    assert usage.anomalies == (() if expected[1] else ("details_inconsistent",))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 11}}, BASE_COUNTS),
        ({"prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 5}}, BASE_COUNTS),
        ({"prompt_tokens_details": {"audio_tokens": 11, "cached_tokens": 10}},
         BASE_COUNTS | {"cache_read": 10}),
        ({"completion_tokens_details": {"reasoning_tokens": 6, "audio_tokens": 5}},
         BASE_COUNTS | {"completion_audio": 5}),
        ({"completion_tokens_details": {"reasoning_tokens": 5, "audio_tokens": 6}},
         BASE_COUNTS | {"reasoning": 5}),
    ],
)  # fmt: skip
def test_no_part_is_larger_than_its_whole(raw: dict[str, Any], expected: dict[str, int]) -> None:
    """Rule 5: such a part is left out and noted; the raw object keeps it."""
    usage = decode_usage(BASE | raw)
    assert counts(usage) == expected
    assert usage is not None
    assert (usage.raw, usage.anomalies) == (BASE | raw, ("details_inconsistent",))


def test_a_total_tells_whether_a_cache_is_beside_the_prompt() -> None:
    """Rule 5: a prompt that has no room for it, and a total that counts both."""
    cached = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 110,
              "prompt_tokens_details": {"cached_tokens": 100}}  # fmt: skip
    usage = decode_usage(cached)
    assert counts(usage) == {"prompt": 105, "completion": 5, "total": 110, "cache_read": 100}


def test_a_part_of_an_unknown_whole_stays() -> None:
    """Nothing says that it cannot be true."""
    usage = decode_usage({"prompt_tokens_details": {"cached_tokens": 11}, "completion_tokens": 1})
    assert counts(usage) == {"completion": 1, "cache_read": 11}


def test_an_estimate_is_no_usage() -> None:
    """It says that it is estimated (``docs/contract/sources.md#s3-13``)."""
    estimate = UsageEstimate(prompt=8, completion=5)
    assert estimate.to_json() == {"prompt": 8, "completion": 5, "estimated": True}
    assert decode_usage(None) is None
