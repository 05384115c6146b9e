"""The finish and the calls of a response (``docs/contract/sources.md#s4-23``)."""

from __future__ import annotations

from typing import Any

from codec.compat.tool_progress import ParsedCall, parse_call
from codec.members import list_of, object_of, string_of
from codec.text.jsontext import compact_text

__all__ = ("find_response_calls", "normalise_response_status")

_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def normalise_response_status(body: Any) -> str | None:
    """Return the normalised finish of a response object.

    A ``function_call`` item alone does not make it ``tool_use``: the status is that of the whole.
    """
    status = object_of(body).get("status")
    if status == "completed":
        return "complete"
    if status == "incomplete":
        reason = string_of(object_of(body.get("incomplete_details")).get("reason"))
        return _REASONS.get(reason or "", "unknown")
    return None if status is None else "unknown"


def find_response_calls(body: Any) -> tuple[ParsedCall, ...]:
    """Return the function calls of a response object; ``call_id`` is what a result names."""
    return tuple(
        parse_call(
            string_of(item.get("call_id")),
            string_of(item.get("name")),
            _arguments(item.get("arguments")),
        )
        for item in list_of(object_of(body).get("output"))
        if object_of(item).get("type") == "function_call"
    )


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else compact_text(value)
