"""``codec.apis.responses``: the quick ways of reading deltas come to what the general one does.

The oracle is the general way: each event by itself, decoded whole.
"""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec import delta_reader
from codec.apis.responses import stream as stream_module
from codec.apis.responses.stream import ResponseStream, read_delta, read_run
from codec.text.jsontext import encode_json
from codec.text.sse import read_event
from codec.text_fold import OpenText
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


@given(
    texts=st.lists(st.text(max_size=9) | st.just("x" * 3_000), max_size=30),
    last=st.binary(max_size=30) | st.just(b"data: {}\ndata: {}\n\n"),
)
def test_the_usual_read_comes_to_what_the_decoder_makes_of_it(
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
def test_events_that_are_decoded_together_are_what_each_is(
    odd: list[tuple[int, bytes]], size: int, *, is_named: bool
) -> None:
    """Whatever is among them, wherever reads are cut: the general way is the oracle."""
    compare_with_the_slow_way(odd, is_named=is_named, size=size)


@pytest.mark.parametrize("place", [0, 70, 149])
@pytest.mark.parametrize("payload", ODD_PAYLOADS, ids=range(len(ODD_PAYLOADS)))
def test_one_odd_event_among_many(payload: bytes, place: int) -> None:
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
    compare([data[at : at + size] for at in range(0, len(data), size)])


@pytest.mark.parametrize("begin", [b"", b"\xef\xbb\xbf", b"\n\n", b": hello\n\n"])
def test_a_large_first_read_may_begin_with_anything(begin: bytes) -> None:
    """A byte order mark, blank lines or a comment, and be it behind a read of nothing."""
    deltas = [delta(f"{number:03} ") for number in range(150)]
    (item,) = answer_of(b"", begin + CREATED + added(0, MESSAGE) + b"".join(deltas)).items
    assert item["content"][0]["text"].split() == [f"{number:03}" for number in range(150)]


@pytest.mark.parametrize("limit_bytes", range(2_000, 16_000, 1_700))
def test_a_run_ends_where_its_events_would(
    limit_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the limit as much is kept of events in one read as of events that come one by one."""
    monkeypatch.setattr(stream_module, "MAX_ANSWER_BYTES", limit_bytes)
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
def test_a_run_takes_what_a_lender_has(texts: list[str], lent_bytes: int | None) -> None:
    """To the byte as much as events that are read one by one, and it asks for no more."""
    events = [CREATED, added(0, MESSAGE), *map(delta, texts)]
    compare([b"".join(events)], lent_bytes=lent_bytes)
    compare(events, lent_bytes=lent_bytes)


@pytest.mark.parametrize("name", [b"data: x\n", b"datX: y\n", b": hello\n", b"id: 3\n"])
def test_other_lines_than_a_name_are_no_part_of_a_run(name: bytes) -> None:
    """A line of data before the data belongs to it."""
    line = delta("more").partition(b"\n")[2]
    events = [CREATED, added(0, MESSAGE), *[delta("a")] * 150, *[name + line] * 20, delta("b")]
    compare([b"".join(events)])


@pytest.mark.parametrize("kind", [b"datX: ", b"data:", b"data:  "])
def test_lines_that_are_other_data_are_no_part_of_a_run(kind: bytes) -> None:
    """Nor is what only looks like data."""
    event = delta("more").replace(b"data: ", kind)
    events = [CREATED, added(0, MESSAGE), *[delta("a")] * 150, *[event] * 20, delta("b")]
    compare([b"".join(events)])


def test_a_run_without_a_word_is_no_content() -> None:
    """Empty deltas say nothing, in one read or in many."""
    compare([b"".join([CREATED, added(0, MESSAGE), *[delta("")] * 150])])


def test_few_events_of_a_large_read_are_read_alone() -> None:
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
def test_whatever_comes_is_what_the_general_way_makes_of_it(
    drawn: list[tuple[str, int, int, int] | int], size: int, lent_bytes: int | None
) -> None:
    """Runs, odd members, repeated texts; in one read, event by event or cut; with little room."""
    events = [write_deltas(*it) if isinstance(it, tuple) else RARE_EVENTS[it] for it in drawn]
    events = [CREATED, added(0, MESSAGE), *events]
    data = b"".join(events)
    step = max(size, len(data) // 3_000)
    reads = [data[at : at + step] for at in range(0, len(data), step)] if size else events
    with mock.patch.object(delta_reader, "_MIN_LINES_BYTES", 0):
        compare(reads, lent_bytes=lent_bytes)


def test_a_closed_text_takes_no_more_and_keeps_nothing() -> None:
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
def test_lines_are_a_run_where_each_is_one_value_like_the_others(lines: list[str]) -> None:
    """Not where a value takes two lines, even with another to make up for it."""
    text = OpenText("t", 0, 0, [])
    assert read_run([VALUE.encode() + b"\n"] * 2, text) == ["a", "a"]
    assert read_run([line.encode("latin-1") + b"\n" for line in lines], text) == []


def test_an_event_of_equal_length_that_is_no_data_is_passed_over() -> None:
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
def test_what_comes_behind_a_whole_item_is_read_as_it_would_be_alone(
    behind: list[bytes], monkeypatch: pytest.MonkeyPatch, *, is_streamed: bool
) -> None:
    """Whatever comes behind it, event by event or in one read: the general way is the oracle."""
    monkeypatch.setattr(delta_reader, "_MIN_LINES_BYTES", 0)
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
