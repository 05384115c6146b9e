"""Conversations on spans: session, metadata and links, as the service records them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.resources import Resource

from codec.text.jsontext import decode_json_object
from telemetry.conversation_position import ConversationForm
from telemetry.reading.stored_calls import open_calls
from telemetry.service import TelemetryService
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.store.store import Store
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.tap_frames import exchange_frames

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from telemetry.facts import CallColumns
    from telemetry.spans.otlp.decoding import DecodedSpan

ASKED = (user("Look"), calls("call_0"), result("call_0"))
TURNS = (
    ((user("Look"),), calls("call_0")),
    (ASKED, answer("It is there")),
    ((*ASKED, answer("It is there"), user("Thanks")), answer("Welcome")),
    ((user("Another"),), answer("Yes")),
)


LINKS = SpanRules(conversations=ConversationForm.LINKS)


def record(path: Path, rules: SpanRules) -> list[tuple[DecodedSpan, CallColumns]]:
    """The spans of all calls, and their columns, in the order of the calls."""
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), rules)
    with Store.open(path, delivers=False) as store:
        service = TelemetryService(recorder, store, rules=rules, now_ns=time.time_ns)
        for number, (messages, said) in enumerate(TURNS, 1):
            asked = json.dumps({"model": "m-1", "messages": messages}).encode()
            told = {"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}
            for frame in exchange_frames(json.dumps(told).encode(), number=number, asked=asked):
                service.feed(frame)
        service.commit()
    with open_calls(path) as reader:
        stored = [*reader.newest(len(TURNS))]
    return [(decode_spans(one.span)[0], one.summary.columns) for one in stored]


def test_calls_of_a_conversation_share_a_session(tmp_path: Path) -> None:
    """That of the first span; a lone question has none of all this."""
    recorded = record(tmp_path / "spans.db", LINKS)
    first, second, third, lone = (span for span, _ in recorded)
    session = f"conv-{first.span_id}"
    for span in (first, second, third):
        assert span.attributes["session.id"] == session
        assert span.attributes["gen_ai.conversation.id"] == session
    assert "session.id" not in lone.attributes
    assert "conversation" not in decode_json_object(lone.attributes["metadata"])
    assert [columns.session for _, columns in recorded] == [session, session, session, None]
    assert [columns.conversation for _, columns in recorded] == [1, 1, 1, 4]


def test_the_metadata_tell_the_place(tmp_path: Path) -> None:
    """Who named the session, the rule, the turn, the call, and what is new."""
    recorded = record(tmp_path / "spans.db", LINKS)
    told = [
        decode_json_object(span.attributes["metadata"])["conversation"] for span, _ in recorded[:3]
    ]
    assert told == [
        {"source": "inferred", "turn": 1, "call": 1, "new_messages": 1},
        {"source": "inferred", "rule": "state", "turn": 1, "call": 2, "new_messages": 1},
        {"source": "inferred", "rule": "state", "turn": 2, "call": 3, "new_messages": 1},
    ]


def test_a_span_links_to_the_one_before(tmp_path: Path) -> None:
    """Each stays in its own trace."""
    recorded = record(tmp_path / "spans.db", LINKS)
    first, second, third, lone = (span for span, _ in recorded)
    assert (first.links, lone.links) == ((), ())
    assert second.links == ((first.trace_id, first.span_id),)
    assert third.links == ((second.trace_id, second.span_id),)
    assert len({span.trace_id for span, _ in recorded}) == len(TURNS)


def test_off_leaves_calls_alone(tmp_path: Path) -> None:
    """Neither spans nor columns tell anything."""
    recorded = record(tmp_path / "spans.db", SpanRules(conversations=ConversationForm.OFF))
    for span, columns in recorded:
        assert "session.id" not in span.attributes
        assert span.links == ()
        assert (columns.conversation, columns.turn, columns.link_rule) == (None, None, None)


def test_a_defect_costs_no_span(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R2: the call is recorded as if it stood alone."""

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("telemetry.conversations.conversations.Conversations.follow", fail)
    recorded = record(tmp_path / "spans.db", LINKS)
    assert len(recorded) == len(TURNS)
    assert all("session.id" not in span.attributes for span, _ in recorded)
