"""Hosts of other people's models, and gateways to many (``docs/contract/wire.md#dialects``)."""

from __future__ import annotations

from dataclasses import replace

from codec.dialects._openai import OPENAI_DETAILS
from codec.dialects.profile import (
    CallShape,
    Dialect,
    ErrorForm,
    ErrorShape,
    Extras,
    Framing,
    NullUsage,
    ReasoningShape,
    RolePlace,
    UsagePlace,
    UsageShape,
)

__all__ = ("HOSTS",)

_FINISH = UsageShape(asked=UsagePlace.FINISH, unasked=UsagePlace.FINISH)
_NO_ERROR = ErrorShape(form=ErrorForm.NOTHING)
_REASONING = ReasoningShape(member="reasoning")
_TIMES = {"queue_time": 0.041, "prompt_time": 0.01, "completion_time": 0.02, "total_time": 0.03}

_OPENROUTER = Dialect(
    name="openrouter",
    framing=Framing(
        comments=(": OPENROUTER PROCESSING", ": OPENROUTER PROCESSING"),
        comment_between=": OPENROUTER PROCESSING",
        content_type="text/event-stream",
    ),
    usage=UsageShape(
        asked=UsagePlace.REPEAT,
        unasked=UsagePlace.REPEAT,
        members=OPENAI_DETAILS
        | {"cost": 0.00003, "is_byok": False, "cost_details": {"upstream_inference_cost": None}},
    ),
    reasoning=ReasoningShape(member="reasoning", detail=True),
    error=ErrorShape(form=ErrorForm.CHUNK, done=True),
    role=RolePlace.EVERY,
    refuses_apart=True,
    extras=Extras(
        chunk={"provider": "Somebody"},
        choice={"finish_reason": None, "native_finish_reason": None, "logprobs": None},
        finish_choice={"native_finish_reason": "completed"},
        delta={"content": ""},
        finish_delta={"content": ""},
    ),
)

_VERCEL = Dialect(
    name="vercel",
    usage=replace(_FINISH, members=OPENAI_DETAILS | {"cost": 0.001, "market_cost": 0.001}),
    reasoning=ReasoningShape(member="reasoning", detail=True),
    error=_NO_ERROR,
    extras=Extras(finish={"generationId": "gen_demo"}),
)

_GROQ = Dialect(
    name="groq",
    usage=UsageShape(
        asked=UsagePlace.FINISH | UsagePlace.GROQ | UsagePlace.FINAL,
        unasked=UsagePlace.FINISH | UsagePlace.GROQ,
        members=_TIMES,
    ),
    calls=CallShape(whole=True),
    reasoning=ReasoningShape(member="reasoning", members={"channel": "analysis"}),
    error=ErrorShape(event="error"),
    extras=Extras(first={"x_groq": {"id": "req_demo", "seed": 689_520_654}}),
)

_TOGETHER = Dialect(
    name="together",
    usage=replace(
        _FINISH, null=NullUsage.ALWAYS, cached=("cached_tokens",), reasoning="reasoning_tokens"
    ),
    reasoning=_REASONING,
    role=RolePlace.EVERY,
    repeats_text=True,
    completion_finish_reasons={"stop": "eos"},
    extras=Extras(
        choice={"logprobs": None, "finish_reason": None, "seed": None},
        finish_choice={"seed": 9_223_372_036_854_775_807},
        delta={"token_id": 71},
        finish_delta={"token_id": 128_009, "content": ""},
    ),
)

_CEREBRAS = Dialect(
    name="cerebras",
    usage=_FINISH,
    calls=CallShape(whole=True),
    reasoning=_REASONING,
    error=_NO_ERROR,
    extras=Extras(choice={}, finish={"time_info": _TIMES}),
)

_SNOWFLAKE = Dialect(
    name="snowflake",
    usage=UsageShape(members=OPENAI_DETAILS),
    reasoning=ReasoningShape(detail=True),
    error=_NO_ERROR,
    role=RolePlace.EVERY,
    refuses_apart=True,
    extras=Extras(
        chunk={"id": "", "created": 0, "service_tier": "", "system_fingerprint": ""},
        choice={"logprobs": {"content": None, "refusal": None}},
        delta={"content": "", "refusal": "", "tool_calls": None},
        call_delta={"content": "", "refusal": ""},
        finish_delta={"content": "", "refusal": "", "tool_calls": None},
    ),
)

_DATABRICKS = Dialect(
    name="databricks",
    usage=UsageShape(
        asked=UsagePlace.EVERY,
        unasked=UsagePlace.EVERY,
        partial=True,
        cached=("cache_read_input_tokens",),
        members={"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
    ),
    reasoning=ReasoningShape(part="reasoning"),
    error=_NO_ERROR,
    role=RolePlace.EVERY,
    extras=Extras(choice={"finish_reason": None}, finish_delta={"content": ""}),
)

_AVIAN = Dialect(
    name="avian",
    framing=Framing(spaced=True),
    usage=UsageShape(
        asked=UsagePlace.REPEAT,
        unasked=UsagePlace.REPEAT,
        members=OPENAI_DETAILS | {"cost": 0.0003},
    ),
    reasoning=ReasoningShape(member="reasoning_content", detail=True),
    error=_NO_ERROR,
    role=RolePlace.EVERY,
    extras=Extras(
        choice={"finish_reason": None, "native_finish_reason": None},
        finish_choice={"native_finish_reason": "stop"},
        delta={"content": ""},
        finish_delta={"content": ""},
    ),
    finishes_twice=True,
)

_VENICE = Dialect(
    name="venice",
    reasoning=ReasoningShape(member="reasoning_content"),
    usage=UsageShape(
        cached=("prompt_tokens_details.cached_tokens", "cache_read_input_tokens"),
    ),
    extras=Extras(
        first={"prompt_token_ids": None},
        choice={"logprobs": None, "finish_reason": None, "token_ids": None},
        finish_choice={"stop_reason": None},
        delta={"reasoning_content": None, "reasoning_encrypted": False},
        finish_delta={"content": "", "reasoning_content": None, "reasoning_encrypted": False},
        final={"cost": {"usd": 0.00016, "diem": 0}},
    ),
)

_DOUBLEWORD = Dialect(
    name="doubleword",
    reasoning=ReasoningShape(member="reasoning_content", detail=True),
    role=RolePlace.EVERY,
    usage=UsageShape(
        cached=("cache_read_input_tokens",),
        members={"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
    ),
    extras=Extras(choice={}),
    finishes_twice=True,
)

HOSTS = (
    _OPENROUTER,
    _VERCEL,
    _GROQ,
    _TOGETHER,
    Dialect(
        name="fireworks",
        usage=_FINISH,
        reasoning=ReasoningShape(member="reasoning_content"),
        extras=Extras(choice={"finish_reason": None}),
    ),
    _CEREBRAS,
    replace(_CEREBRAS, name="huggingface", framing=Framing(done=False)),
    Dialect(
        name="cloudflare",
        usage=_FINISH,
        error=_NO_ERROR,
        role=RolePlace.NONE,
        extras=Extras(choice={}),
    ),
    _SNOWFLAKE,
    _DATABRICKS,
    Dialect(
        name="bedrock-mantle",
        usage=UsageShape(asked=UsagePlace.BARE, unasked=UsagePlace.BARE),
        error=_NO_ERROR,
    ),
    _AVIAN,
    _VENICE,
    _DOUBLEWORD,
)
"""The dialects of the hosts. Hugging Face's router is shown with Cerebras behind it, without
end marker."""
