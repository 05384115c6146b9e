"""Sampling options as a chat's parameters (``docs/contract/sources.md#s3-10``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.text.jsontext import JsonObject

__all__ = ("greedy_options", "top_k_options", "top_p_options")


def greedy_options(
    *,
    max_tokens: int = 0,
    repetition_penalty: float = 1.0,
    stop: Sequence[str] | None = None,
) -> JsonObject:
    """Parameters that always take the likeliest token: temperature 0."""
    return {"temperature": 0.0} | _common(max_tokens, repetition_penalty, stop)


def top_p_options(
    *,
    temperature: float,
    top_p: float,
    max_tokens: int = 0,
    repetition_penalty: float = 1.0,
    stop: Sequence[str] | None = None,
) -> JsonObject:
    """Parameters that sample among the likeliest tokens of a total probability."""
    common = _common(max_tokens, repetition_penalty, stop)
    return {"temperature": temperature, "top_p": top_p} | common


def top_k_options(
    *,
    top_k: int,
    max_tokens: int = 0,
    repetition_penalty: float = 1.0,
    stop: Sequence[str] | None = None,
) -> JsonObject:
    """Parameters that sample among a number of likeliest tokens (no member of OpenAI's)."""
    return {"top_k": top_k} | _common(max_tokens, repetition_penalty, stop)


def _common(max_tokens: int, repetition_penalty: float, stop: Sequence[str] | None) -> JsonObject:
    """Write the common parameters; a limit of 0 and a penalty of 1 mean none, and are not sent."""
    options: JsonObject = {}
    if max_tokens:
        options["max_tokens"] = max_tokens
    if repetition_penalty != 1.0:
        options["repeat_penalty"] = repetition_penalty
    if stop:
        options["stop"] = list(stop)
    return options
