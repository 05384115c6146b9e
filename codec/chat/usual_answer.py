"""The usual plain answer, read without folding it: one choice that says something and has ended.

Most bodies have this form. The fold (:mod:`codec.chat.accumulator`) would measure and merge values
that nobody looks at, because the body itself is kept. Without this module a plain chat costs
telemetry 15 % more CPU (234 µs instead of 204).

The result is what the fold would have read. Everything that the fold treats specially is left to
it: errors, several choices, deltas, calls, reasoning, content in parts, log probabilities, usage in
other places, and an answer that has not ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.chat.answer import ChatMessage, ChatResponse, Choice
from codec.chat.chunk import PROMISE_CALLS
from codec.chat.reasoning import REASONING_MEMBERS
from codec.cost import decode_cost
from codec.text.jsontext import encode_json
from codec.usage import decode_usage
from codec.usage_fold import MAX_USAGE_BYTES

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("MAX_USUAL_BYTES", "read_usual_answer")

MAX_USUAL_BYTES = 256 * 1024
"""Largest body. It is much longer than usual, and :data:`_WORST_GROWTH` times it is half of what
the fold accepts (``codec.budget.MAX_ANSWER_BYTES``), so no limit of the fold can be passed."""

_WORST_GROWTH = 32
"""A value is estimated (:mod:`codec.budget`) at most so many times the length of its JSON text: the
shortest member, ``"":{},``, has 6 bytes and is estimated at 160."""

_SMALL_BYTES = MAX_USAGE_BYTES // _WORST_GROWTH
_MAX_WORD_CHARACTERS = 256
"""The fold keeps finish reasons of this length, and longer ids and model names."""

_MAX_CREATED = 2**63
_IDENTITY = ("id", "model", "system_fingerprint", "service_tier")
_TEXT_OR_NONE = frozenset({str, type(None)})
_UNUSUAL = frozenset({"error", "type", "x_groq"})
_UNUSUAL_IN_CHOICE = frozenset({"delta", "usage"})
_UNUSUAL_IN_MESSAGE = (
    *("tool_calls", "function_call", "audio", "images", "reasoning_details"),
    *REASONING_MEMBERS,
)


def read_usual_answer(body: JsonObject, size_bytes: int) -> ChatResponse | None:
    """Read a plain answer of the usual form; ``None`` if it must be folded.

    Args:
        body: the whole answer; it is not changed, and the result shares it.
        size_bytes: the length of its JSON text.
    """
    choices = body.get("choices")
    if type(choices) is not list or len(choices) != 1 or size_bytes > MAX_USUAL_BYTES:
        return None
    if body.get("object") != "chat.completion" or not _UNUSUAL.isdisjoint(body):
        return None
    created = body.get("created")
    choice = _read_choice(choices[0])
    if choice is None or type(created) is not int or not 0 < created < _MAX_CREATED:
        return None
    words = [*map(body.get, _IDENTITY)]
    if not _TEXT_OR_NONE.issuperset(map(type, words)):
        return None
    if max(map(len, filter(None, words)), default=0) > _MAX_WORD_CHARACTERS:
        return None
    name, model, fingerprint, tier = words
    raw = body.get("usage")
    if size_bytes > _SMALL_BYTES and not _is_small(raw):
        return None
    usage = decode_usage(raw)
    return ChatResponse(
        id=name or None,
        model=model or None,
        created=created,
        system_fingerprint=fingerprint or None,
        service_tier=tier or None,
        choices=(choice,),
        usage=usage,
        cost=decode_cost(usage.raw if usage is not None else {}, body),
        anomalies=("no_usage",) if usage is None else usage.anomalies,
        body=body,
    )


def _read_choice(choice: Any) -> Choice | None:
    """Read the one choice; ``None`` if it is unusual."""
    if type(choice) is not dict or not _UNUSUAL_IN_CHOICE.isdisjoint(choice):
        return None
    message, reason = choice.get("message"), choice.get("finish_reason")
    if type(message) is not dict or any(map(message.get, _UNUSUAL_IN_MESSAGE)):
        return None
    if type(reason) is not str or not 0 < len(reason) <= _MAX_WORD_CHARACTERS:
        return None
    if choice.get("index") or choice.get("logprobs") or reason in PROMISE_CALLS:
        return None
    role, content, refusal = message.get("role"), message.get("content"), message.get("refusal")
    if not _TEXT_OR_NONE.issuperset((type(role), type(content), type(refusal))):
        return None
    return Choice(
        index=0,
        message=ChatMessage(role=role or None, content=content or None, refusal=refusal or None),
        finish_reason=reason,
    )


def _is_small(usage: Any) -> bool:
    """Tell whether a usage object is far below the limit that the fold has for it."""
    try:
        return len(encode_json(usage)) <= _SMALL_BYTES
    except ValueError:
        return False
