"""Finds faults of requests, and writes errors as OpenAI does.

The checks are as strict as OpenAI's where clients and proxies have to notice: no ``model``, neither
``messages`` nor ``prompt``, an ``n`` or ``max_tokens`` that makes no sense, ``stream_options``
without ``stream``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.generator import MAX_CHOICES
from codec.members import object_of

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("MAX_ALTERNATIVES", "build_error", "find_chat_fault", "find_completion_fault")

MAX_ALTERNATIVES = 20
"""The largest ``top_logprobs``: OpenAI's own limit."""


def build_error(
    message: str,
    *,
    error_type: str = "invalid_request_error",
    param: str | None = None,
    code: str | None = None,
) -> JsonObject:
    """Build an error body as OpenAI sends it."""
    return {"error": {"message": message, "type": error_type, "param": param, "code": code}}


def find_chat_fault(body: JsonObject) -> JsonObject | None:
    """Find the first thing wrong with a chat request: its error body, ``None`` for a good one."""
    if not isinstance(body.get("model"), str):
        return build_error("you must provide a model parameter")
    if "messages" not in body:
        return _missing("messages")
    messages = body["messages"]
    if not (isinstance(messages, list) and messages and all(isinstance(m, dict) for m in messages)):
        return _invalid("messages", "expected a non-empty array of objects")
    tools = body.get("tools") or []
    if not (isinstance(tools, list) and all(_is_tool(tool) for tool in tools)):
        return _invalid("tools", "expected an array of functions or custom tools, each with a name")
    if not isinstance(body.get("reasoning_effort"), str | None):
        return _invalid("reasoning_effort", "expected a string")
    if not isinstance(body.get("logprobs"), bool | None):
        return _invalid("logprobs", "expected a boolean")
    if not _is_count(body.get("top_logprobs"), 0, MAX_ALTERNATIVES):
        return _invalid("top_logprobs", f"expected an integer from 0 to {MAX_ALTERNATIVES}")
    return _find_common_fault(body, choices=1)


def find_completion_fault(body: JsonObject) -> JsonObject | None:
    """Find the first thing wrong with a request for a legacy completion, likewise."""
    if not isinstance(body.get("model"), str):
        return build_error("you must provide a model parameter")
    if "prompt" not in body:
        return _missing("prompt")
    prompt = body["prompt"]
    prompts = prompt if isinstance(prompt, list) else [prompt]
    if not (prompts and all(isinstance(text, str) for text in prompts)):
        return _invalid("prompt", "expected a string or a non-empty array of strings")
    if not _is_count(body.get("logprobs"), 0, MAX_ALTERNATIVES):
        return _invalid("logprobs", f"expected an integer from 0 to {MAX_ALTERNATIVES}")
    return _find_common_fault(body, choices=len(prompts))


def _find_common_fault(body: JsonObject, *, choices: int) -> JsonObject | None:
    if body.get("stream") is not True and body.get("stream_options") is not None:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        return build_error(message, param="stream_options")
    if not isinstance(body.get("stream_options") or {}, dict):
        return _invalid("stream_options", "expected an object")
    most = MAX_CHOICES // choices
    if most == 0 or not _is_count(body.get("n"), 1, most):
        return _invalid("n", f"expected at most {MAX_CHOICES} choices of all prompts, and one each")
    for name in ("max_tokens", "max_completion_tokens"):
        if not _is_count(body.get(name), 1):
            return _invalid(name, "expected a positive integer")
    return None


def _is_tool(value: object) -> bool:
    """Tell whether a value is a function or a custom tool, with a name."""
    members = object_of(value)
    named = object_of(members.get("custom" if "custom" in members else "function"))
    return isinstance(named.get("name"), str)


def _is_count(value: object, least: int, most: int | None = None) -> bool:
    """Tell whether a value is absent or an integer in a range; ``true`` is not one in JSON."""
    if value is None:
        return True
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return value >= least and (most is None or value <= most)


def _missing(name: str) -> JsonObject:
    message = f"Missing required parameter: '{name}'."
    return build_error(message, param=name, code="missing_required_parameter")


def _invalid(name: str, reason: str) -> JsonObject:
    return build_error(f"Invalid '{name}': {reason}.", param=name, code="invalid_value")
