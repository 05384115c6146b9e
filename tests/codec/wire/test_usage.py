"""Typed usage."""

from __future__ import annotations

from codec.wire.usage import UsageCounts


def test_every_count_has_its_name() -> None:
    """DeepSeek's hits and misses, details of both sides (``docs/contract/sources.md#s2-5``)."""
    usage = UsageCounts(
        {
            "prompt_tokens": 50,
            "completion_tokens": 9,
            "total_tokens": 59,
            "prompt_cache_hit_tokens": 32,
            "prompt_cache_miss_tokens": 18,
            "prompt_tokens_details": {
                "cached_tokens": 32,
                "audio_tokens": 0,
                "cache_write_tokens": 4,
            },
            "completion_tokens_details": {
                "reasoning_tokens": 5,
                "audio_tokens": 1,
                "accepted_prediction_tokens": 2,
                "rejected_prediction_tokens": 3,
            },
            "queue_time": 0.5,
        }
    )
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (50, 9, 59)
    assert (usage.prompt_cache_hit_tokens, usage.prompt_cache_miss_tokens) == (32, 18)
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    assert prompt is not None
    assert (prompt.cached_tokens, prompt.audio_tokens, prompt.cache_write_tokens) == (32, 0, 4)
    assert completion is not None
    assert (completion.reasoning_tokens, completion.audio_tokens) == (5, 1)
    assert completion.accepted_prediction_tokens == 2
    assert completion.rejected_prediction_tokens == 3
    assert usage.extra == {"queue_time": 0.5}


def test_plain_bodies_of_both_providers() -> None:
    """No hit, or a part cached; what is no count is none (``docs/contract/sources.md#s2-10``)."""
    deepseek = UsageCounts({"prompt_cache_hit_tokens": 0, "prompt_cache_miss_tokens": 10})
    assert (deepseek.prompt_cache_hit_tokens, deepseek.prompt_cache_miss_tokens) == (0, 10)
    qwen = UsageCounts({"prompt_tokens_details": {"cached_tokens": 1024}, "total_tokens": "9"})
    assert qwen.prompt_tokens_details is not None
    assert qwen.prompt_tokens_details.cached_tokens == 1024
    assert (qwen.total_tokens, qwen.completion_tokens_details) == (None, None)
