"""``telemetry.observing.judgement``: every ending.

Those of ``docs/contract/promises.md#endings`` and ``docs/contract/spans.md#endings``.
"""

from __future__ import annotations

from typing import Any

import pytest

from codec.chat.answer import ChatMessage, ChatResponse, Choice
from codec.said import Ending, ErrorObject, Said
from codec.usage import Usage
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import End
from telemetry.observing.exchange import Outcome
from telemetry.observing.judgement import judge

EOF = EndKind.UPSTREAM_EOF
UNFRAMED = EndKind.UPSTREAM_UNFRAMED_END
BROKEN = EndKind.UPSTREAM_BROKEN
GONE = EndKind.CLIENT_GONE
USAGE = Usage(prompt=1, completion=1, total=2)
NO_USAGE_YET = Usage(prompt=1)

_Row = tuple[Outcome, str | None]
OK: _Row = (Outcome.COMPLETED, None)
LEFT: _Row = (Outcome.CLIENT_DISCONNECTED, None)
CUT: _Row = (Outcome.TRUNCATED, "stream_truncated")


def answer(*finish_reasons: str | None, **members: Any) -> ChatResponse:
    """An answer with a choice for each finish reason."""
    choices = tuple(
        Choice(index=index, message=ChatMessage(content="x"), finish_reason=reason)
        for index, reason in enumerate(finish_reasons)
    )
    return ChatResponse(choices=choices, **members)


def outcome(
    kind: EndKind,
    response: ChatResponse | None = None,
    *,
    status: int | None = 200,
    streamed: bool = True,
    unread: bool = False,
    error_body: str | None = None,
    delivered: bool = True,
    **ending: Any,
) -> _Row:
    """Outcome and error type of an exchange."""
    judgement = judge(
        end=End(exchange=1, at_ns=1, kind=kind, **ending),
        status=status,
        streamed=streamed,
        response=response,
        error_body=error_body,
        unread=unread,
        delivered=delivered,
    )
    return judgement.outcome, judgement.error_type


FINISHED = answer("stop", usage=USAGE)
DONE = answer("stop", usage=USAGE, done=True)
PARTIAL = answer(None)
FAILED = answer(None, error=ErrorObject(message="engine died", code="engine_dead"), done=True)

STREAMS: dict[str, tuple[_Row, EndKind, ChatResponse, dict[str, Any]]] = {
    "complete": (OK, EOF, DONE, {}),
    "complete, no usage": (OK, EOF, answer("stop", done=True), {}),
    "a finish reason, but no [DONE] and no usage": (OK, EOF, answer("stop"), {}),
    "one of two finish reasons, clean end": (OK, EOF, answer("stop", None), {}),
    "[DONE] without any finish reason": (OK, EOF, answer(None, done=True), {}),
    "[DONE], then the upstream resets": (OK, BROKEN, DONE, {}),
    "[DONE], then the client closes": (OK, GONE, DONE, {}),
    "[DONE], then idle": (OK, EndKind.TIMEOUT, DONE, {}),
    "[DONE], then the drain deadline": (OK, EndKind.DRAIN_DEADLINE, DONE, {}),
    "finish reason and usage, then the client closes": (OK, GONE, FINISHED, {}),
    "finish reason and usage, then the upstream resets": (OK, BROKEN, FINISHED, {}),
    "finish reason without usage, then the client closes": (LEFT, GONE, answer("stop"), {}),
    "one of two finish reasons, then the client closes": (
        LEFT,
        GONE,
        answer("stop", None, usage=USAGE),
        {},
    ),
    "one of two choices, the other not begun, then the upstream resets": (
        CUT,
        BROKEN,
        answer("stop", usage=USAGE, choice_count=2),
        {},
    ),
    "both of two choices, then the upstream resets": (
        OK,
        BROKEN,
        answer("stop", "stop", usage=USAGE, choice_count=2),
        {},
    ),
    "one of two choices, clean end": (OK, EOF, answer("stop", usage=USAGE, choice_count=2), {}),
    "[DONE] after one of two choices": (OK, BROKEN, answer("stop", done=True, choice_count=2), {}),
    "a usage that does not count the answer yet, then the upstream resets": (
        CUT,
        BROKEN,
        answer("stop", usage=NO_USAGE_YET),
        {},
    ),
    "[DONE] that did not reach the client": (LEFT, GONE, DONE, {"delivered": False}),
    "finish reason without usage, then the upstream resets": (CUT, BROKEN, answer("stop"), {}),
    "broken framing": (CUT, BROKEN, PARTIAL, {}),
    "clean end with neither [DONE] nor a finish reason": (CUT, EOF, PARTIAL, {}),
    "clean end without any event": (CUT, EOF, answer(), {}),
    "idle": ((Outcome.TIMEOUT, "timeout"), EndKind.TIMEOUT, PARTIAL, {}),
    "the client went away": (LEFT, GONE, PARTIAL, {}),
    "the drain deadline": (
        (Outcome.DRAIN_DEADLINE, "drain_deadline"),
        EndKind.DRAIN_DEADLINE,
        PARTIAL,
        {},
    ),
    "a fault of ours": ((Outcome.RELAY_ERROR, "relay_error"), EndKind.RELAY_ERROR, PARTIAL, {}),
    "an error inside": ((Outcome.STREAM_ERROR, "engine_dead"), EOF, FAILED, {}),
    "an error inside, then the client closes": (
        (Outcome.STREAM_ERROR, "engine_dead"),
        GONE,
        FAILED,
        {"delivered": False},
    ),
    "an error inside, then the upstream resets": (
        (Outcome.STREAM_ERROR, "engine_dead"),
        BROKEN,
        FAILED,
        {},
    ),
    "nothing known of the rest, clean end": (OK, EOF, PARTIAL, {"unread": True}),
    "nothing known of the rest, broken": (CUT, BROKEN, PARTIAL, {"unread": True}),
    "nothing known of the rest, client gone": (LEFT, GONE, PARTIAL, {"unread": True}),
}


@pytest.mark.parametrize(("expected", "kind", "response", "members"), STREAMS.values(), ids=STREAMS)
def test_a_stream_is_judged_by_section_6(
    expected: _Row, kind: EndKind, response: ChatResponse, members: dict[str, Any]
) -> None:
    """Each row of the tables, and what has precedence where two apply."""
    assert outcome(kind, response, **members) == expected


PLAIN: dict[str, tuple[_Row, EndKind, ChatResponse | None, dict[str, Any]]] = {
    "complete": (OK, EOF, FINISHED, {}),
    "no finish reason": (OK, EOF, PARTIAL, {}),
    "no JSON": (OK, EOF, None, {}),
    "a redirect": (OK, EOF, None, {"status": 307}),
    "nothing": (OK, EOF, None, {"status": 204}),
    "whole, then the client closes": (OK, GONE, answer("stop"), {}),
    "fewer choices than asked for": (OK, GONE, answer("stop", choice_count=2), {}),
    "whole, but not delivered": (LEFT, GONE, FINISHED, {"delivered": False}),
    "in parts, then the client closes": (LEFT, GONE, None, {}),
    "in parts, then the upstream resets": (CUT, BROKEN, None, {}),
    "whole, and the connection's end ends it": (OK, UNFRAMED, FINISHED, {}),
    "no finish reason, and the connection's end ends it": (OK, UNFRAMED, PARTIAL, {}),
    "in parts or nothing, and the connection's end ends it": (CUT, UNFRAMED, None, {}),
    "not all read, and the connection's end ends it": (OK, UNFRAMED, None, {"unread": True}),
    "a redirect, and the connection's end ends it": (OK, UNFRAMED, None, {"status": 307}),
    "an error in it": ((Outcome.STREAM_ERROR, "engine_dead"), EOF, FAILED, {}),
}


@pytest.mark.parametrize(("expected", "kind", "response", "members"), PLAIN.values(), ids=PLAIN)
def test_a_plain_answer_is_judged_by_section_6(
    expected: _Row, kind: EndKind, response: ChatResponse | None, members: dict[str, Any]
) -> None:
    """Its framing says when it ends, or, where it has none, that it can be read."""
    assert outcome(kind, response, streamed=False, **members) == expected


@pytest.mark.parametrize(
    ("response", "expected"),
    [(answer("stop"), OK), (answer(None, done=True), OK), (PARTIAL, CUT), (answer(), CUT)],
)
def test_a_stream_without_framing_is_judged_as_one_with(
    response: ChatResponse, expected: _Row
) -> None:
    """[DONE] and finish reasons tell that it is whole."""
    assert outcome(UNFRAMED, response) == outcome(EOF, response) == expected


@pytest.mark.parametrize(("kind", "expected"), [(EOF, OK), (UNFRAMED, CUT), (GONE, LEFT)])
def test_an_answer_that_says_that_it_is_open_needs_framing(kind: EndKind, expected: _Row) -> None:
    """Bytes of sound have no end of their own."""

    class Sound(Said, frozen=True, kw_only=True):
        """Sound."""

        def ending(self, *, streamed: bool) -> Ending:
            assert not streamed
            return Ending.OPEN

    end = End(exchange=1, at_ns=1, kind=kind)
    judgement = judge(end=end, status=200, streamed=False, response=Sound())
    assert (judgement.outcome, judgement.error_type) == expected


class Unmarked(Said, frozen=True, kw_only=True):
    """A stream that told a reason, of an API that marks no end: Gemini's."""

    says: Ending = Ending.UNMARKED

    def ending(self, *, streamed: bool) -> Ending:
        assert streamed
        return self.says


UNDELIVERED = {"delivered": False}
UNMARKED: dict[str, tuple[_Row, EndKind, dict[str, Any]]] = {
    "clean end": (OK, EOF, {}),
    "the connection's end ends it": (OK, UNFRAMED, {}),
    "all came, and the client closes": (OK, GONE, {}),
    "the client closes, and more came": (LEFT, GONE, UNDELIVERED),
    "the client stopped reading": (LEFT, EndKind.CLIENT_STALLED, {}),
    "the client stopped reading, and more came": (LEFT, EndKind.CLIENT_STALLED, UNDELIVERED),
    "the upstream resets": (CUT, BROKEN, {}),
    "idle": ((Outcome.TIMEOUT, "timeout"), EndKind.TIMEOUT, {}),
    "the drain deadline": (
        (Outcome.DRAIN_DEADLINE, "drain_deadline"),
        EndKind.DRAIN_DEADLINE,
        {},
    ),
    "refused, and the client closes": ((Outcome.UPSTREAM_ERROR, "429"), GONE, {"status": 429}),
}


def judge_said(response: Said, kind: EndKind, **members: Any) -> _Row:
    """Outcome and error type of a stream that says this."""
    end = End(exchange=1, at_ns=1, kind=kind)
    known = {"status": 200, "streamed": True} | members
    judgement = judge(end=end, response=response, **known)
    return judgement.outcome, judgement.error_type


@pytest.mark.parametrize(("expected", "kind", "members"), UNMARKED.values(), ids=UNMARKED)
def test_a_stream_without_a_mark_is_whole_with_what_the_client_got(
    expected: _Row, kind: EndKind, members: dict[str, Any]
) -> None:
    """With a clean end, or a client that left with all that came.

    See ``docs/contract/apis.md#gemini-endings``.
    """
    assert judge_said(Unmarked(), kind, **members) == expected


@pytest.mark.parametrize("delivered", [True, False])
@pytest.mark.parametrize(
    ("says", "expected"),
    [(Ending.STOPPED, LEFT), (Ending.OPEN, LEFT), (Ending.CANCELLED, (Outcome.CANCELLED, None))],
)
def test_of_no_other_stream_is_a_client_that_left_enough(
    says: Ending, expected: _Row, *, delivered: bool
) -> None:
    """One that says that it stopped needs a clean end, whatever the client got."""
    assert judge_said(Unmarked(says=says), GONE, delivered=delivered) == expected


def test_an_error_in_a_stream_without_a_mark_is_one() -> None:
    """Whatever reason came before it, and though the client left with all."""
    response = Unmarked(error=ErrorObject(message="m", type="RESOURCE_EXHAUSTED"))
    assert judge_said(response, GONE) == (Outcome.STREAM_ERROR, "RESOURCE_EXHAUSTED")


@pytest.mark.parametrize("kind", EndKind)
@pytest.mark.parametrize("response", [None, FAILED, DONE])
def test_a_refusal_is_an_error_whatever_came_after_it(
    kind: EndKind, response: ChatResponse | None
) -> None:
    """The status decides before the client's leaving, the error inside and the end."""
    expected = (Outcome.UPSTREAM_ERROR, "429")
    assert outcome(kind, response, status=429, streamed=False) == expected
    assert outcome(kind, response, status=429, delivered=False) == expected


@pytest.mark.parametrize(
    ("response", "error_body", "message"),
    [
        (answer(error=ErrorObject(message="Slow down")), "{...}", "Slow down"),
        (None, "  <h1>Bad gateway</h1>\n", "<h1>Bad gateway</h1>"),
        (answer(), " ", "HTTP status 502"),
        (None, None, "HTTP status 502"),
    ],
)
def test_a_refusal_is_told_in_the_providers_words(
    response: ChatResponse | None, error_body: str | None, message: str
) -> None:
    """The error object's message, else the body, else the status."""
    judgement = judge(
        end=End(exchange=1, at_ns=1, kind=EOF),
        status=502,
        streamed=False,
        response=response,
        error_body=error_body,
    )
    assert judgement.error_message == message


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (EndKind.CONNECT_ERROR, (Outcome.CONNECT_ERROR, "connection_error")),
        (EndKind.UPSTREAM_CLOSED, (Outcome.CONNECT_ERROR, "connection_error")),
        (EndKind.UPSTREAM_INVALID, (Outcome.UPSTREAM_ERROR, "invalid_response")),
        (EndKind.TIMEOUT, (Outcome.TIMEOUT, "timeout")),
        (EndKind.CLIENT_GONE, LEFT),
        (EndKind.DRAIN_DEADLINE, (Outcome.DRAIN_DEADLINE, "drain_deadline")),
        (EndKind.RELAY_ERROR, (Outcome.RELAY_ERROR, "relay_error")),
    ],
)
def test_without_an_answer_the_relay_says_why(kind: EndKind, expected: _Row) -> None:
    """The rows of section 6 that come before any head, with the relay's own words."""
    assert outcome(kind, status=None) == expected
    judgement = judge(
        end=End(exchange=1, at_ns=1, kind=kind, message="why"),
        status=None,
        streamed=False,
        response=None,
    )
    assert judgement.error_message == (None if kind is GONE else "why")


@pytest.mark.parametrize(
    "reason", ["error", "abort", "insufficient_system_resource", "network_error"]
)
def test_a_finish_reason_that_means_an_error_is_one(reason: str) -> None:
    """Of any choice, [DONE] or not; the error type is that word."""
    expected = (Outcome.STREAM_ERROR, reason)
    assert outcome(EOF, answer("stop", reason, usage=USAGE, done=True)) == expected
    assert outcome(EOF, answer(reason), streamed=False) == expected
    assert outcome(GONE, answer(reason)) == expected


@pytest.mark.parametrize(
    ("code", "kind", "label"),
    [
        ("rate_limit_exceeded", "requests", "rate_limit_exceeded"),
        (None, "server_error", "server_error"),
        (None, "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"),
        ("500", "internal_error", "internal_error"),
        ("502", None, "502"),
        ("The engine has died", "x" * 49, "stream_error"),
        ("req_8f14e45fceea", None, "stream_error"),
        ("1234567", "", "stream_error"),
        (None, None, "stream_error"),
    ],
)
def test_an_error_inside_is_labelled_by_a_word_of_few_values(
    code: str | None, kind: str | None, label: str
) -> None:
    """Its code or type, a word before a number (``docs/contract/spans.md#error-type``)."""
    response = answer(None, error=ErrorObject(message="m", code=code, type=kind))
    assert outcome(EOF, response) == (Outcome.STREAM_ERROR, label)


def test_an_error_without_words_has_no_message() -> None:
    """An empty message is absent, not an empty text."""
    judgement = judge(
        end=End(exchange=1, at_ns=1, kind=BROKEN), status=200, streamed=True, response=None
    )
    assert judgement.error_message is None
    assert judgement.error_type == "stream_truncated"
