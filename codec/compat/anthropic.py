"""Anthropic's stop reasons and usage in the codec's words (``docs/contract/sources.md#s4-22``)."""

from __future__ import annotations

from typing import Any

from codec.text.integers import count_of
from codec.usage import Usage

__all__ = ("decode_anthropic_usage", "normalise_stop_reason")

_FINISHES = {"end_turn": "complete", "max_tokens": "length", "tool_use": "tool_use"}


def normalise_stop_reason(stop_reason: str | None) -> str | None:
    """Return the normalised finish of a ``stop_reason``; others are ``unknown``."""
    return None if stop_reason is None else _FINISHES.get(stop_reason, "unknown")


def decode_anthropic_usage(raw: Any) -> Usage | None:
    """Read a usage object of the Messages API.

    Input tokens exclude cached ones there (``docs/contract/wire.md#counts``): the prompt is all
    three together, and the total, which that API does not report, is the prompt and the output.
    """
    if not isinstance(raw, dict) or all(value is None for value in raw.values()):
        return None
    uncached, read, written, completion = (
        count_of(raw.get(name))
        for name in (
            "input_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "output_tokens",
        )
    )
    prompt = None if uncached is None else count_of(uncached + (read or 0) + (written or 0))
    total = None if prompt is None or completion is None else count_of(prompt + completion)
    return Usage(
        prompt=prompt,
        completion=completion,
        total=total,
        cache_read=read,
        cache_write=written,
        raw=raw,
    )
