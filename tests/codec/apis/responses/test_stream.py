"""``codec.apis.responses.stream`` and its fold: events to one response."""

from __future__ import annotations

from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.responses import stream as stream_module
from codec.apis.responses.deltas import read_delta, read_run
from codec.apis.responses.item_fold import OpenText
from codec.apis.responses.stream import ResponseStream
from codec.call import Ending
from codec.text.jsontext import encode_json
from codec.text.sse import read_event
from tests.codec.apis.responses.events import (
    MESSAGE,
    added,
    answer_of,
    delta,
    done,
    ended,
    write_event,
)
from tests.codec.test_chunk import json_values

CREATED = write_event("response.created", response={"id": "r-1", "status": "in_progress"})
WHOLE = MESSAGE | {"content": [{"type": "output_text", "text": "Hi there"}]}
CALL = {"type": "function_call", "id": "i-1", "call_id": "c-1", "name": "f", "arguments": "{}"}
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
    monkeypatch.setattr(stream_module, "MAX_RESPONSE_BYTES", 20_000)
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


@given(
    texts=st.lists(st.text(max_size=9) | st.just("x" * 3_000), max_size=30),
    last=st.binary(max_size=30) | st.just(b"data: {}\ndata: {}\n\n"),
)
def test_rule_2_the_usual_read_comes_to_what_the_decoder_makes_of_it(
    texts: list[str], last: bytes
) -> None:
    """One event per read, or all of them in one; whatever is behind the first line's end."""
    events = [CREATED, added(0, MESSAGE), *[delta(text, sequence_number=1) for text in texts], last]
    one, other = ResponseStream(), ResponseStream()
    for event in events:
        one.feed(event)
    other.feed(b"".join(events))
    answer = one.finish()
    assert answer == other.finish()
    assert one.chunk_count == other.chunk_count
    if said := "".join(texts):
        assert answer.items[0]["content"][0]["text"] == said


ODD_PAYLOADS = (
    b'{"type":"response.output_text.delta","delta":"a","output_index":0}' * 2,
    b'{"type":"response.output_text.delta",\n"delta":"a","output_index":0}',
    b'{"type":"response.output_text.delta","delta":"a","output_index":0}{}',
    b'{"type":"response.output_text.delta","delta":"a","output_index":0} ',
    b' {"type":"response.output_text.delta","delta":"a","output_index":0}',
    b'{"type":"response.output_text.delta","delta":"a","output_index":1}',
    b'{"type":"response.output_text.delta","delta":7,"output_index":0}',
    b'{"type":"response.output_text.delta","delta":"a\xff","output_index":0}',
    b'{"type":"response.output_text.delta","x":{"delta":"a"}',
    b'{"type":"response.output_text.delta","delta":"a",\ndata: "output_index":0}',
    b'{"type":"response.output_text.delta",\r"delta":"a","output_index":0}',
    b'{"type":"response.output_text.delta","delta":"a","output_index":0}\nid: 3',
    b'{"type":"response.output_text.delta","delta":"a","x":"' + b"y" * 5_000 + b'"}',
    b'{"type":"response.output_text.done","text":"a","output_index":0}',
    b"{}",
    b"{",
    b"}",
    b"",
    b"[DONE]",
)


class SlowStream(ResponseStream):
    """Reads every event by itself and as the general way does."""

    def feed(self, data: bytes) -> None:
        """Take one read."""
        for raw in self._split(data):
            if (event := read_event(raw)) is not None:
                self._feed_event(event)
        self._reserve_pending()


@given(
    odd=st.lists(st.tuples(st.integers(0, 150), st.sampled_from(ODD_PAYLOADS)), max_size=4),
    is_named=st.booleans(),
    size=st.integers(1, 20_000),
)
def test_rule_2_events_that_are_decoded_together_are_what_each_is(
    odd: list[tuple[int, bytes]], size: int, *, is_named: bool
) -> None:
    """Whatever is among them, wherever reads are cut: the general way is the oracle."""
    compare_with_the_slow_way(odd, is_named=is_named, size=size)


@pytest.mark.parametrize("place", [0, 70, 149])
@pytest.mark.parametrize("payload", ODD_PAYLOADS, ids=range(len(ODD_PAYLOADS)))
def test_rule_2_one_odd_event_among_many(payload: bytes, place: int) -> None:
    """The odd event alone is read in another way, and so is half an object beside it."""
    compare_with_the_slow_way([(place, payload)], is_named=True)
    compare_with_the_slow_way([(place, payload), (place + 1, b"{")], is_named=True)


def compare_with_the_slow_way(
    odd: list[tuple[int, bytes]], *, is_named: bool, size: int = 1_000_000
) -> None:
    """Read a stream of many deltas, with odd events at some places, in reads of so many bytes."""
    name = b"event: response.output_text.delta\n" if is_named else b""
    texts = [
        b'{"type":"response.output_text.delta","delta":"%d ","output_index":0}' % number
        for number in range(150)
    ]
    for at, payload in odd:
        texts.insert(at, payload)
    events = b"".join(b"%bdata: %b\n\n" % (name, text) for text in texts)
    data = CREATED + added(0, MESSAGE) + events
    stream, slow = ResponseStream(), SlowStream()
    for each in (stream, slow):
        for at in range(0, len(data), size):
            each.feed(data[at : at + size])
    assert stream.finish() == slow.finish()
    assert stream.chunk_count == slow.chunk_count


@pytest.mark.parametrize("begin", [b"", b"\xef\xbb\xbf", b"\n\n", b": hello\n\n"])
def test_rule_2_a_large_first_read_may_begin_with_anything(begin: bytes) -> None:
    """A byte order mark, blank lines or a comment, and be it behind a read of nothing."""
    deltas = [delta(f"{number:03} ") for number in range(150)]
    (item,) = answer_of(b"", begin + CREATED + added(0, MESSAGE) + b"".join(deltas)).items
    assert item["content"][0]["text"].split() == [f"{number:03}" for number in range(150)]


@pytest.mark.parametrize("limit_bytes", range(2_000, 16_000, 1_700))
def test_rule_2_a_run_ends_where_its_events_would(
    limit_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the limit as much is kept of events in one read as of events that come one by one."""
    monkeypatch.setattr(stream_module, "MAX_RESPONSE_BYTES", limit_bytes)
    events = [CREATED, added(0, MESSAGE), *[delta("some words") for _ in range(150)]]
    answer = answer_of(b"".join(events))
    assert answer == answer_of(*events)
    assert ("observer_limit" in answer.anomalies) == (limit_bytes < 13_000)


@pytest.mark.parametrize(
    "texts",
    [
        ["some words"] * 4_000 + ["\xe9"],
        ["x" * 700] * 300,
        ["0123456789"] * 404 + ["\xe9"],
        ["0123456789"] * 500,
        ["\u6f22" * 9] * 2_000,
        ["a", *[""] * 499, "b"],
        ["", *["a"] * 150],
        [*["a"] * 150, "x" * 20_000],
    ],
    ids=range(8),
)
@pytest.mark.parametrize("lent_bytes", [0, 64 * 1024, 256 * 1024, 640 * 1024, None])
def test_rule_2_a_run_takes_what_a_lender_has(texts: list[str], lent_bytes: int | None) -> None:
    """To the byte as much as events that are read one by one, and it asks for no more."""
    events = [CREATED, added(0, MESSAGE), *map(delta, texts)]
    compare([b"".join(events)], lent_bytes=lent_bytes)
    compare(events, lent_bytes=lent_bytes)


@pytest.mark.parametrize("name", [b"data: x\n", b"datX: y\n", b": hello\n", b"id: 3\n"])
def test_rule_2_other_lines_than_a_name_are_no_part_of_a_run(name: bytes) -> None:
    """A line of data before the data belongs to it."""
    line = delta("more").partition(b"\n")[2]
    events = [CREATED, added(0, MESSAGE), *[delta("a")] * 150, *[name + line] * 20, delta("b")]
    compare([b"".join(events)])


@pytest.mark.parametrize("kind", [b"datX: ", b"data:", b"data:  "])
def test_rule_2_lines_that_are_other_data_are_no_part_of_a_run(kind: bytes) -> None:
    """Nor is what only looks like data."""
    event = delta("more").replace(b"data: ", kind)
    events = [CREATED, added(0, MESSAGE), *[delta("a")] * 150, *[event] * 20, delta("b")]
    compare([b"".join(events)])


def test_rule_2_a_run_without_a_word_is_no_content() -> None:
    """Empty deltas say nothing, in one read or in many."""
    compare([b"".join([CREATED, added(0, MESSAGE), *[delta("")] * 150])])


def test_rule_2_few_events_of_a_large_read_are_read_alone() -> None:
    """The quick way is taken: of 1,000 deltas in one read nearly none goes the other."""
    stream = ResponseStream()
    data = CREATED + added(0, MESSAGE) + b"".join(delta(f"{n} ") for n in range(1_000))
    with mock.patch.object(stream_module, "read_delta", wraps=read_delta) as read:
        stream.feed(data)
    assert stream.chunk_count == 1_002
    assert read.call_count < 5


def compare(reads: list[bytes], *, lent_bytes: int | None = None) -> None:
    """Read a stream, beside others that leave so much room; the general way is the oracle."""
    lenders = Lender(lent_bytes), Lender(lent_bytes)
    stream = ResponseStream(lend=lenders[0].lend)
    slow = SlowStream(lend=lenders[1].lend)
    for read in reads:
        stream.feed(read)
        slow.feed(read)
        assert stream.has_content == slow.has_content
        assert stream.chunk_count == slow.chunk_count  # chunks are timed by when they are counted
    assert repr(stream.finish()) == repr(slow.finish())  # NaN is not equal to itself
    assert lenders[0].lent_bytes == lenders[1].lent_bytes


class Lender:
    """Lends as much as it has.

    Attributes:
        lent_bytes: so far.
    """

    def __init__(self, has_bytes: int | None) -> None:
        self.has_bytes = has_bytes
        self.lent_bytes = 0

    def lend(self, size_bytes: int) -> bool:
        """Lend so much, or nothing."""
        if self.has_bytes is not None and self.lent_bytes + size_bytes > self.has_bytes:
            return False
        self.lent_bytes += size_bytes
        return True


OUTPUT_TEXT = "response.output_text.delta"
RARE_EVENTS = (
    CREATED,
    added(0, MESSAGE),
    added(1, CALL),
    done(0, WHOLE),
    ended(),
    write_event("response.x"),
    write_event("response.output_text.done", output_index=0, text="Hi there"),
    write_event("response.output_text.done", output_index=0, summary_index=1, text="Hi"),
    write_event("response.output_text.done", output_index=3, text="\xe9"),
    write_event("response.content_part.added", output_index=0, part={"x": "y" * 2_000}),
    b'event: response.content_part.added\ndata: {"type":"response.content_part.added","x":'
    + b"[" * 600 + b"]" * 600 + b"}\n\n",
    (b'event: response.content_part.done\n'
    b'data: {"type":"response.content_part.done","x":"\xff"}\n\n'),
    b'data: {"type":"","delta":" evil","output_index":0}\n\n',
    b'data: {"type":"","delta":"","output_index":0}\n\n',
    b'event: response.output_text.delta\ndata: {"type":"","delta":"b","output_index":0}\n\n',
    b": hello\n\n",
)  # fmt: skip
ODD_MEMBERS = (
    b"",
    b',"obfuscation":"\xff"',
    b',"\xff":1',
    b',"obfuscation":"\xc3\xa9"',
    b',"x":' + b"[" * 600 + b"]" * 600,
    b',"x":' + b"[" * 500 + b"]" * 500,
    b',"x":' + b"[" * 1_500,
    b',"x":' + b"1" * 5_000,
    b',"x":"' + b"y" * 3_000 + b'"',
    b',"content_index":1',
    b',"summary_index":1',
    b',"content_index":1,"summary_index":2',
    b',"output_index":1',
    b',"content_index":9223372036854775808',
    b',"content_index":-1',
    b',"delta":"\\ud800"',
    b',"delta":7',
    b',"type":"response.output_text.done"',
)
TEXTS = ("", "a", "some words", "\xe9", "\u6f22" * 9, "x" * 700, "x" * 9_000)
OFTEN = st.sampled_from([0, 0, 0])


def write_deltas(name: str, text: int, member: int, count: int) -> bytes:
    """Some alike events of one text and one odd member, each known by its place above."""
    kind = f"response.{name}.delta".encode()
    said = encode_json(TEXTS[text]).encode()
    members = b'"type":"%b","output_index":0,"delta":%b%b' % (kind, said, ODD_MEMBERS[member])
    return b"event: %b\ndata: {%b}\n\n" % (kind, members) * count


@given(
    drawn=st.lists(
        st.tuples(
            st.sampled_from(["output_text", "output_text", "reasoning_summary_text"]),
            st.sampled_from(range(len(TEXTS))),
            OFTEN | st.sampled_from(range(len(ODD_MEMBERS))),
            st.sampled_from([1, 2, 9, 70, 300]),
        )
        | st.sampled_from(range(len(RARE_EVENTS))),
        max_size=9,
    ),
    size=st.sampled_from([0, 1, 200, 3_000, 16_384, 2_000_000]),
    lent_bytes=st.sampled_from([None, 0, 64 * 1024, 128 * 1024, 512 * 1024]),
)
def test_rule_2_whatever_comes_is_what_the_general_way_makes_of_it(
    drawn: list[tuple[str, int, int, int] | int], size: int, lent_bytes: int | None
) -> None:
    """Runs, odd members, repeated texts; in one read, event by event or cut; with little room."""
    events = [write_deltas(*it) if isinstance(it, tuple) else RARE_EVENTS[it] for it in drawn]
    events = [CREATED, added(0, MESSAGE), *events]
    data = b"".join(events)
    step = max(size, len(data) // 3_000)
    reads = [data[at : at + step] for at in range(0, len(data), step)] if size else events
    with mock.patch.object(stream_module, "_MIN_LINES_BYTES", 0):
        compare(reads, lent_bytes=lent_bytes)


def test_rule_2_a_closed_text_takes_no_more_and_keeps_nothing() -> None:
    """An event without a type belongs to no text, and what is whole is not held in pieces."""
    stream = ResponseStream()
    stream.feed(CREATED + added(0, MESSAGE) + delta("Hi") + delta(" there"))
    stream.feed(done(0, WHOLE))
    assert stream._text.pieces == []
    stream.feed(b'data: {"type":"","delta":" evil","output_index":0}\n\n')
    answer = stream.finish()
    assert answer.items == [WHOLE]
    assert "foreign_chunk" in answer.anomalies


VALUE = '{"type":"t","delta":"a","output_index":0}'


@pytest.mark.parametrize(
    "lines",
    [
        [VALUE, ""],
        [VALUE, VALUE + VALUE],
        [VALUE, f"{VALUE},{VALUE}"],
        [VALUE, f"{VALUE}],[{VALUE}"],
        [f"{VALUE}],[{VALUE}", VALUE[:-1] + ',"x":[[1', "2]]}"],
        [VALUE[:-1], '"x":1}'],
        [VALUE[:-1] + ",", '"x":1}' + VALUE],
        [VALUE[:-1] + ",", f'"x":1}}],[{VALUE}'],
        [VALUE[:-1] + ',"x":"', f'"}}],[{VALUE}'],
        [VALUE, VALUE[:-1] + ',"type":"u"}'],
        [VALUE, VALUE[:-1] + ',"output_index":1}'],
        [VALUE, VALUE[:-1] + ',"content_index":2}'],
        [VALUE, VALUE[:-1] + ',"summary_index":2}'],
        [VALUE, VALUE.replace("a", "\xff")],
        [VALUE, "[" * 2_000],
    ],
    ids=range(15),
)
def test_rule_2_lines_are_a_run_where_each_is_one_value_like_the_others(lines: list[str]) -> None:
    """Not where a value takes two lines, even with another to make up for it."""
    text = OpenText("t", 0, 0, [])
    assert read_run([VALUE.encode() + b"\n"] * 2, text) == ["a", "a"]
    assert read_run([line.encode("latin-1") + b"\n" for line in lines], text) == []


def test_rule_2_an_event_of_equal_length_that_is_no_data_is_passed_over() -> None:
    """What stands before the data of events that are decoded together is compared, too."""
    texts = [delta(f"{number:03} ").partition(b"\n")[2] for number in range(150)]
    texts[70] = texts[70].replace(b"data:", b"date:")
    (item,) = answer_of(CREATED, added(0, MESSAGE), b"".join(texts)).items
    said = item["content"][0]["text"].split()
    assert said == [f"{number:03}" for number in range(150) if number != 70]


OTHER = MESSAGE | {"id": "m-2", "content": [{"type": "output_text", "text": "Bye"}]}
ANNOTATED = MESSAGE | {"content": [{"type": "output_text", "text": "Hi there", "annotations": []}]}
BEHIND_A_WHOLE_ITEM: tuple[list[bytes], ...] = (
    [],
    [ended(output=[OTHER])],
    [ended(output=[])],
    [ended()],
    [ended("incomplete", output=[WHOLE])],
    [added(1, OTHER), ended(output=[WHOLE])],
    [done(0, OTHER), ended(output=[])],
    [done(1, OTHER), ended(output=[OTHER])],
    [delta("more"), ended(output=[])],
    [delta("more"), delta("and more"), ended(output=[])],
    [delta("more", 1), delta("and more", 1), ended(output=[])],
    [CREATED, delta("again")],
    [b"event: response.completed\ndata: {\n\n"],
    [b'event: response.completed\ndata: {"response": {"output": []}}\n\n'],
    [b'event: response.completed\ndata: {"type": "response.queued"}\n\n', ended(output=[])],
    [b'event: error\ndata: {"error": {"message": "no"}}\n\n', ended("failed", output=[])],
    [ended(output=[OTHER]), done(0, WHOLE), ended(output=[])],
    [b'event: response.output_item.done\ndata: {"type": "error", "message": "no"}\n\n'],
    [b'event: response.output_item.done\ndata: {"type": "response.output_item.done"}\n\n'],
    [done(0, MESSAGE | {"x": "y" * 20_000}), ended(output=[])],
    [done(0, MESSAGE | {"x": "\xe9"}), ended(output=[])],
)


@pytest.mark.parametrize("behind", BEHIND_A_WHOLE_ITEM, ids=range(len(BEHIND_A_WHOLE_ITEM)))
@pytest.mark.parametrize("is_streamed", [True, False])
def test_rule_2_what_comes_behind_a_whole_item_is_read_as_it_would_be_alone(
    behind: list[bytes], monkeypatch: pytest.MonkeyPatch, *, is_streamed: bool
) -> None:
    """Whatever comes behind it, event by event or in one read: the general way is the oracle."""
    monkeypatch.setattr(stream_module, "_MIN_LINES_BYTES", 0)
    begin = [CREATED, added(0, MESSAGE), *[delta("Hi"), delta(" there")] * is_streamed]
    events = [*begin, done(0, ANNOTATED), *behind]
    stream, at_once, slow = ResponseStream(), ResponseStream(), SlowStream()
    at_once.feed(b"".join(events))
    for event in events:
        stream.feed(event)
        slow.feed(event)
        assert stream.chunk_count == slow.chunk_count  # chunks are timed by when they are counted
    assert stream.finish() == at_once.finish() == slow.finish()
    assert stream.chunk_count == at_once.chunk_count == slow.chunk_count


@given(data=st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    """Rule 1 of the reader."""
    assert answer_of(CREATED, delta("Hi"), data) is not None
