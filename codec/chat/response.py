"""Plain (not streamed) answers of chats.

:func:`decode_response` folds the body as if it were the one chunk of a stream, so that the same
answer gives the same values whether it was streamed or not (``docs/contract/sources.md#s4-19``).
An answer of the usual form is read in a shorter way (:mod:`codec.chat.usual_answer`).
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any

from codec.bodies import decode_response_object
from codec.chat.accumulator import Accumulator
from codec.chat.spoken import shorten_sound
from codec.chat.usual_answer import read_usual_answer

if TYPE_CHECKING:
    from codec.chat.answer import ChatResponse
    from codec.text.jsontext import JsonObject

__all__ = ("decode_response", "fold_body")


def decode_response(body: bytes) -> ChatResponse:
    """Decode the body of a response, or of an error.

    White space around the JSON is ignored: DeepSeek sends blank lines while a request is queued
    (``docs/contract/wire.md#dialects``). The object is kept as it came in ``body``, except for
    long sound.

    Raises:
        MalformedResponse: it is not a JSON object in UTF-8. A list that holds an error object
            (Google front ends, ``docs/contract/wire.md#error-in-a-list``) is read as that object.
    """
    value = decode_response_object(body)
    return read_usual_answer(value, len(body)) or _fold(value)


def _fold(body: JsonObject) -> ChatResponse:
    """Fold an answer of any form; its ``body`` is what came, except for long sound."""
    accumulator = Accumulator(is_plain=True)
    accumulator.feed_body(_without_deltas(body), body=_without_sound(body))
    return accumulator.response()


def fold_body(body: JsonObject) -> ChatResponse:
    """Fold a whole answer. Its ``body`` is folded, too, and says the same if it is folded again.

    Args:
        body: the body of a plain answer, or of a folded stream; it is not changed.
    """
    accumulator = Accumulator(is_plain=True)
    accumulator.feed(_without_deltas(body))
    return accumulator.response()


def _without_sound(body: JsonObject) -> JsonObject:
    choices = body.get("choices")
    if not isinstance(choices, list):
        return body
    shorter = [shorten_sound(one) if isinstance(one, dict) else one for one in choices]
    is_same = all(map(is_, shorter, choices))
    return body if is_same else body | {"choices": shorter}


def _without_deltas(body: JsonObject) -> JsonObject:
    """Leave out the delta beside a whole message (Perplexity sends an empty delta)."""
    choices = body.get("choices")
    if not isinstance(choices, list) or not any(map(_has_both, choices)):
        return body
    return body | {"choices": [_without_delta(choice) for choice in choices]}


def _has_both(choice: Any) -> bool:
    return (
        isinstance(choice, dict) and "delta" in choice and isinstance(choice.get("message"), dict)
    )


def _without_delta(choice: Any) -> Any:
    if not _has_both(choice):
        return choice
    return {key: value for key, value in choice.items() if key != "delta"}
