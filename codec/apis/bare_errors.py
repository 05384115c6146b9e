"""Errors that stand in no member ``error`` (``apis.md`` 1.7).

Only an API that has nothing else by these names may ask: to others they are members like any.
"""

from __future__ import annotations

from typing import Any

from codec.call import ErrorObject
from codec.error_objects import find_error
from codec.text.jsontext import compact_text

__all__ = ("find_bare_error",)


def find_bare_error(value: Any) -> ErrorObject | None:
    """Find the error of a body that is not an answer.

    Beside the usual forms (:func:`codec.error_objects.find_error`) ``{"message": …}`` of Cohere,
    and ``{"detail": …}`` of FastAPI, with which Jina, Voyage and Mistral are made.
    """
    if (error := find_error(value)) is not None or not isinstance(value, dict):
        return error
    message = value.get("message")
    if isinstance(message, str) and message:
        return ErrorObject(message=message, raw=value)
    detail = value.get("detail")
    if not detail:
        return None
    words = detail if isinstance(detail, str) else compact_text(detail)
    return ErrorObject(message=words, raw=value)
