"""``codec.apis.responses.stream`` and its fold: events to one response."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.responses import stream as stream_module
from codec.apis.responses.stream import ResponseStream
from codec.said import Ending
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


def test_an_open_item_is_put_together_from_its_deltas() -> None:
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


def test_items_are_known_by_their_index() -> None:
    """GitHub Copilot gives an item another id in each event, and Bedrock's parts begin at 1."""
    answer = answer_of(
        added(0, MESSAGE),
        delta("Hi ", item_id="x-1", content_index=1),
        delta("there", item_id="x-2", content_index=1),
        done(2, CALL | {"call_id": "c-2"}),
    )
    assert [item.get("call_id") for item in answer.items] == [None, "c-2"]
    assert answer.items[0]["content"] == WHOLE["content"]


def test_without_indexes_the_order_of_arrival_counts() -> None:
    """A delta belongs to the item of its id, or to the last one."""
    item = write_event("response.output_item.added", item=MESSAGE)
    call = write_event("response.output_item.done", item=CALL)
    text = write_event("response.output_text.delta", delta="Hi there", item_id="m-1")
    answer = answer_of(item, call, text)
    assert answer.items == [WHOLE, CALL]


@pytest.mark.parametrize("told", [[], [CALL]])
def test_items_that_the_end_lacks_stay(told: list[object]) -> None:
    """ChatGPT's Codex leaves all of them out; they stand in their order."""
    answer = answer_of(CREATED, done(0, WHOLE), done(1, CALL), ended(output=told))
    assert answer.items == [WHOLE, CALL]
    assert answer.id == "r-1"


def test_what_the_end_tells_wins() -> None:
    """Its items may have other ids, and there may be more of them."""
    told = [{"type": "mcp_list_tools"}, WHOLE | {"id": "m-2"}]
    assert answer_of(done(0, WHOLE), ended(output=told)).items == told
    assert answer_of(done(0, WHOLE), done(1, CALL), ended(output=[WHOLE | {"id": "x"}])).items == [
        WHOLE | {"id": "x"},
        CALL,
    ]


@pytest.mark.parametrize("first_end", [ended(id="r-1"), b""])
def test_the_last_response_counts(first_end: bytes) -> None:
    """Some fixtures string several together; where the last one is cut, the stream is."""
    events = (
        *(CREATED, done(0, WHOLE), first_end),
        *(write_event("response.created", response={"id": "r-2"}), done(0, CALL)),
    )
    cut, answer = answer_of(*events), answer_of(*events, ended(id="r-2"))
    for one in (cut, answer):
        assert (one.id, one.items) == ("r-2", [CALL])
        assert "several_responses" in one.anomalies
    assert cut.ending(streamed=True) is Ending.OPEN
    assert (cut.finish_reasons, answer.finish_reasons) == ([], [(0, "completed")])


def test_another_id_before_the_end_is_no_other_response() -> None:
    """GitHub Copilot has another one in each event, and some servers repeat the beginning."""
    started = write_event("response.in_progress", response={"id": "x", "status": "in_progress"})
    answer = answer_of(CREATED, done(0, WHOLE), started, CREATED.replace(b"r-1", b""), ended())
    assert (answer.id, answer.items) == ("x", [WHOLE])
    assert answer.anomalies == ("no_usage",)


@pytest.mark.parametrize("kind", ["created", "queued", "in_progress", "completed"])
@pytest.mark.parametrize("told", [{}, {"model": None, "usage": None, "id": None}, {"model": ""}])
def test_what_is_not_told_again_stands(kind: str, told: dict[str, Any]) -> None:
    """Whatever event of the response lacks it, or has null in its place."""
    begun = {"id": "r-1", "model": "m-1", "service_tier": "flex", "metadata": {"a": "b"}}
    usage = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}
    first = write_event("response.created", response=begun | {"usage": usage})
    again = write_event(f"response.{kind}", response=told)
    end = ended(object=None)
    for answer in (answer_of(first, again), answer_of(first, again, end)):
        assert {name: answer.body[name] for name in begun} == begun
        assert (answer.model, answer.usage.total, answer.service_tier) == ("m-1", 8, "flex")


def test_an_end_that_is_told_twice_keeps_what_the_first_one_said() -> None:
    """The items of the first end stay where the second one has none; it is one response."""
    answer = answer_of(CREATED, ended(id="r-1", output=[WHOLE, CALL]), ended(id="r-1", output=[]))
    assert answer.items == [WHOLE, CALL]
    assert "several_responses" not in answer.anomalies


OTHER_CALL = CALL | {"id": "i-2", "call_id": "c-2", "arguments": '{"a":1}'}
NAMELESS = {"type": "message", "role": "assistant", "content": []}


def arguments(text: str, item: dict[str, Any]) -> bytes:
    """A piece of a call's arguments, at index 0."""
    return delta(text, kind="function_call_arguments", item_id=item.get("id"))


@pytest.mark.parametrize("told", [[], [CALL], [OTHER_CALL], None])
@pytest.mark.parametrize("are_done", [False, True])
@pytest.mark.parametrize("size", [1, 50, 1 << 20])
def test_an_item_at_a_used_index_is_a_further_one(
    size: int, told: list[Any] | None, *, are_done: bool
) -> None:
    """Some servers give all the index 0; what was said stays, done or not, cut or not."""
    empty = [CALL | {"arguments": ""}, OTHER_CALL | {"arguments": ""}]
    events = [
        *(CREATED, added(0, MESSAGE), *[delta("Hi ")] * 300, delta("there")),
        *([done(0, LONG)] if are_done else []),
        *(added(0, empty[0]), arguments("{", CALL), arguments("}", CALL)),
        *([done(0, CALL)] if are_done else []),
        *(added(0, empty[1]), arguments('{"a":', OTHER_CALL), arguments("1}", OTHER_CALL)),
        *([done(0, OTHER_CALL)] if are_done else []),
        *([] if told is None else [ended(output=told)]),
    ]
    data = b"".join(events)
    answer = answer_of(*[data[at : at + size] for at in range(0, len(data), size)])
    assert answer.items == [LONG, CALL, OTHER_CALL]


LONG = MESSAGE | {"content": [{"type": "output_text", "text": "Hi " * 300 + "there"}]}


def test_events_of_items_with_one_index_are_told_apart_by_their_ids() -> None:
    """Pieces of calls that come by turns, and the end of one that began first."""
    empty = [one | {"arguments": ""} for one in (CALL, OTHER_CALL)]
    events = [
        *(CREATED, added(0, MESSAGE), delta("Hi there", item_id="m-1")),
        *(added(0, empty[0]), added(0, empty[1]), arguments('{"a"', OTHER_CALL)),
        *(arguments("{", CALL), arguments(":1}", OTHER_CALL), arguments("}", CALL)),
    ]
    assert answer_of(*events).items == [WHOLE, CALL, OTHER_CALL]
    ends = [done(0, OTHER_CALL), done(0, WHOLE | {"status": "completed"}), done(0, CALL)]
    whole = [WHOLE | {"status": "completed"}, CALL, OTHER_CALL]
    assert answer_of(*events, *ends).items == whole
    assert answer_of(*events, *ends, ended()).items == whole


@pytest.mark.parametrize("has_index", [False, True])
def test_items_that_are_only_done_are_all_there(*, has_index: bool) -> None:
    """Whether they have ids or none; one that is told twice is one."""
    place = {"output_index": 0} if has_index else {}
    items = [WHOLE, CALL, OTHER_CALL, NAMELESS | {"content": "a"}, NAMELESS | {"content": "b"}]
    kind = "response.output_item.done"
    events = [write_event(kind, item=item, **place) for item in items for _ in range(2)]
    assert answer_of(CREATED, *events).items == items


def test_items_without_ids_at_one_index_are_told_apart_by_their_words() -> None:
    """An item added behind words is a further one; an empty one added twice is one."""
    answer = answer_of(
        *(CREATED, added(0, NAMELESS), added(0, NAMELESS), delta("a"), added(0, NAMELESS)),
        *(delta("b"), done(0, NAMELESS | {"content": "b"}), delta("{}", kind="mcp_call_arguments")),
    )
    assert [
        (item["type"], item.get("arguments", item.get("content"))) for item in answer.items
    ] == [
        ("message", [{"type": "output_text", "text": "a"}]),
        ("message", "b"),
        ("mcp_call", "{}"),
    ]


def test_an_item_keeps_its_place_whatever_its_ids_are() -> None:
    """GitHub Copilot has another id in each event; what came in pieces is the item that is done."""
    answer = answer_of(
        *(CREATED, added(0, MESSAGE), delta("Hi there"), done(0, WHOLE | {"id": "m-2"})),
        *(delta("{}", 1, "function_call_arguments"), added(1, CALL | {"arguments": ""})),
        done(1, CALL | {"id": "i-9"}),
    )
    assert answer.items == [WHOLE | {"id": "m-2"}, CALL | {"id": "i-9"}]


@pytest.mark.parametrize("content", [[], None, ""])
def test_what_an_item_that_is_done_lacks_stays_as_it_came(content: Any) -> None:
    """Its words came in pieces, and the event that ends it repeats none."""
    stream = ResponseStream()
    for event in (CREATED, added(0, MESSAGE), delta("Hi "), delta("there")):
        stream.feed(event)
    before = [(one.key, "".join(one.pieces)) for one in stream.look()]
    stream.feed(done(0, MESSAGE | {"content": content, "status": "completed"}))
    assert [(one.key, "".join(one.pieces)) for one in stream.look()] == before
    assert stream.finish().items == [WHOLE | {"status": "completed"}]


def test_parts_of_other_kinds_at_one_index_are_parts_each() -> None:
    """What is said, what declines, thoughts and their summary have no index of one another."""
    thought = {"type": "reasoning", "id": "t-1", "summary": []}
    answer = answer_of(
        *(CREATED, added(0, MESSAGE), delta("Hi"), delta("No", kind="refusal")),
        *(added(1, thought), delta("Short", 1, "reasoning_summary_text")),
        delta("Long", 1, "reasoning_text"),
    )
    said, thoughts = answer.items
    assert [part["type"] for part in said["content"]] == ["output_text", "refusal"]
    assert (thoughts["summary"][0]["text"], thoughts["content"][0]["text"]) == ("Short", "Long")


def test_texts_at_one_index_are_seen_growing_apart() -> None:
    """Each keeps its key to the end, and none is taken back."""
    stream = ResponseStream()
    seen: dict[object, str] = {}
    second = MESSAGE | {"id": "m-2"}
    for event in (
        *(CREATED, added(0, MESSAGE), delta("Hi "), delta("there"), done(0, WHOLE)),
        *(added(0, second), delta("Bye"), done(0, second), ended(output=[])),
    ):
        stream.feed(event)
        for one in stream.look():
            told = "".join(one.pieces)
            assert told.startswith(seen.get(one.key, ""))
            seen[one.key] = told
    assert [*seen.values()] == ["Hi there", "Bye"]


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
    """It is no chunk; a response that failed often follows.

    See ``docs/contract/apis.md#responses-endings``.
    """
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
    """How it ended, and its counts."""
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
    """Whatever stands in whatever member."""
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
    """Each by its own index, in the action of its item.

    See ``docs/contract/apis.md#items-by-index``.
    """
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


@pytest.mark.parametrize("first", [False, True])
def test_the_realtime_end_is_an_end(*, first: bool) -> None:
    """``response.done`` tells status and usage, alone or behind the event that OpenAI ends with."""
    counts = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
    usage = counts | {"output_token_details": {"reasoning_tokens": 1}}
    response = {"id": "r-1", "status": "incomplete", "usage": usage}
    ends = [ended(id="r-1", output=[WHOLE])] if first else [done(0, WHOLE)]
    answer = answer_of(CREATED, *ends, write_event("response.done", response=response))
    assert answer.ending(streamed=True) is Ending.COMPLETE
    assert answer.finish_reasons == [(0, "incomplete")]
    assert answer.items == [WHOLE]
    assert answer.usage is not None
    assert (answer.usage.prompt, answer.usage.completion, answer.usage.reasoning) == (9, 3, 1)
    assert answer.anomalies == ()
