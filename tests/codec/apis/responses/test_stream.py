"""``codec.apis.responses.stream`` and its fold: events to one response."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.responses import stream as stream_module
from codec.apis.responses.stream import ResponseStream
from codec.call import Ending
from codec.text.jsontext import encode_json
from tests.codec.apis.responses.events import (
    CALL,
    CREATED,
    MESSAGE,
    WHOLE,
    added,
    answer_of,
    delta,
    done,
    ended,
    write_event,
)
from tests.codec.test_error_objects import json_values

KINDS = st.sampled_from(
    [
        "created", "in_progress", "output_item.added", "output_item.done", "output_text.delta",
        "output_text.done", "reasoning_summary_text.delta", "function_call_arguments.delta",
        "completed", "incomplete", "failed", "image_generation_call.partial_image", "odd",
    ]
)  # fmt: skip
MEMBERS = st.sampled_from(
    ["response", "item", "output_index", "content_index", "summary_index", "delta", "text"]
)
TYPES = st.sampled_from(["message", "reasoning", "function_call", "web_search_call", "mcp_call"])
NAMES = st.sampled_from(
    [
        "id", "call_id", "role", "content", "summary", "arguments", "action", "status", "output",
        "usage", "error", "incomplete_details", "result", "name", "prompt", "tools", "model",
    ]
)  # fmt: skip
OBJECTS = st.dictionaries(
    NAMES,
    json_values | st.lists(st.dictionaries(NAMES, json_values, max_size=3), max_size=3),
    max_size=5,
)
VALUES = (
    json_values
    | st.builds(lambda kind, members: members | {"type": kind}, TYPES, OBJECTS)
    | OBJECTS
)


def test_rule_2_of_the_fold_an_open_item_is_put_together_from_its_deltas() -> None:
    """The stream broke off: what was said so far, and no finish reason."""
    answer = answer_of(CREATED, added(0, MESSAGE), delta("Hi "), delta("there"))
    assert answer.body["output"] == [WHOLE]
    assert (answer.finish_reasons, answer.ending(streamed=True)) == ([], Ending.OPEN)
    assert {"no_finish_reason", "no_usage"} <= set(answer.anomalies)


@pytest.mark.parametrize("begun", [{"status": "in_progress"}, {}])
@pytest.mark.parametrize("told", [{}, {"status": None}, {"id": "r"}, {"id": "r", "status": ""}])
@pytest.mark.parametrize("status", ["completed", "incomplete", "failed", "cancelled"])
def test_an_end_without_a_status_has_that_of_its_event(
    status: str, told: dict[str, Any], begun: dict[str, Any]
) -> None:
    """Whatever the response began with: a failed one is never taken for a whole one."""
    created = write_event("response.created", response={"id": "r", **begun})
    answer = answer_of(created, write_event(f"response.{status}", response=told))
    assert answer.status == status
    assert (answer.failed_choice is not None) is (status == "failed")


def test_rule_1_of_the_fold_items_are_known_by_their_index() -> None:
    """GitHub Copilot gives an item another id in each event, and Bedrock's parts begin at 1."""
    answer = answer_of(
        added(0, MESSAGE),
        delta("Hi ", item_id="x-1", content_index=1),
        delta("there", item_id="x-2", content_index=1),
        done(2, CALL | {"call_id": "c-2"}),
    )
    assert [item.get("call_id") for item in answer.items] == [None, "c-2"]
    assert answer.items[0]["content"] == WHOLE["content"]


def test_rule_1_of_the_fold_without_indexes_the_order_of_arrival_counts() -> None:
    """A delta belongs to the item of its id, or to the last one."""
    item = write_event("response.output_item.added", item=MESSAGE)
    call = write_event("response.output_item.done", item=CALL)
    text = write_event("response.output_text.delta", delta="Hi there", item_id="m-1")
    answer = answer_of(item, call, text)
    assert answer.items == [WHOLE, CALL]


@pytest.mark.parametrize("told", [[], [CALL]])
def test_rule_3_of_the_fold_items_that_the_end_lacks_stay(told: list[object]) -> None:
    """ChatGPT's Codex leaves all of them out; they stand in their order."""
    answer = answer_of(CREATED, done(0, WHOLE), done(1, CALL), ended(output=told))
    assert answer.items == [WHOLE, CALL]
    assert answer.id == "r-1"


def test_rule_3_of_the_fold_what_the_end_tells_wins() -> None:
    """Its items may have other ids, and there may be more of them."""
    told = [{"type": "mcp_list_tools"}, WHOLE | {"id": "m-2"}]
    assert answer_of(done(0, WHOLE), ended(output=told)).items == told
    assert answer_of(done(0, WHOLE), done(1, CALL), ended(output=[WHOLE | {"id": "x"}])).items == [
        WHOLE | {"id": "x"},
        CALL,
    ]


def test_rule_4_of_the_fold_the_last_response_that_ended_counts() -> None:
    """Some fixtures string several together."""
    first = (CREATED, done(0, WHOLE), ended(id="r-1"))
    second = (write_event("response.created", response={"id": "r-2"}), done(0, CALL))
    assert answer_of(*first, *second).id == "r-1"
    answer = answer_of(*first, *second, ended(id="r-2"))
    assert (answer.id, answer.items) == ("r-2", [CALL])
    assert "several_responses" in answer.anomalies


@pytest.mark.parametrize(
    "error",
    [
        write_event("error", code="overloaded", message="no room", param=None),
        write_event(
            "error", error={"type": "overloaded", "code": "overloaded", "message": "no room"}
        ),
    ],
)
def test_an_error_is_told_flat_or_nested_and_the_first_one_counts(error: bytes) -> None:
    """It is no chunk; a response that failed often follows (apis.md 2.4)."""
    stream = ResponseStream()
    stream.feed(CREATED + error + ended("failed", error={"code": "x", "message": "later"}))
    answer = stream.finish()
    assert answer.error is not None
    assert (answer.error.code, answer.error.message) == ("overloaded", "no room")
    assert stream.chunk_count == 2


def test_a_failure_tells_its_error_or_itself() -> None:
    """A failure without an object is one all the same."""
    answer = answer_of(CREATED, ended("failed", error={"code": "server_error", "message": "m"}))
    assert answer.error is not None
    assert answer.error.code == "server_error"
    assert answer_of(CREATED, ended("failed")).failed_choice == (0, "failed")


def test_a_cancelled_response_says_so() -> None:
    """No event is for it: an object with that status ends the stream."""
    answer = answer_of(write_event("response.incomplete", response={"status": "cancelled"}))
    assert answer.ending(streamed=True) is Ending.CANCELLED


def test_done_marks_and_padding_are_no_content() -> None:
    """OpenRouter sends ``[DONE]``; obfuscation is never kept."""
    stream = ResponseStream()
    stream.feed(CREATED + b"data: [DONE]\n\n")
    assert (stream.chunk_count, stream.has_content) == (1, False)
    seen = []
    for event in (added(0, MESSAGE), delta("Hi", obfuscation="secret")):
        stream.feed(event)
        seen.append(stream.has_content)
    assert seen == [False, True]
    assert "secret" not in encode_json(stream.finish().body)


def test_the_end_is_known_when_it_is_read() -> None:
    """Then nothing is missing, whoever closes next."""
    stream = ResponseStream()
    known = []
    for event in (CREATED + done(0, WHOLE), ended()):
        stream.feed(event)
        known.append(stream.is_complete)
    assert known == [False, True]


def test_half_an_event_is_dropped_and_noted() -> None:
    """Rule 4 of the reader."""
    answer = answer_of(CREATED, delta("Hi"), delta("there")[:-9])
    assert "event_cut_off" in answer.anomalies
    assert answer.items[0]["content"][0]["text"] == "Hi"


def test_a_picture_larger_than_an_event_may_be_is_counted_and_not_kept() -> None:
    """Many megabytes in one event take some kilobytes here, and what comes next is read."""
    picture = "iVBORw0KGgo" + "A" * (20 * 1024 * 1024)
    item = {"type": "image_generation_call", "id": "g-1", "result": picture, "status": "completed"}
    data = CREATED + done(0, item) + ended(output=[item])
    lent: list[int] = []

    def lend(size: int) -> bool:
        lent.append(size)
        return True

    step = 65_536
    answer = answer_of(*(data[at : at + step] for at in range(0, len(data), step)), lend=lend)
    assert answer.items[0]["result"] == f"<{len(picture)} base64 characters, image/png>"
    assert answer.anomalies == ("no_usage",)
    assert sum(lent) < 2 * 1024 * 1024


@pytest.mark.parametrize("cuts", [(), (20,), (20, 17 << 20), (-1,)], ids=repr)
def test_a_picture_is_counted_however_large_the_reads_are(cuts: tuple[int, ...]) -> None:
    """Also where a read holds the end of an event and the beginning of the next, or all of it."""
    picture = {"type": "image_generation_call", "id": "i-1", "result": "A" * (20 << 20)}
    data = CREATED + done(0, picture) + ended(usage={"input_tokens": 1, "output_tokens": 1})
    at = [0, *(cut % len(data) for cut in cuts), len(data)]
    answer = answer_of(*[data[start:end] for start, end in pairwise(at)])
    assert answer.items[0]["result"] == f"<{20 << 20} base64 characters>"
    assert answer.finish_reasons == [(0, "completed")]
    assert answer.usage is not None


def test_a_delta_counts_whatever_its_event_is_called() -> None:
    """The JSON's type does, and an index beyond 64 bits is none."""
    event = delta("there").replace(b"event: response.output_text.delta", b"event: foo")
    far = delta("x", content_index=2**70)
    whole = answer_of(CREATED, added(0, MESSAGE), delta("Hi "), event)
    assert whole.items == [WHOLE]
    assert answer_of(CREATED, added(0, MESSAGE), far) == answer_of(
        CREATED, added(0, MESSAGE), far.replace(b"response.output_text.delta\n", b"foo\n")
    )


def test_a_partial_picture_is_content_and_is_not_kept() -> None:
    """The first one is the first thing that a person sees."""
    kind = "response.image_generation_call.partial_image"
    stream = ResponseStream()
    stream.feed(CREATED + write_event(kind, output_index=0, partial_image_b64="A" * 40_000))
    assert stream.has_content
    assert not stream.finish().items


def test_past_its_limit_nothing_grows_and_the_end_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rule 5 of the fold: how it ended, and its counts."""
    monkeypatch.setattr(stream_module, "MAX_ANSWER_BYTES", 20_000)
    events = [delta("x" * 1_000) for _ in range(100)]
    usage = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}
    output = [MESSAGE | {"content": [{"type": "output_text", "text": "x" * 100_000}]}]
    answer = answer_of(CREATED, added(0, MESSAGE), *events, ended(output=output, usage=usage))
    assert "observer_limit" in answer.anomalies
    assert answer.usage is not None
    assert (answer.usage.completion, answer.finish_reasons) == (5, [(0, "completed")])
    assert 5_000 < len(answer.items[0]["content"][0]["text"]) < 20_000


def test_the_end_takes_the_place_of_what_streamed() -> None:
    """What it replaces is given back first: 10 MB are not held twice."""
    text = "x" * 9_000_000
    whole = MESSAGE | {"content": [{"type": "output_text", "text": text}]}
    answer = answer_of(CREATED, done(0, whole), ended(output=[whole]))
    assert answer.items == [whole]
    assert "observer_limit" not in answer.anomalies


def test_an_event_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before it is told."""
    monkeypatch.setattr(stream_module, "MAX_EVENT_BYTES", 10_000)
    answer = answer_of(CREATED, delta("Hi"), b"data: " + b"x" * 20_000, delta("there"))
    assert "observer_limit" in answer.anomalies
    assert answer.items[0]["content"][0]["text"] == "Hi"


def test_a_lender_without_room_ends_the_reading() -> None:
    """Others need the memory."""
    answer = answer_of(CREATED, *[delta("x" * 3_000) for _ in range(50)], lend=lambda _: False)
    assert "observer_limit" in answer.anomalies


@given(
    events=st.lists(st.tuples(KINDS, st.dictionaries(MEMBERS, VALUES, max_size=5)), max_size=8),
    size=st.integers(1, 300),
)
def test_nothing_raises_and_cuts_change_nothing(
    events: list[tuple[str, dict[str, object]]], size: int
) -> None:
    """Whatever stands in whatever member (rules 1 and 5 of the reader)."""
    written = [write_event(f"response.{kind}", **members) for kind, members in events]
    data = b"".join(written)
    whole, cut, usual = ResponseStream(), ResponseStream(), ResponseStream()
    whole.feed(data)
    for event in written:
        usual.feed(event)
    for at in range(0, len(data), size):
        cut.feed(data[at : at + size])
    answer, other = whole.finish(), cut.finish()
    assert repr(answer) == repr(other) == repr(usual.finish())  # NaN is not equal to itself
    assert whole.chunk_count == cut.chunk_count == usual.chunk_count
    for read in (answer.answers, answer.choices_of_answers, answer.finish_reasons, answer.refused):
        assert len(read) >= 0
    assert answer.read_tools() is not None
    assert answer.ending(streamed=True)


@given(data=st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    """Rule 1 of the reader."""
    assert answer_of(CREATED, delta("Hi"), data) is not None


def test_commands_of_a_shell_come_in_pieces() -> None:
    """Each by its own index, in the action of its item (apis.md 2.2)."""
    item = {"type": "shell_call", "id": "s", "action": {"commands": [], "timeout_ms": None}}
    kind = "response.shell_call_command"
    events = [
        CREATED,
        added(0, item),
        write_event(f"{kind}.added", command="", command_index=0, output_index=0),
        write_event(f"{kind}.delta", delta="ec", command_index=0, output_index=0),
        write_event(f"{kind}.delta", delta="ho", command_index=0, output_index=0),
        write_event(f"{kind}.delta", delta="ls", command_index=1, output_index=0),
        write_event(f"{kind}.done", command="ls", command_index=1, output_index=0),
        write_event(f"{kind}.done", command="pwd", command_index=2, output_index=0),
    ]
    for answer in (answer_of(*events), answer_of(b"".join(events))):
        [told] = answer.items
        assert told["action"] == {"commands": ["echo", "ls", "pwd"], "timeout_ms": None}
    stream = ResponseStream()
    for event in events[:3]:
        stream.feed(event)
    assert not stream.has_content
    stream.feed(events[3])
    assert stream.has_content


def test_what_else_comes_in_pieces_is_in_an_item_that_is_not_whole() -> None:
    """A patch, what a voice says, and the notes on a text."""
    patch = {"type": "apply_patch_call", "id": "p", "operation": {"type": "update_file"}}
    kind = "response.apply_patch_call_operation_diff"
    note = {"type": "url_citation", "url": "https://x.example"}
    answer = answer_of(
        CREATED,
        added(0, patch),
        write_event(f"{kind}.delta", delta="+a", output_index=0),
        write_event(f"{kind}.delta", delta="+b", output_index=0),
        added(1, MESSAGE),
        delta("Hi", 1),
        write_event(
            "response.output_text.annotation.added",
            annotation=note,
            output_index=1,
            content_index=0,
        ),
        added(2, MESSAGE),
        write_event("response.audio.transcript.delta", delta="Good "),
        write_event("response.audio.transcript.delta", delta="day"),
    )
    first, second, third = answer.items
    assert first["operation"] == {"type": "update_file", "diff": "+a+b"}
    assert second["content"] == [{"type": "output_text", "text": "Hi", "annotations": [note]}]
    assert third["content"] == [{"type": "output_audio", "transcript": "Good day"}]
