"""The usage of a generator, as a dialect has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codec.dialects.profile import UsageShape
    from codec.text.jsontext import JsonObject

__all__ = ("shape_usage",)


def shape_usage(shape: UsageShape, usage: JsonObject, *, unfinished: bool = False) -> JsonObject:
    """Return a generator's usage object in a dialect's shape, more tokens to follow or not."""
    prompt, completion = usage["prompt_tokens"], usage["completion_tokens"]
    cached = usage.get("prompt_tokens_details", {}).get("cached_tokens")
    reasoning = usage.get("completion_tokens_details", {}).get("reasoning_tokens")
    if shape.reasoning_apart:
        completion -= reasoning or 0
    shaped: JsonObject = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": usage["total_tokens"],
    }
    if shape.partial and unfinished:
        shaped |= {"completion_tokens": None, "total_tokens": None}
    shaped |= {
        name: dict(member) if isinstance(member, dict) else member
        for name, member in shape.members.items()
    }
    if cached is not None:
        for path in shape.cached:
            _put(shaped, path, cached)
        if shape.uncached is not None:
            _put(shaped, shape.uncached, prompt - cached)
    if reasoning is not None and shape.reasoning is not None:
        _put(shaped, shape.reasoning, reasoning)
    return shaped


def _put(into: JsonObject, path: str, count: int) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        into = into.setdefault(parent, {})
    into[name] = count
