"""Judges how an exchange ended, by what the relay saw and what the codec understood.

This is the one place for the tables of ``docs/contract/promises.md#endings`` and
``docs/contract/spans.md#endings``. The rules apply in this order:

1. An upstream status >= 400 is an error, whatever came after it.
2. An error object in the body, or a finish reason that means one, is an error, [DONE] or not.
3. If an answer was due and something else came, that is an error
   (:class:`codec.no_answer.NoAnswer`). No byte, or half an answer, means that it broke off. No
   answer is due with the statuses 202, 204 and 205, or to a request that its API does not know. If
   the client left, the bytes that came until then are not judged.
4. A complete answer that reached the client is complete, whichever side closes next. Its API says
   what makes it complete (:class:`codec.said.Ending`): [DONE], or the finish reason of every choice
   that was asked for, and the usage. A stream that says that it stopped is complete if its bytes
   end cleanly. If the API marks no end, the stream is also complete if its client left with
   everything that came. Neither is complete if the bytes end within an event. An answer that says
   that somebody stopped it is cancelled: neither an error nor a success.
5. A part that was not read is not judged: a clean end of a body that was not observed whole counts
   as a complete answer, and the anomalies say why nothing more is known (R6).
6. A plain answer is whole if its framing says so. If only the end of the connection marks its end,
   it is whole if it can be read and does not say that it is open, as sound does: nothing else
   distinguishes it from one that broke off, or never came.
7. Otherwise the end that the relay saw decides. A client that we gave up because it stopped sending
   or reading has left, like a client that closes: the provider is not at fault, and the call is not
   a success. An anomaly distinguishes the two cases.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codec.no_answer import NoAnswer, find_message
from codec.said import Ending
from codec.text.jsontext import decode_json
from telemetry.frames.ending import CLEAN_ENDS, EndKind
from telemetry.observing.exchange import Outcome

if TYPE_CHECKING:
    from codec.said import ErrorObject, Said
    from telemetry.frames.frame import End
    from telemetry.observing.provider_words import Lack

_WORD = re.compile(r"[A-Za-z][A-Za-z_.-]{0,47}")
"""The form of an error's code or type that may be a metric label: a word, not an id or sentence."""

_NUMBER = re.compile(r"[0-9]{3,5}")
"""A numeric code that may be a label as well: OpenRouter sends HTTP statuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The judgement on an exchange.

    Attributes:
        error_type: one of few words (``docs/contract/spans.md#error-type``), ``None`` if it is not
            an error.
        error_message: what happened, in words.
        error_is_providers: the words are the provider's, not ours: they may quote content.
        anomaly: the name of anything else that was odd about the end.
    """

    outcome: Outcome
    error_type: str | None = None
    error_message: str | None = None
    error_is_providers: bool = False
    anomaly: str | None = None


_NOT_DUE = frozenset({202, 204, 205})
"""Statuses of success that promise no answer (RFC 9110, section 15.3)."""

_COMPLETED = Judgement(outcome=Outcome.COMPLETED)


def judge(
    *,
    end: End,
    status: int | None,
    streamed: bool,
    response: Said | None,
    error_body: str | None = None,
    unread: bool = False,
    delivered: bool = True,
    lack: Lack | None = None,
    due: bool = True,
) -> Judgement:
    """Judge an exchange by the rules above.

    Args:
        end: the end that the relay saw.
        status: of the answer, ``None`` if no head came.
        streamed: the answer was an event stream.
        response: what the codec understood.
        error_body: the text of a body with status >= 400.
        unread: some of the body was not observed: beyond a limit, or in an unknown coding.
        delivered: the bytes that made the answer complete reached the client.
        lack: what came in the place of an answer.
        due: an answer is due, because the API knows the request.
    """
    if status is None:
        return _judge_without_answer(end)
    if status >= 400:
        message = _provider_message(response, error_body)
        if message is None:
            return _error(Outcome.UPSTREAM_ERROR, str(status), f"HTTP status {status}")
        return _error(Outcome.UPSTREAM_ERROR, str(status), message, providers=True)
    if (error := _judge_content(response)) is not None:
        return error
    ending = response.ending(streamed=streamed) if response is not None else Ending.OPEN
    if ending is Ending.CANCELLED:
        return Judgement(outcome=Outcome.CANCELLED)
    is_complete = ending is Ending.COMPLETE and delivered
    if lack is not None and not unread and (is_complete or end.kind in CLEAN_ENDS):
        if due and _promises_answer(status):
            return _judge_lack(lack)
        if lack.kind is NoAnswer.OTHER:
            return _COMPLETED
    if is_complete:
        return _COMPLETED
    is_whole = ending is not Ending.OPEN
    if not streamed:
        is_whole = _is_whole(end, status, is_read=response is not None and is_whole)
    if end.kind in CLEAN_ENDS and (unread or is_whole):
        return _COMPLETED
    if ending is Ending.UNMARKED and delivered and end.kind is EndKind.CLIENT_GONE:
        return _COMPLETED
    gave_reason = response is not None and bool(response.finish_reasons)
    return _judge_broken(end, streamed=streamed, gave_reason=gave_reason)


def _judge_without_answer(end: End) -> Judgement:
    if end.kind is EndKind.UPSTREAM_INVALID:
        return _error(Outcome.UPSTREAM_ERROR, "invalid_response", end.message)
    if end.kind in {EndKind.CONNECT_ERROR, EndKind.UPSTREAM_CLOSED}:
        return _error(Outcome.CONNECT_ERROR, "connection_error", end.message)
    return _judge_broken(end)


def _judge_broken(end: End, *, streamed: bool = False, gave_reason: bool = False) -> Judgement:
    """Judge an answer that is not complete by the end that the relay saw."""
    match end.kind:
        case EndKind.CLIENT_GONE:
            return Judgement(outcome=Outcome.CLIENT_DISCONNECTED)
        case EndKind.CLIENT_STALLED | EndKind.REQUEST_TIMEOUT:
            return Judgement(outcome=Outcome.CLIENT_DISCONNECTED, anomaly=end.kind.value)
        case EndKind.TIMEOUT | EndKind.DRAIN_DEADLINE | EndKind.WORKER_LOST | EndKind.RELAY_ERROR:
            return _error(Outcome(end.kind.value), end.kind.value, end.message)
        case EndKind.UPSTREAM_EOF | EndKind.UPSTREAM_UNFRAMED_END:
            message = "the stream ended with neither an end marker nor any finish reason"
            if gave_reason:
                message = "the stream ended behind a finish reason, and before its own end"
            if not streamed:
                message = "the upstream closed the connection, and what came is not a whole answer"
            return _error(Outcome.TRUNCATED, "stream_truncated", message)
        case _:
            return _error(Outcome.TRUNCATED, "stream_truncated", end.message)


def _judge_content(response: Said | None) -> Judgement | None:
    """Find an error that the answer itself reports."""
    if response is None:
        return None
    if (error := response.error) is not None:
        label = _error_label(error)
        return _error(Outcome.STREAM_ERROR, label, error.message, providers=True)
    if (failed := response.failed_choice) is not None:
        index, word = failed
        message = f"the provider ended choice {index} with {word!r}"
        return _error(Outcome.STREAM_ERROR, word, message)
    return None


def _judge_lack(lack: Lack) -> Judgement:
    """Judge the bytes that came in the place of an answer."""
    match lack.kind:
        case NoAnswer.NOTHING:
            return _error(Outcome.TRUNCATED, "stream_truncated", "the answer has no byte")
        case NoAnswer.HALF:
            message = "the answer ended where the upstream said, and what came is half of one"
            return _error(Outcome.TRUNCATED, "stream_truncated", message)
        case NoAnswer.OTHER:
            word = Outcome.NOT_AN_ANSWER
            if lack.words is not None:
                return _error(word, word.value, lack.words, providers=True)
            return _error(word, word.value, "what came has nothing of an answer of this API")


def _error_label(error: ErrorObject) -> str:
    """Choose the error's code or type, if one has the form of a label."""
    words = [word for word in (error.code, error.type) if word]
    labels = (word for form in (_WORD, _NUMBER) for word in words if form.fullmatch(word))
    return next(labels, "stream_error")


def _is_whole(end: End, status: int, *, is_read: bool) -> bool:
    """Tell whether a plain answer that ended cleanly is whole, as far as is known."""
    framed = end.kind is EndKind.UPSTREAM_EOF
    return framed or is_read or not _promises_answer(status)


def _promises_answer(status: int) -> bool:
    """Tell whether a status means a success with an answer."""
    return 200 <= status < 300 and status not in _NOT_DUE


def _provider_message(response: Said | None, error_body: str | None) -> str | None:
    if response is not None and response.error is not None:
        return response.error.message
    text = (error_body or "").strip()
    try:
        return find_message(decode_json(text)) or text
    except ValueError:
        return text or None


def _error(
    outcome: Outcome, error_type: str, message: str | None, *, providers: bool = False
) -> Judgement:
    return Judgement(
        outcome=outcome,
        error_type=error_type,
        error_message=message or None,
        error_is_providers=providers,
    )
