"""Inference engines that people run themselves (``docs/contract/wire.md#dialects``)."""

from __future__ import annotations

from dataclasses import replace

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

__all__ = ("ENGINES",)

_TWICE = ErrorShape(form=ErrorForm.OBJECT, body_form=ErrorForm.OBJECT, done=True)
_REASONING_CONTENT = ReasoningShape(member="reasoning_content")

_VLLM = Dialect(
    name="vllm",
    usage=UsageShape(continuous=True),
    reasoning=ReasoningShape(member="reasoning"),
    error=_TWICE,
    extras=Extras(
        first={"prompt_token_ids": None},
        choice={"logprobs": None, "finish_reason": None, "token_ids": None},
        finish_choice={"stop_reason": None},
    ),
)

_SGLANG = Dialect(
    name="sglang",
    usage=UsageShape(null=NullUsage.ALWAYS, continuous=True, reasoning="reasoning_tokens"),
    reasoning=_REASONING_CONTENT,
    error=ErrorShape(done=True),
    role=RolePlace.NULL_LATER,
    extras=Extras(
        choice={"logprobs": None, "finish_reason": None, "matched_stop": None},
        finish_choice={"matched_stop": 151_645},
        delta={"content": None, "reasoning_content": None, "tool_calls": None},
        call_delta={"content": None, "reasoning_content": None},
        finish_delta={"content": None, "reasoning_content": None, "tool_calls": None},
    ),
    finishes_twice=True,
)

_TGI = Dialect(
    name="tgi",
    usage=UsageShape(null=NullUsage.ALWAYS, cached=()),
    calls=CallShape(
        joined=True, later={"type": "function"}, later_function={"name": None}, repeats_id=True
    ),
    error=ErrorShape(form=ErrorForm.TEXT, body_form=ErrorForm.TEXT),
    role=RolePlace.EVERY,
    finish_reasons={"tool_calls": "stop"},
    completion_finish_reasons={"stop": "eos_token"},
    extras=Extras(
        chunk={"id": "", "system_fingerprint": "3.1.2-dev0-native"},
        delta={"tool_calls": None},
        finish_delta={"content": "", "tool_calls": None},
    ),
)

_OLLAMA = Dialect(
    name="ollama",
    usage=UsageShape(cached=()),
    calls=CallShape(whole=True),
    reasoning=ReasoningShape(member="reasoning", members={"content": ""}),
    error=ErrorShape(form=ErrorForm.NOTHING),
    extras=Extras(
        chunk={"system_fingerprint": "fp_ollama"},
        choice={"finish_reason": None},
        call_delta={"content": ""},
    ),
)

_LLAMA_CPP = Dialect(
    name="llama.cpp",
    usage=UsageShape(asked=UsagePlace.EACH_CHOICE, cached=()),
    calls=CallShape(joined=True),
    reasoning=_REASONING_CONTENT,
    extras=Extras(
        chunk={"system_fingerprint": "b7010-c27efd2bd"},
        choice={"finish_reason": None},
        final={"timings": {"prompt_n": 9, "prompt_ms": 8.5, "predicted_n": 4, "predicted_ms": 41}},
    ),
)

_NIM = Dialect(
    name="nim",
    framing=Framing(comments=(": ready",), comment_between=": still here"),
    reasoning=_REASONING_CONTENT,
    role=RolePlace.NULL_LATER,
    extras=Extras(delta={"tool_calls": []}, finish_delta={"content": "", "tool_calls": []}),
)

_GPUSTACK = Dialect(
    name="gpustack",
    framing=Framing(done=False),
    usage=UsageShape(
        asked=UsagePlace.FINISH,
        unasked=UsagePlace.FINISH,
        null=NullUsage.ALWAYS,
        members={"tokens_per_second": 61.5, "draft_tokens": 0},
    ),
    reasoning=_REASONING_CONTENT,
    role=RolePlace.NONE,
    extras=Extras(choice={"finish_reason": None}, finish_delta={"content": ""}),
)

ENGINES = (
    _VLLM,
    _SGLANG,
    _TGI,
    _OLLAMA,
    _LLAMA_CPP,
    _NIM,
    _GPUSTACK,
    replace(_VLLM, name="crusoe", usage=UsageShape(), error=ErrorShape(done=True)),
)
"""The dialects of the engines, and those of hosts that show the engine as it is."""
