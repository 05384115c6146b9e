"""How an exchange ended, judged from what the relay saw and what the codec understood.

One place for the table of ``design.md`` section 6 and ``span-contract.md`` 2.1. In order:

1. An upstream status >= 400 is an error, whatever came after it.
2. An error object in the body, or a finish reason that means one, is an error, [DONE] or not.
3. A complete answer is complete, whoever closes next: [DONE], or every choice's finish reason
   and the usage, having reached the client.
4. Otherwise the end that the relay saw decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codec.chunk import ERROR_FINISH_REASONS
from telemetry.exchange import EndKind, Outcome

if TYPE_CHECKING:
    from codec.response import ChatResponse
    from telemetry.frames import End

__all__ = ("Judgement", "judge")

_LOW_CARDINALITY = re.compile(r"[a-z][a-z0-9_.-]{0,47}")
"""What an error's type or code must look like to be a metric label: a word, no id, no sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The judgement.

    Attributes:
        outcome: what the exchange came to.
        error_type: the word of ``span-contract.md`` 2.1, ``None`` where it is no error.
        error_message: what happened, in words.
        anomaly: something noted besides.
    """

    outcome: Outcome
    error_type: str | None = None
    error_message: str | None = None


def judge(
    *,
    end: End,
    status: int | None,
    streamed: bool,
    response: ChatResponse | None,
    error_body: str | None,
) -> Judgement:
    """Judge an exchange; see the order in the module's docstring."""
    if status is None:
        return _judge_without_answer(end)
    if status >= 400:
        return Judgement(
            outcome=Outcome.UPSTREAM_ERROR,
            error_type=str(status),
            error_message=_provider_message(response, error_body) or f"HTTP status {status}",
        )
    if (error := _judge_content(response)) is not None:
        return error
    if _is_complete(response, streamed=streamed) and not end.undelivered:
        return Judgement(outcome=Outcome.COMPLETED)
    if end.kind is EndKind.UPSTREAM_EOF and not streamed:
        return Judgement(outcome=Outcome.COMPLETED)
    if end.kind is EndKind.UPSTREAM_EOF and response is not None and _any_finish(response):
        # Some server finishes one choice of several; the end itself was clean.
        return Judgement(outcome=Outcome.COMPLETED)
    return _judge_broken(end)


def _judge_without_answer(end: End) -> Judgement:
    if end.kind is EndKind.UPSTREAM_INVALID:
        return _error(Outcome.UPSTREAM_ERROR, "invalid_response", end.message)
    if end.kind in {EndKind.CONNECT_ERROR, EndKind.UPSTREAM_CLOSED}:
        return _error(Outcome.CONNECT_ERROR, "connection_error", end.message)
    return _judge_broken(end)


def _judge_broken(end: End) -> Judgement:
    """An answer that is not complete, by what the relay saw."""
    match end.kind:
        case EndKind.CLIENT_GONE:
            return Judgement(outcome=Outcome.CLIENT_DISCONNECTED)
        case EndKind.TIMEOUT:
            return _error(Outcome.TIMEOUT, "timeout", end.message)
        case EndKind.DRAIN_DEADLINE:
            return _error(Outcome.DRAIN_DEADLINE, "drain_deadline", end.message)
        case EndKind.RELAY_ERROR:
            return _error(Outcome.RELAY_ERROR, "relay_error", end.message)
        case EndKind.UPSTREAM_EOF:
            message = "the stream ended with neither [DONE] nor any finish reason"
            return _error(Outcome.TRUNCATED, "stream_truncated", message)
        case _:
            return _error(Outcome.TRUNCATED, "stream_truncated", end.message)


def _judge_content(response: ChatResponse | None) -> Judgement | None:
    """An error that the answer itself tells of."""
    if response is None:
        return None
    if (error := response.error) is not None:
        words = (word for word in (error.code, error.type) if word)
        kind = next((word for word in words if _LOW_CARDINALITY.fullmatch(word)), "stream_error")
        return _error(Outcome.STREAM_ERROR, kind, error.message)
    for choice in response.choices:
        if choice.finish_reason in ERROR_FINISH_REASONS:
            message = f"the provider ended choice {choice.index} with {choice.finish_reason!r}"
            return _error(Outcome.STREAM_ERROR, choice.finish_reason, message)
    return None


def _is_complete(response: ChatResponse | None, *, streamed: bool) -> bool:
    if response is None:
        return False
    if streamed:
        return response.done or (response.finished and response.usage is not None)
    return response.finished


def _any_finish(response: ChatResponse) -> bool:
    return any(choice.finish_reason is not None for choice in response.choices)


def _provider_message(response: ChatResponse | None, error_body: str | None) -> str | None:
    if response is not None and response.error is not None:
        return response.error.message
    return (error_body or "").strip() or None


def _error(outcome: Outcome, error_type: str, message: str | None) -> Judgement:
    return Judgement(outcome=outcome, error_type=error_type, error_message=message or None)
