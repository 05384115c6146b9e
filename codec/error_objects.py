"""Errors that stand in bodies and events, found by their shape.

See ``docs/contract/wire.md#errors-in-a-200``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.budget import size_bytes
from codec.said import ErrorObject
from codec.text.jsontext import compact_text

if TYPE_CHECKING:
    from codec.budget import Budget

__all__ = ("MAX_FREE_ERROR_BYTES", "find_error", "fit_error")

MAX_FREE_ERROR_BYTES = 4 * 1024
"""The most that an error may take without asking for room; its words are always kept."""


def find_error(
    value: Any, event_name: str | None = None, comments: tuple[str, ...] = ()
) -> ErrorObject | None:
    """Find the error in the JSON value of an event or of a body.

    See ``docs/contract/wire.md#errors-in-a-200``.

    Args:
        value: the decoded data; ``None`` if the event had none.
        event_name: the event's name. The data of an ``error`` event is always an error.
        comments: the event's comments, where an ``error`` event without data may say what happened
            (Dynamo).
    """
    if isinstance(value, list) and value and isinstance(value[0], dict) and value[0].get("error"):
        value = value[0]  # Google front ends wrap the object in a list
    if isinstance(value, dict):
        error = value.get("error")
        if error:  # as in the SDK, any true value is an error; null and {} are not
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
    """Keep an error of a stream as far as there is room; without room, the beginning of its words.

    Args:
        error: as :func:`find_error` found it.
        budget: the room for all that is kept of the stream.
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
