"""What the JSON of one event says: an end, an error, a usage report, or a piece of an answer.

Everything here judges by shape, never by the name of a host or a model (``dialects.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.budget import size_bytes
from codec.call import ErrorObject
from codec.text.jsontext import compact_text

if TYPE_CHECKING:
    from codec.budget import Budget

__all__ = (
    "ERROR_FINISH_REASONS",
    "MAX_FREE_ERROR_BYTES",
    "find_error",
    "fit_error",
    "is_bare_value",
    "is_chunk",
    "is_done",
    "is_plain_chunk",
    "is_usage_only",
)

ERROR_FINISH_REASONS = frozenset(
    {"error", "abort", "insufficient_system_resource", "network_error"}
)
"""Finish reasons that say that the answer failed (``design.md`` section 6)."""

MAX_FREE_ERROR_BYTES = 4 * 1024
"""What an error may take that no room is asked for: its words are the least that is kept."""

_KEEPS_USAGE_CHUNK = ("prompt_filter_results", "citations", "error")


def is_done(data: bytes) -> bool:
    """Tell whether the data of an event is the end marker.

    As the official Python SDK has it: all that *starts* with ``[DONE]``.
    """
    return data.startswith(b"[DONE]")


def is_usage_only(value: Any) -> bool:
    """Tell whether a chunk carries usage and nothing else of interest (``design.md`` section 4).

    That is ``choices: []``, a ``usage`` that is not null, and neither filter results, nor
    citations, nor an error. What a server measured (llama.cpp's ``timings``) does not keep a
    client from falling over a chunk without a choice.
    """
    return (
        isinstance(value, dict)
        and value.get("choices") == []
        and value.get("usage") is not None
        and all(value.get(key) is None for key in _KEEPS_USAGE_CHUNK)
    )


def is_bare_value(value: Any) -> bool:
    """Tell whether a value is text in Writer's form: ``{"value": "..."}`` and no more."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("value"), str)


def is_chunk(value: Any) -> bool:
    """Tell whether a value has anything that belongs to a chat completion or one of its chunks.

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

    Nearly all are, so this asks for little. It does without the event's name.
    """
    return (
        type(value) is dict
        and type(value.get("choices")) is list
        and "error" not in value
        and "type" not in value
        and value.get("object") != "error"
    )


def find_error(
    value: Any, event_name: str | None = None, comments: tuple[str, ...] = ()
) -> ErrorObject | None:
    """Find the error in the JSON value of an event or of a body (``dialects.md`` section 4).

    Args:
        value: the decoded data; ``None`` where the event had none.
        event_name: the event's name. Whatever an ``error`` event carries is an error.
        comments: the event's comments, in which an ``error`` event without data may say what
            happened (Dynamo).
    """
    if isinstance(value, list) and value and isinstance(value[0], dict) and value[0].get("error"):
        value = value[0]  # Google front ends wrap the object in a list
    if isinstance(value, dict):
        error = value.get("error")
        if error:  # the SDK's rule: any true value; "error": null or {} are none
            return _from_member(error, value)
        if value.get("object") == "error" or value.get("type") == "error":
            return _from_object(value)
    if event_name != "error":
        return None
    if isinstance(value, dict) and value:
        return _from_object(value)
    message = compact_text(value) if value else " ".join(comments)
    return ErrorObject(message=_word(value) or message or "error", raw=value)


def fit_error(error: ErrorObject, budget: Budget) -> ErrorObject:
    """Keep an error of a stream as far as there is room: without any, the beginning of its words.

    Args:
        error: as :func:`find_error` found it.
        budget: of all that is kept of the stream.
    """
    words = [word for word in (error.message, error.type, error.code) if word]
    size = size_bytes(error.raw) + sum(map(len, words))
    wide = 0 if error.message.isascii() else 3 * len(error.message)
    if size <= MAX_FREE_ERROR_BYTES or budget.reserve(size, wide):
        return error
    message, kind, code = (
        word and word[:MAX_FREE_ERROR_BYTES] for word in (error.message, error.type, error.code)
    )
    return ErrorObject(message=message or "error", type=kind, code=code)


def _from_member(error: Any, parent: dict[str, Any]) -> ErrorObject:
    if isinstance(error, dict):
        return _from_object(error)
    return ErrorObject(
        message=_word(error) or compact_text(error),
        type=_word(parent.get("error_type")),  # TGI
        code=_word(parent.get("code")),
        raw=error,
    )


def _from_object(error: dict[str, Any]) -> ErrorObject:
    kind = _word(error.get("type"))
    return ErrorObject(
        message=_word(error.get("message")) or compact_text(error),
        type=_word(error.get("status")) if kind in {None, "error"} else kind,
        code=_word(error.get("code")),
        raw=error,
    )


def _word(value: Any) -> str | None:
    """A string that is not empty, or a number as text."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return compact_text(value)
    return None
