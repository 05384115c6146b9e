"""The usage event that the client did not ask for, taken out whatever the cuts."""

from __future__ import annotations

import json
import re
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.chat import usage_filter as usage_filter_module
from codec.chat.chunk import is_usage_only
from codec.chat.usage_filter import MAX_HELD_BYTES, UsageFilter
from codec.text.jsontext import decode_json
from tests.codec.text.test_scan import cut

BOM = b"\xef\xbb\xbf"
USAGE = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}'
CHUNK = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"hi"}}],"usage":null}'
DONE = b"data: [DONE]"


def relay(*reads: bytes) -> bytes:
    """What a client gets of a whole stream that comes in these reads."""
    usage_filter = UsageFilter()
    return b"".join(map(usage_filter.feed, reads)) + usage_filter.finish()


def relay_slowly(stream: bytes) -> bytes:
    """The same by plain means: split into lines, gather events, leave usage events out."""
    kept = b""
    if stream.startswith(BOM):
        kept, stream = BOM, stream.removeprefix(BOM)
    event: list[bytes] = []
    for line in re.findall(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", stream):
        event.append(line)
        if not line.strip(b"\r\n"):
            kept += b"" if is_unwanted(event[:-1]) else b"".join(event)
            event = []
    return kept if is_unwanted(event) else kept + b"".join(event)


def is_unwanted(lines: list[bytes]) -> bool:
    """Whether the lines of an event, without its blank one, are a usage event."""
    if len(lines) != 1 or not lines[0].startswith(b"data:"):
        return False
    line = lines[0].strip(b"\r\n")
    if len(line) > MAX_HELD_BYTES - 4:
        return False
    try:
        return is_usage_only(decode_json(line[5:]))
    except ValueError:
        return False


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("start", [b"", BOM])
def test_the_stream_is_that_of_a_provider_that_was_not_asked(start: bytes, end: bytes) -> None:
    """Rule 1: the event goes with its blank line, whole or byte by byte, for each line end."""
    events = [CHUNK, USAGE, DONE]
    asked = start + b"".join(event + end + end for event in events)
    not_asked = start + b"".join(event + end + end for event in events if event is not USAGE)
    assert relay(asked) == not_asked
    for place in range(len(asked)):
        assert relay(asked[:place], asked[place:]) == not_asked
    assert relay(*cut(asked, range(len(asked)))) == not_asked


@pytest.mark.parametrize(
    "event",
    [
        b'data:{"choices":[],"usage":{}}',
        b'data: {"usage": {"total_tokens": 0}, "choices" : [ ] }',
        b'data:\t{"choices":[],"usage":{"cost":"\\"choices\\":[1"},"x_groq":{}}  ',
        b'data: {"choices":[],"usage":1,"error":null}',
    ],
)
def test_every_spelling_of_a_usage_event_is_taken_out(event: bytes) -> None:
    """Rule 1: order of members, white space and a missing space after the colon do not matter."""
    usage_filter = UsageFilter()
    assert usage_filter.feed(event + b"\n\n") == b""
    assert usage_filter.finish() == b""
    assert usage_filter.removed_count == 1


@pytest.mark.parametrize(
    "event",
    [
        DONE,
        CHUNK,
        b'data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}',
        b'data: {"choices":[],"usage":null}',
        b'data: {"choices":[]}',
        b'data: {"choices":null,"usage":{}}',
        b'data: {"usage":{"prompt_tokens":1}}',
        b'data: {"choices":[],"usage":{},"prompt_filter_results":[]}',
        b'data: {"choices":[],"usage":{},"citations":["u"]}',
        b'data: {"choices":[],"usage":{},"error":{"message":"m"}}',
        b'data: [{"choices":[],"usage":{}}]',
        b'data: {"choices":[],"usage":{}',
        b'data: {"choices":[],"usage":{"choices":[1]}}',
        b'Data: {"choices":[],"usage":{}}',
        b'data : {"choices":[],"usage":{}}',
        b' data: {"choices":[],"usage":{}}',
        b'{"choices":[],"usage":{}}',
        b': a comment\ndata: {"choices":[],"usage":{}}',
        b'data: {"choices":[],"usage":{}}\n: a comment',
        b'data: {"choices":[],"usage":{}}\ndata:',
        b'event: usage\ndata: {"choices":[],"usage":{}}',
        b'id: 7\ndata: {"choices":[],"usage":{}}',
        b'data: {"choices":[],\ndata: "usage":{}}',
        b": keep-alive",
    ],
)
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n", b""])
def test_all_other_events_pass(event: bytes, end: bytes) -> None:
    """Rule 2: usage that rides on other events is not ours to take."""
    assert relay(event + end) == event + end
    assert relay(*cut(event + end, range(len(event + end)))) == event + end


def test_each_usage_event_is_taken_out() -> None:
    """llama.cpp sends one for each choice (dialects.md section 3)."""
    usage_filter = UsageFilter()
    stream = b"".join(event + b"\n\n" for event in (CHUNK, USAGE, USAGE, DONE, USAGE))
    assert usage_filter.feed(stream) == CHUNK + b"\n\n" + DONE + b"\n\n"
    assert usage_filter.removed_count == 3


def test_blank_lines_between_events_pass_and_do_not_hide_a_usage_event() -> None:
    """Rule 2: an empty event is none, the one after it begins afresh."""
    assert relay(b"\n\n" + CHUNK + b"\n\n\n" + USAGE + b"\n\n\n\n") == (
        b"\n\n" + CHUNK + b"\n\n\n\n\n"
    )


def test_a_line_feed_after_a_removed_event_goes_with_it_only_if_it_is_the_next_byte() -> None:
    """CRLF cut in two by a read, against a lone CR followed by the next event."""
    usage_filter = UsageFilter()
    assert usage_filter.feed(USAGE + b"\r\n\r") == b""
    assert usage_filter.feed(b"") == b""
    assert usage_filter.feed(b"\n") == b""
    assert usage_filter.feed(b"\n") == b"\n"
    assert usage_filter.feed(USAGE + b"\n\n") == b""
    assert usage_filter.feed(b"\n") == b"\n"
    assert usage_filter.feed(USAGE + b"\r\r") == b""
    assert usage_filter.feed(b"\n" + DONE + b"\n\n") == DONE + b"\n\n"
    assert usage_filter.feed(USAGE + b"\r\r") == b""
    assert usage_filter.feed(DONE + b"\r\r") == DONE + b"\r\r"
    assert usage_filter.feed(b"\n") == b"\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("line_bytes", [1_023, 1_024, 1_025, 17_407, 17_408, 17_409, 40_000])
def test_long_lines_end_where_they_end(line_bytes: int, end: bytes) -> None:
    """However they are cut: into two reads near each end, and into many."""
    long = b"data: ".ljust(line_bytes, b"x")
    stream = end.join([long, b"", USAGE, b"", long, USAGE, b"", CHUNK, b"", USAGE, b"", long])
    wanted = relay_slowly(stream)
    assert stream.count(USAGE) - wanted.count(USAGE) == 2
    for line_end in re.finditer(rb"[\r\n]", stream):
        assert relay(stream[: line_end.start()], stream[line_end.start() :]) == wanted
        assert relay(stream[: line_end.end()], stream[line_end.end() :]) == wanted
    assert relay(*(stream[at : at + 999] for at in range(0, len(stream), 999))) == wanted
    assert relay(stream) == wanted


def test_a_read_within_a_line_parts_the_line_ends_around_it() -> None:
    """They are no blank line together: what follows is of the same event."""
    reads = (b"event: a\n", b"data: x", b"\n" + USAGE + b"\n\n")
    assert relay(*reads) == b"".join(reads)


def test_an_ordinary_chunk_is_not_held() -> None:
    """Rule 3: whole events come out with their read, a part as soon as a choice is seen."""
    usage_filter = UsageFilter()
    assert usage_filter.feed(CHUNK + b"\n\n") == CHUNK + b"\n\n"
    assert usage_filter.feed(b'data: {"id":"c","choi') == b""
    assert usage_filter.feed(b'ces":[') == b""
    assert usage_filter.feed(b'{"index') == b'data: {"id":"c","choices":[{"index'
    assert usage_filter.feed(b'":0}]}\n') == b'":0}]}\n'
    assert usage_filter.feed(b"\nda") == b"\n"
    assert usage_filter.feed(b"t") == b""
    assert usage_filter.feed(b"\n") == b"dat\n"


def test_an_event_that_cannot_be_one_flows_at_once() -> None:
    """Rule 3: a comment, another field, or a second line."""
    usage_filter = UsageFilter()
    assert usage_filter.feed(b": OPENROUTER") == b": OPENROUTER"
    assert usage_filter.feed(b" PROCESSING\n\nevent: x") == b" PROCESSING\n\nevent: x"
    assert usage_filter.feed(b"\n\ndata: 1\r\n") == b"\n\n"
    assert usage_filter.feed(b"d") == b"data: 1\r\nd"
    assert usage_filter.feed(USAGE[1:] + b"\n\n") == USAGE[1:] + b"\n\n"


def test_a_usage_event_is_seen_after_events_that_flowed_or_were_jumped_over() -> None:
    """Rule 4: neither leaves a trace on the event after it, be it cut as it may."""
    usage_filter = UsageFilter()
    assert usage_filter.feed(b"id: 1\ndata: on") == b"id: 1\ndata: on"
    assert usage_filter.feed(b"e\n\n" + DONE + b"\n\n") == b"e\n\n" + DONE + b"\n\n"
    assert usage_filter.feed(USAGE + b"\n\n") == b""


def test_a_byte_order_mark_counts_at_the_start_only() -> None:
    """Later on it makes the line another one (WHATWG HTML, section 9.2.5)."""
    usage_filter = UsageFilter()
    assert usage_filter.feed(CHUNK + b"\n\n") == CHUNK + b"\n\n"
    assert usage_filter.feed(BOM + USAGE + b"\n\n") == BOM + USAGE + b"\n\n"


def test_held_bytes_are_bounded() -> None:
    """Rule 3: they flow at the limit, however they come (R5)."""
    usage_filter = UsageFilter()
    fed = relayed = 0
    for read in (b"data: ", *[b"x" * 100] * 400):
        fed += len(read)
        relayed += len(usage_filter.feed(read))
        assert fed - relayed <= MAX_HELD_BYTES
        assert relayed in {0, fed}
    assert relayed == fed


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b""])
@pytest.mark.parametrize("excess", [0, 1])
def test_a_usage_event_over_the_limit_stays_however_it_is_cut(end: bytes, excess: int) -> None:
    """Rule 4: what would flow in parts is not taken out as a whole either."""
    padding = b"x" * (MAX_HELD_BYTES - 4 - len(b'data: {"choices":[],"usage":""}') + excess)
    stream = b'data: {"choices":[],"usage":"%b"}' % padding + end
    expected = stream if excess else b""
    assert relay(stream) == expected
    assert relay(stream[:-1], stream[-1:]) == expected
    assert relay(*cut(stream, range(0, len(stream), 100))) == expected


def test_held_bytes_go_out_at_the_end() -> None:
    """An incomplete event is relayed, a complete object without its blank line is taken out."""
    for end in (b"", b"\n", b"\r", b"\r\n"):
        assert relay(USAGE[:-1] + end) == USAGE[:-1] + end
        assert relay(USAGE + end) == b""
    for beginning in (BOM[:1], BOM[:2], BOM, b"d", b"data:", b""):
        assert relay(beginning) == beginning


def test_finish_answers_once() -> None:
    """What was handed out is not handed out again."""
    usage_filter = UsageFilter()
    assert usage_filter.feed(b"data: {") == b""
    assert usage_filter.finish() == b"data: {"
    assert usage_filter.finish() == b""


_SPACES = st.sampled_from(["", "", " ", "\t", "  "])


@st.composite
def spelled(draw: st.DrawFn) -> bytes:
    """An object with or without choices and usage, in any white space."""
    choices = draw(st.sampled_from(["[]", "[ ]", "[\t]", "[{}]", "[ {}]", "null", '[{"a":[]}]']))
    usage = draw(st.sampled_from(['{"prompt_tokens":1}', "null", '{"choices":[]}', '{"a":[{}]}']))
    members = [("choices", choices), ("usage", usage), ("x", '"\\"choices\\":[]"')]
    members = draw(st.permutations(members))[: draw(st.integers(1, 3))]
    space = [draw(_SPACES) for _ in range(4)]
    text = ",".join(f'{space[0]}"{k}"{space[1]}:{space[2]}{v}{space[3]}' for k, v in members)
    return f"{{{text}}}".encode()


def _at_the_limit(excess: int) -> bytes:
    padding = MAX_HELD_BYTES - 4 - len(b'data: {"choices":[],"usage":""}') + excess
    return b'{"choices":[],"usage":"%b"}' % (b"x" * padding)


payloads = (
    st.sampled_from([USAGE[6:], CHUNK[6:], CHUNK[6:], b"[DONE]", b"", b"{"])
    | st.sampled_from([_at_the_limit(0), _at_the_limit(1)])
    | spelled()
    | st.dictionaries(
        st.sampled_from(["choices", "usage", "error", "x"]),
        st.sampled_from([None, [], {}, [{}], {"total_tokens": 3}, "\u2028[]"]),
    ).map(lambda value: json.dumps(value, ensure_ascii=False).encode())
)
lines = st.tuples(
    st.sampled_from([b"data: ", b"data: ", b"data: ", b"data:", b": ", b"event: ", b"", b"\xef"]),
    payloads,
).map(b"".join)
line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
pieces = st.lists(lines | line_ends | line_ends.map(lambda end: end * 2))
streams = st.tuples(st.sampled_from([b"", BOM, BOM[:2]]), pieces.map(b"".join)).map(b"".join)


@given(streams, st.lists(st.integers(min_value=0)))
def test_any_cut_gives_the_stream_without_its_usage_events(stream: bytes, cuts: list[int]) -> None:
    """Rules 1, 2 and 4, against an oracle that splits the whole stream into lines."""
    usage_filter = UsageFilter()
    expected = relay_slowly(stream)
    fed = relayed = b""
    for read in cut(stream, cuts):
        fed += read
        relayed += usage_filter.feed(read)
        assert expected.startswith(relayed)
        assert len(relayed) <= len(fed)
    assert relayed + usage_filter.finish() == expected
    if len(stream) < MAX_HELD_BYTES:
        assert relay(*cut(stream, range(len(stream)))) == expected
    assert (usage_filter.removed_count == 0) == (expected == stream)


@given(streams, st.lists(st.integers(min_value=0)))
def test_jumping_changes_nothing(stream: bytes, cuts: list[int]) -> None:
    """Rule 5, against a filter that goes event by event: read for read, and what waits."""
    quick, slow = UsageFilter(), UsageFilter()
    never_jump = mock.patch.object(UsageFilter, "_jump", lambda _, data, at, __: (at, len(data)))
    suspect_all = mock.patch.object(usage_filter_module, "_TO_NO_CHOICE", return_value=True)
    for read in cut(stream, cuts):
        with never_jump, suspect_all:
            expected = slow.feed(read)
        assert quick.feed(read) == expected
    assert quick.finish() == slow.finish()
    assert quick.removed_count == slow.removed_count


def _looked_at(stream: bytes) -> int:
    """How many bytes are looked through for an event's end while one read is filtered."""
    looked = 0
    find_last_end = usage_filter_module._find_last_end

    def count(data: bytes, start: int, stop: int) -> int:
        nonlocal looked
        looked += stop - start
        return find_last_end(data, start, stop)

    with mock.patch.object(usage_filter_module, "_find_last_end", count):
        relay(stream)
    return looked


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_no_byte_is_looked_at_more_than_a_few_times(end: bytes) -> None:
    """Rule 5: also where every event of a read is one to look at, and none ends as most do."""
    for event in (USAGE, CHUNK, b': "choices":[]'):
        stream = (event + end) * 300
        assert _looked_at(stream) <= 2 * len(stream)
