"""OpenAI and the hosts of its models (``docs/contract/wire.md#dialects``)."""

from __future__ import annotations

from codec.dialects.profile import (
    Dialect,
    Extras,
    NullUsage,
    ReasoningShape,
    UsagePlace,
    UsageShape,
)

__all__ = ("OPENAI", "OPENAI_DETAILS")

OPENAI_DETAILS = {
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 0,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}
"""The details of an ordinary usage."""

_SAFE = {
    kind: {"filtered": False, "severity": "safe"}
    for kind in ("hate", "self_harm", "sexual", "violence")
}
_PROMPT_FILTER = {
    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": _SAFE}],
}
_USAGE = UsageShape(null=NullUsage.ASKED, members=OPENAI_DETAILS)

OPENAI = (
    Dialect(
        name="openai",
        usage=_USAGE,
        refuses_apart=True,
        extras=Extras(message={"annotations": []}),
    ),
    Dialect(
        name="azure",
        usage=_USAGE,
        refuses_apart=True,
        extras=Extras(
            before={"id": "", "object": "", "created": 0, "model": ""} | _PROMPT_FILTER,
            choice={"content_filter_results": {}, "logprobs": None, "finish_reason": None},
            padding="obfuscation",
        ),
    ),
    Dialect(
        name="copilot",
        usage=UsageShape(
            asked=UsagePlace.FINISH, unasked=UsagePlace.FINISH, members=OPENAI_DETAILS
        ),
        reasoning=ReasoningShape(member="reasoning_text"),
        refuses_apart=True,
        extras=Extras(
            left_out=frozenset({"object"}),
            before={"id": "", "created": 0} | _PROMPT_FILTER,
            choice={"content_filter_results": {}},
            finish_delta={"content": None},
            finish={"copilot_usage": {"token_details": [], "total_nano_aiu": 0}},
        ),
    ),
)
"""OpenAI's dialects."""
