"""The model makers' own endpoints that look like OpenAI's (``docs/contract/wire.md#dialects``)."""

from __future__ import annotations

from dataclasses import replace

from codec.dialects._openai import OPENAI_DETAILS
from codec.dialects.profile import (
    CallIndex,
    CallShape,
    Dialect,
    ErrorForm,
    ErrorShape,
    Extras,
    Framing,
    NullUsage,
    ReasoningShape,
    Rejection,
    RolePlace,
    UsagePlace,
    UsageShape,
)

__all__ = ("MAKERS",)

_FINISH = UsagePlace.FINISH
_NO_ERROR = ErrorShape(form=ErrorForm.NOTHING)
_REASONING_CONTENT = ReasoningShape(member="reasoning_content")
_TOP_CACHED = ("cached_tokens",)

_DEEPSEEK = Dialect(
    name="deepseek",
    framing=Framing(comments=(": keep-alive", ": keep-alive"), blank_lines=3),
    usage=UsageShape(
        asked=_FINISH,
        unasked=_FINISH,
        null=NullUsage.ALWAYS,
        cached=("prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens"),
        uncached="prompt_cache_miss_tokens",
    ),
    reasoning=ReasoningShape(member="reasoning_content", members={"content": None}),
    error=ErrorShape(
        form=ErrorForm.FINISH_REASON, finish_reason="insufficient_system_resource", done=True
    ),
    extras=Extras(finish_delta={"content": ""}),
)

_QWEN = Dialect(
    name="qwen",
    usage=UsageShape(null=NullUsage.ALWAYS),
    calls=CallShape(joined=True, later={"id": "", "type": "function"}, later_function={"name": ""}),
    reasoning=ReasoningShape(member="reasoning_content", members={"content": None}),
    extras=Extras(chunk={"system_fingerprint": None}, finish_delta={"content": ""}),
)

_MISTRAL = Dialect(
    name="mistral",
    usage=UsageShape(asked=_FINISH, unasked=_FINISH),
    calls=CallShape(with_finish=True),
    reasoning=ReasoningShape(part="thinking"),
    error=ErrorShape(form=ErrorForm.OBJECT, body_form=ErrorForm.OBJECT, done=True),
    extras=Extras(
        left_out=frozenset({"system_fingerprint", "service_tier"}),
        choice={"finish_reason": None},
        finish_delta={"content": ""},
        padding="p",
    ),
    rejected_options=Rejection(
        status=422,
        body={
            "object": "error",
            "message": {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "stream_options"],
                        "msg": "Extra inputs are not permitted",
                    }
                ]
            },
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        },
    ),
)

_GEMINI = Dialect(
    name="gemini",
    usage=UsageShape(
        asked=UsagePlace.EVERY,
        unasked=UsagePlace.EVERY,
        reasoning=None,
        reasoning_apart=True,
    ),
    calls=CallShape(
        whole=True,
        index=CallIndex.MISSING,
        members={"extra_content": {"google": {"thought_signature": "c2lnbmVk"}}},
    ),
    reasoning=ReasoningShape(
        tags=("<thought>", "</thought>"), members={"extra_content": {"google": {"thought": True}}}
    ),
    error=ErrorShape(in_list=True),
    finish_reasons={"tool_calls": "stop"},
    role=RolePlace.EVERY,
    extras=Extras(choice={}),
)

_ANTHROPIC = Dialect(
    name="anthropic",
    calls=CallShape(index=CallIndex.AFTER_TEXT),
    extras=Extras(chunk={"system_fingerprint": ""}, choice={"finish_reason": None}),
    usage=UsageShape(cached=()),
)

_XAI = Dialect(
    name="xai",
    usage=UsageShape(
        reasoning_apart=True,
        members=OPENAI_DETAILS | {"num_sources_used": 0, "cost_in_usd_ticks": 14_662},
    ),
    calls=CallShape(whole=True),
    reasoning=_REASONING_CONTENT,
    extras=Extras(choice={}),
)

_MOONSHOT = Dialect(
    name="moonshot",
    usage=UsageShape(
        asked=UsagePlace.CHOICE | UsagePlace.FINAL,
        unasked=UsagePlace.CHOICE,
        cached=_TOP_CACHED,
    ),
    reasoning=_REASONING_CONTENT,
    error=_NO_ERROR,
    extras=Extras(left_out=frozenset({"object"}), choice={"finish_reason": None}),
)

_ZAI = Dialect(
    name="zai",
    framing=Framing(content_type="text/event-stream;charset=UTF-8"),
    usage=UsageShape(asked=_FINISH, unasked=_FINISH),
    calls=CallShape(whole=True),
    reasoning=_REASONING_CONTENT,
    error=ErrorShape(form=ErrorForm.FINISH_REASON, finish_reason="network_error", done=True),
    role=RolePlace.EVERY,
    extras=Extras(choice={}, finish_delta={"content": ""}),
)

_PERPLEXITY = Dialect(
    name="perplexity",
    framing=Framing(line_end="\r\n", done=False),
    usage=UsageShape(
        asked=UsagePlace.EVERY,
        unasked=UsagePlace.EVERY,
        reasoning="reasoning_tokens",
        members={"search_context_size": "low", "cost": {"total_cost": 0.005}},
    ),
    reasoning=ReasoningShape(tags=("<think>", "</think>")),
    error=_NO_ERROR,
    role=RolePlace.EVERY,
    whole_message=True,
    extras=Extras(
        chunk={"citations": ["https://almanac.example/tides"], "search_results": []},
        choice={},
        finish={"object": "chat.completion.done"},
        finish_delta={"content": ""},
    ),
)

_COHERE = Dialect(
    name="cohere",
    usage=UsageShape(asked=UsagePlace.FINAL, unasked=UsagePlace.NOWHERE, cached=()),
    error=_NO_ERROR,
    extras=Extras(choice={"finish_reason": None}),
)

MAKERS = (
    _DEEPSEEK,
    _QWEN,
    replace(_QWEN, name="qwen-cumulative", cumulative_content=True),
    _MISTRAL,
    _GEMINI,
    _ANTHROPIC,
    _XAI,
    _MOONSHOT,
    _ZAI,
    _PERPLEXITY,
    _COHERE,
    Dialect(
        name="writer",
        framing=Framing(done=False),
        usage=UsageShape(asked=UsagePlace.NOWHERE),
        error=_NO_ERROR,
        bare_values=True,
    ),
)
"""The dialects of the makers. Writer's is that of its legacy completions."""
