"""Recognises the chunks of a chat's stream among the JSON values of its events.

It judges by shape, never by the name of a host or a model
(``docs/contract/wire.md#chats-on-the-wire``).
"""

from __future__ import annotations

from typing import Any

__all__ = (
    "ERROR_FINISH_REASONS",
    "PROMISE_CALLS",
    "is_bare_value",
    "is_chunk",
    "is_plain_chunk",
    "is_usage_only",
)

ERROR_FINISH_REASONS = frozenset(
    {"error", "abort", "insufficient_system_resource", "network_error"}
)
"""Finish reasons that say that the answer failed (``docs/contract/promises.md#endings``)."""

PROMISE_CALLS = frozenset({"tool_calls", "function_call"})
"""Finish reasons that say that something is called."""

_KEEPS_USAGE_CHUNK = ("prompt_filter_results", "citations", "error")

_OF_USAGE_EVENTS = frozenset(
    {
        "choices",
        "cost",
        "created",
        "id",
        "latency_checkpoint",
        "model",
        "nvext",
        "object",
        "obfuscation",
        "p",
        "provider",
        "service_tier",
        "sla_metrics",
        "system_fingerprint",
        "timings",
        "usage",
        "x_groq",
    }
)
"""Members of usage events: those that chunks have besides choices, and what Azure (``obfuscation``,
``p``, ``latency_checkpoint``), Dynamo (``nvext``), Groq, Hugging Face (``sla_metrics``), llama.cpp
(``timings``), OpenRouter (``provider``) and Venice (``cost``) add."""


def is_usage_only(value: Any) -> bool:
    """Tell whether a chunk carries usage and nothing else of interest.

    Such a chunk (``docs/contract/promises.md#usage``) has a ``usage`` that is not null, no choice,
    and neither filter results, nor citations, nor an error. It may have a server's measurements
    (llama.cpp's ``timings``): clients fail on it all the same, for want of a choice. Choices may be
    ``[]``, null (Text Generation Inference), or absent (Bedrock Mantle, ROCm ATOM); a value without
    choices is such a chunk only if all its other members are null or known in usage events.
    """
    if not isinstance(value, dict) or value.get("usage") is None:
        return False
    if "choices" not in value:
        return all(name in _OF_USAGE_EVENTS for name, said in value.items() if said is not None)
    return value["choices"] in (None, []) and all(
        value.get(name) is None for name in _KEEPS_USAGE_CHUNK
    )


def is_bare_value(value: Any) -> bool:
    """Tell whether a value is text in Writer's form: ``{"value": "..."}`` and nothing else."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("value"), str)


def is_chunk(value: Any) -> bool:
    """Tell whether a value has a member that belongs to a chat completion or one of its chunks.

    Choices may be empty, null or missing (usage chunks of Bedrock Mantle and ROCm ATOM), and
    ``object`` may be empty or missing (Azure, Copilot, raw engines).
    """
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("choices"), list) or isinstance(value.get("usage"), dict):
        return True
    name = value.get("object")
    return isinstance(name, str) and name.startswith(("chat.completion", "text_completion"))


def is_plain_chunk(value: Any) -> bool:
    """Tell whether a value is a chunk (:func:`is_chunk`) with choices and surely without an error.

    Nearly all chunks are, so this checks little. It does not need the event's name.
    """
    return (
        type(value) is dict
        and type(value.get("choices")) is list
        and "error" not in value
        and "type" not in value
        and value.get("object") != "error"
    )
