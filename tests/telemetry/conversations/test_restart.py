"""Conversations over restarts and kills of telemetry, with a store and frames."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.resources import Resource

from telemetry.conversation_position import ConversationForm, KeptCalls
from telemetry.conversations.conversations import Conversations
from telemetry.conversations.memory import MAX_KNOWN_SPANS, SeenSpans
from telemetry.privacy.redaction import Redaction
from telemetry.privacy.switches import PrivacySwitches
from telemetry.reading.stored_calls import open_calls
from telemetry.service import TelemetryService
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.store.store import Store
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.conversations.test_saved_calls import made
from tests.telemetry.conversations.test_strangers import STRONG, TELLING
from tests.telemetry.exchanges import make_exchange
from tests.telemetry.tap_frames import exchange_frames

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from telemetry.facts import CallColumns
    from telemetry.frames.frame import Frame

ASKED = (user("Look"), calls(STRONG), result(STRONG))
TURNS = (
    ((user("Look"),), calls(STRONG)),
    (ASKED, answer(TELLING)),
    ((*ASKED, answer(TELLING), user("Thanks")), answer("Welcome")),
)
OFF = (("x-spantap-content", "off"),)


def frames(number: int, headers: Sequence[tuple[str, str]] = ()) -> list[Frame]:
    """All frames of a turn."""
    messages, said = TURNS[number - 1]
    asked = json.dumps({"model": "m-1", "messages": messages}).encode()
    told = {"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}
    return exchange_frames(
        json.dumps(told).encode(), number=number, asked=asked, request_headers=headers
    )


def open_service(store: Store, rules: SpanRules | None = None) -> TelemetryService:
    """A service as a start makes it."""
    rules = rules or SpanRules(conversations=ConversationForm.LINKS)
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), rules)
    return TelemetryService(recorder, store, rules=rules, now_ns=time.time_ns)


def record(
    path: Path,
    *numbers: int,
    rules: SpanRules | None = None,
    headers: Sequence[tuple[str, str]] = (),
    commits: bool = True,
) -> TelemetryService:
    """Record turns in a process of their own; one that is killed before it commits loses them."""
    with Store.open(path, delivers=False) as store:
        service = open_service(store, rules)
        for number in numbers:
            for frame in frames(number, headers):
                service.feed(frame)
        if commits:
            service.commit()
    return service


def columns(path: Path) -> list[CallColumns]:
    """The columns of all calls, in the order in which they were recorded."""
    with open_calls(path) as reader:
        return [one.summary.columns for one in reader.newest(100)]


def places(path: Path) -> list[tuple[int | None, int | None, str | None]]:
    """Conversation, turn and rule of each."""
    return [(one.conversation, one.turn, one.link_rule) for one in columns(path)]


def kept(path: Path) -> int:
    """How many calls something is kept of."""
    with Store.open(path, delivers=False) as store:
        return len(store.read_kept_calls(max_calls=100, max_spans=0).calls)


IN_ONE = [(1, 1, None), (1, 1, "state"), (1, 2, "state")]


@pytest.mark.parametrize("before", [1, 2])
def test_a_restart_in_the_middle_is_not_seen(path: Path, before: int) -> None:
    """Conversation, turn, session and links are as without one."""
    record(path, *range(1, before + 1))
    record(path, *range(before + 1, 4))
    assert places(path) == IN_ONE
    with open_calls(path) as reader:
        spans = [decode_spans(one.span)[0] for one in reader.newest(3)]
    assert {span.attributes["session.id"] for span in spans} == {f"conv-{spans[0].span_id}"}
    assert [span.links for span in spans] == [
        (),
        ((spans[0].trace_id, spans[0].span_id),),
        ((spans[1].trace_id, spans[1].span_id),),
    ]


def test_frames_that_come_again_after_a_kill_are_not_followed_again(path: Path) -> None:
    """What was committed keeps its place, and what was not gets the one that it had."""
    record(path, 1)
    record(path, 2, commits=False)
    service = record(path, 1, 2, 1)
    assert places(path) == IN_ONE[:2]
    assert service.conversations.remembered == 2
    record(path, 1, 2, 3, 2)
    assert places(path) == IN_ONE


def test_frames_that_come_again_in_one_process_are_not_followed_again(path: Path) -> None:
    """A worker that lost its connection sends all again."""
    service = record(path, 1, 1, 2, 1, 2, 3)
    assert places(path) == IN_ONE
    assert (service.conversations.remembered, service.conversations.ambiguous) == (3, 0)


def test_known_spans_have_a_limit() -> None:
    """The newest are known."""
    seen = SeenSpans()
    assert seen.note(*(f"{n:016x}" for n in range(MAX_KNOWN_SPANS + 5)))
    assert not seen.note(f"{MAX_KNOWN_SPANS + 4:016x}")
    assert seen.note(f"{0:016x}")
    assert len(seen._order) == len(seen._known) == MAX_KNOWN_SPANS


def test_a_call_whose_client_wants_no_content_recorded_is_in_memory_alone(path: Path) -> None:
    """Within one process it is followed; nothing is kept, and nothing looked for."""
    record(path, 1, 2, headers=OFF)
    assert places(path) == IN_ONE[:2]
    assert kept(path) == 0
    record(path, 3)
    assert places(path)[2] == (3, 1, None)


def test_who_wants_no_content_recorded_is_no_strangers_successor(path: Path) -> None:
    """What was recorded before may be another's."""
    record(path, 1, 2)
    record(path, 3, headers=OFF)
    assert places(path)[2] == (3, 1, None)


@pytest.mark.parametrize(
    "hides",
    [
        {"privacy": PrivacySwitches(hide_inputs=True)},
        {"privacy": PrivacySwitches(hide_output_text=True)},
        {"privacy": PrivacySwitches.everything()},
        {"redaction": Redaction({"word": "fails"})},
    ],
)
def test_nothing_is_kept_where_anything_is_hidden(path: Path, hides: dict[str, Any]) -> None:
    """By whatever setting; while the process lives its calls are followed."""
    rules = SpanRules(**hides)
    record(path, 1, 2, rules=rules)
    assert places(path) == IN_ONE[:2]
    assert kept(path) == 0
    assert rules.hides_content


def test_shorter_images_hide_nothing() -> None:
    """A limit of images, which are cut, keeps nothing from being kept."""
    assert not SpanRules(privacy=PrivacySwitches(base64_image_max_length=9)).hides_content


def test_a_call_that_was_deleted_is_forgotten_at_the_next_start(path: Path) -> None:
    """What went on from it begins a conversation."""
    record(path, 1, 2)
    with Store.open(path, delivers=False) as store:
        store.delete([1, 2])
    record(path, 3)
    assert places(path) == [(3, 1, None)]


def test_damaged_links_are_told_and_cost_nothing_else(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A line with their number; the calls are recorded all the same."""
    record(path, 1, 2)
    with Store.open(path, delivers=False) as store, store._file.use() as connection:
        connection.execute("UPDATE links SET data = substr(data, 2)")
    service = record(path, 3)
    assert places(path)[2] == (3, 1, None)
    assert service.conversations.unreadable == 2
    assert "2 calls from before the restart cannot be read" in caplog.text


def test_numbers_go_on_behind_those_that_are_kept() -> None:
    """Also where the store knows of smaller ones alone, for spans were dropped."""
    kept_calls = [made(number) for number in (3, 9, 7)]
    conversations = Conversations(lambda: 4, lambda **_: KeptCalls(key=b"k" * 32, calls=kept_calls))
    conversations.begin()
    followed = conversations.follow(make_exchange({"messages": [user("hi")]}))
    assert followed is not None
    assert followed.position.conversation == 10
    assert conversations.remembered == 4
