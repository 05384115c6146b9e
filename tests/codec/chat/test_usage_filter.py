"""The usage event that the client did not ask for, taken out whatever the cuts."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.chat import usage_filter as usage_filter_module
from codec.chat.chunk import is_usage_only
from codec.chat.stream import ChatStream
from codec.chat.usage_event import is_usage_event
from codec.chat.usage_filter import MAX_HELD_BYTES, UsageFilter
from codec.text.jsontext import decode_json
from codec.text.sse import SseDecoder
from tests.codec.text.test_scan import cut

BOM = b"\xef\xbb\xbf"
USAGE = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}'
CHUNK = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"hi"}}],"usage":null}'
USED = CHUNK.replace(b"null}", b'{"prompt_tokens":1}}')
DONE = b"data: [DONE]"


def relay(*reads: bytes) -> bytes:
    """What a client gets of a whole stream that comes in these reads."""
    return relay_through(UsageFilter(), *reads)


def relay_through(usage_filter: UsageFilter, *reads: bytes) -> bytes:
    """The same through a filter that is looked at afterwards."""
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
    block = b"".join(lines).rstrip(b"\r\n")
    if len(block) > MAX_HELD_BYTES - 4 or re.search(
        rb'"choices"[ \t]*:[ \t]*\[[ \t]*[^\s\]]', block
    ):
        return False
    fields = [line.rstrip(b"\r\n").partition(b":") for line in lines]
    if not all(re.fullmatch(rb"[A-Za-z_-]*", name) for name, _, _ in fields):
        return False
    if [value for name, _, value in fields if name == b"event"][-1:] in ([b" error"], [b"error"]):
        return False
    data = [value.removeprefix(b" ") for name, _, value in fields if name == b"data"]
    try:
        value = decode_json(b"\n".join(data))
    except ValueError:
        return False
    return is_usage_only(value)


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
        b'data: {"choices":null,"usage":{}}',
        b'data: {"usage":{"prompt_tokens":1}}',
        b'data: {"id":"c","object":"","usage":{"prompt_tokens":1},"timings":{},"delta":null}',
        b': a comment\ndata: {"choices":[],"usage":{}}',
        b'data: {"choices":[],"usage":{}}\n: a comment\n:',
        b'data: {"choices":[],"usage":{}}\ndata:',
        b'data\ndata: {"choices":[],"usage":{}}',
        b'event: message\ndata: {"choices":[],"usage":{}}',
        b'data: {"choices":[],"usage":{}}\nevent: usage\nid',
        b'id: 7\nretry: 100\ndata: {"choices":[],"usage":{}}',
        b'x-sent: 7\ndata: {"choices":[],"usage":{}}',
        b'data: {"choices":[],\ndata: "usage":{}}',
        b'data: {\ndata: "choices"\ndata::[\n: a comment\ndata:],"usage"\ndata: :{}\ndata: }',
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_spelling_of_a_usage_event_is_taken_out(event: bytes, end: bytes) -> None:
    """Rule 1: whatever the decoder reads: other lines, several of data, any white space."""
    event = event.replace(b"\n", end)
    usage_filter = UsageFilter()
    assert usage_filter.feed(event + end + end) == b""
    assert usage_filter.finish() == b""
    assert usage_filter.removed_count == 1
    assert relay(*cut(event + end + end, range(len(event) + 4))) == b""
    assert relay(event) == relay(event + end) == b""
    [read] = SseDecoder().feed(event + end + end + b"data: x")
    assert is_usage_event(read, decode_json(read.data or b""))


@pytest.mark.parametrize(
    "event",
    [
        DONE,
        CHUNK,
        b'data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}',
        b'data: {"choices":[],"usage":null}',
        b'data: {"choices":[]}',
        b'data: {"choices":null,"usage":{},"citations":["u"]}',
        b'data: {"choices":{},"usage":{}}',
        b'data: {"usage":{"prompt_tokens":1},"delta":{"text":"x"}}',
        b'data: {"type":"message_delta","usage":{"output_tokens":1}}',
        b'event: error\ndata: {"choices":[],"usage":{}}',
        b'data: {"object":"error","choices":[],"usage":{}}',
        b'error: {"choices":[],"usage":{}}',
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
        b'{"choices":[],"usage":{}}\ndata: {"choices":[],"usage":{}}',
        b'data: {"choices":[],"usage":{}}\nno field: x',
        b'data: {"choices":[],"usage":{}}\ndata: {"choices":[],"usage":{}}',
        b'event: {"choices":[],"usage":{}}',
        b": keep-alive",
    ],
)
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n", b""])
def test_all_other_events_pass(event: bytes, end: bytes) -> None:
    """Rule 2: usage that rides on other events is not ours to take."""
    assert relay(event + end) == event + end
    assert relay(*cut(event + end, range(len(event + end)))) == event + end


def test_each_usage_event_is_taken_out() -> None:
    """llama.cpp sends one for each choice (``docs/contract/wire.md#usage-of-each-choice``)."""
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
    reads = (b"not a field\n", b"data: x", b"\n" + USAGE + b"\n\n")
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
    assert usage_filter.feed(b"t-") == b""
    assert usage_filter.feed(b"1") == b"dat-1"


def test_an_event_that_cannot_be_one_flows_at_once() -> None:
    """Rule 3: what has a line that is no field, JSON, a page or a sound for example."""
    for beginning in (b'{"choices', b"<html", b"[", b"Which way", b"\xff\xf3", b"data: 1\n{"):
        usage_filter = UsageFilter()
        assert usage_filter.feed(beginning) == beginning
        assert usage_filter.feed(b"\n" + USAGE + b"\n\n") == b"\n" + USAGE + b"\n\n"
        assert usage_filter.feed(USAGE + b"\n\n") == b""


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_comments_that_keep_a_connection_alive_can_be_let_go(end: bytes) -> None:
    """Rule 4: each once, whole lines alone; what follows them is taken out or passes as ever."""
    for event, passes in ((USAGE, b""), (CHUNK, CHUNK + end + end)):
        usage_filter = UsageFilter()
        assert usage_filter.feed(BOM + b":" + end + b": pi") == BOM
        assert usage_filter.let_go() == b":" + end
        assert usage_filter.let_go() == b""
        assert usage_filter.feed(b"ng") == b""
        assert usage_filter.let_go() == b""
        assert usage_filter.feed(end) == b""
        assert usage_filter.let_go() == b": ping" + end
        assert usage_filter.feed(b"event: x" + end + b": pong" + end) == b""
        assert usage_filter.let_go() == b""
        rest = b"" if event is USAGE else b"event: x" + end + b": pong" + end
        assert usage_filter.feed(event + end + end) == rest + passes
        assert usage_filter.feed(DONE + end + end) == DONE + end + end
        assert usage_filter.finish() == b""


def test_comments_that_were_let_go_are_not_handed_out_again_at_the_end() -> None:
    """They count for the size of their event all the same."""
    usage_filter = UsageFilter()
    assert usage_filter.feed(b": ping\nid: 1") == b""
    assert usage_filter.let_go() == b": ping\n"
    assert usage_filter.finish() == b"id: 1"
    usage_filter = UsageFilter()
    lines = b": ping\n" * (MAX_HELD_BYTES // 7)
    assert usage_filter.feed(lines) == b""
    assert usage_filter.let_go() == lines
    assert usage_filter.feed(USAGE + b"\n\n") == USAGE + b"\n\n"


def test_a_usage_event_is_seen_after_events_that_flowed_or_were_jumped_over() -> None:
    """Rule 4: neither leaves a trace on the event after it, be it cut as it may."""
    usage_filter = UsageFilter()
    assert usage_filter.feed(b"1: 1\ndata: on") == b"1: 1\ndata: on"
    assert usage_filter.feed(b"e\n\n" + DONE + b"\n\n") == b"e\n\n" + DONE + b"\n\n"
    assert usage_filter.feed(USAGE + b"\n\n") == b""
    mixed = CHUNK + b"\r\r" + USAGE + b"\r\r" + CHUNK + b"\n\n"
    assert usage_filter.feed(mixed) == CHUNK + b"\r\r" + CHUNK + b"\n\n"
    mixed = USAGE + b"\r\n\r\n" + CHUNK + b"\n\n"
    assert usage_filter.feed(mixed) == CHUNK + b"\n\n"


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
    st.sampled_from(
        [b"data: ", b"data: ", b"data: ", b"data:", b": ", b"event: ", b"id", b"", b"\xef"]
    ),
    payloads,
).map(b"".join)
line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
others = st.sampled_from(
    [b"event: message", b"id: 1", b"retry:2", b": x", b"data", b"event: error"]
)
pieces = st.lists(lines | others | line_ends | line_ends.map(lambda end: end * 2))
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


@st.composite
def spelled_events(draw: st.DrawFn, values: st.SearchStrategy[bytes]) -> bytes:
    """An event with such data, in any form that a decoder reads."""
    text = draw(values)
    places = [at for at, byte in enumerate(text) if byte in b",:[{" and b"\\" not in text]
    breaks = sorted(draw(st.lists(st.sampled_from(places), max_size=3))) if places else []
    parts = [text[a:b] for a, b in itertools.pairwise([0, *(at + 1 for at in breaks), len(text)])]
    data = [draw(st.sampled_from([b"data: ", b"data:"])) + part for part in parts]
    around = [b"event: message", b"id: 1", b"id", b"retry: 9", b": keep-alive", b":", b"data"]
    for line in draw(st.lists(st.sampled_from(around), max_size=4)):
        data.insert(draw(st.integers(0, len(data))), line)
    end = draw(line_ends)
    return end.join([*data, b"", b""])


caused = spelled_events(
    st.sampled_from(
        [
            USAGE[6:],
            b'{"choices": [ ], "usage": {"prompt_tokens": 1, "total_tokens": 3}, "timings": {}}',
            b'{"choices":null,"usage":{"completion_tokens":2}}',
            b'{"object":"text_completion","usage":{"prompt_tokens":[1,{"a":"b"}]},"id":null}',
        ]
    )
)
not_caused = spelled_events(
    st.sampled_from(
        [
            CHUNK[6:],
            USED[6:],
            b"[DONE]",
            b'{"choices":[],"prompt_filter_results":[{"prompt_index":0}],"usage":{}}',
            b'{"choices":[{"index":0,"text":"\\"usage\\":{}"}]}',
            b'{"warning":"x","usage":{"prompt_tokens":1}}',
            b'{"choices":[],"usage":null}',
        ]
    )
) | st.sampled_from([b": ping\n\n", b"event: x\r\n\r\n"])


@given(
    st.sampled_from([b"", BOM]),
    st.lists(st.tuples(st.just(False), not_caused) | st.tuples(st.just(True), caused)),
    st.lists(st.integers(min_value=0)),
)
def test_a_client_gets_what_it_would_get_of_a_provider_that_was_not_asked(
    start: bytes, events: list[tuple[bool, bytes]], cuts: list[int]
) -> None:
    """Rule 1: any stream in any spelling, cut anywhere; its observer counts the same events."""
    reads = cut(start + b"".join(event for _, event in events), cuts)
    usage_filter, observer = UsageFilter(), ChatStream(hides_usage=True)
    relayed = b""
    for read in reads:
        relayed += usage_filter.feed(read)
        observer.feed(read)
        assert len(usage_filter.held) <= MAX_HELD_BYTES
    relayed += usage_filter.finish()
    observer.finish()
    assert relayed == start + b"".join(event for is_caused, event in events if not is_caused)
    count = sum(is_caused for is_caused, _ in events)
    assert usage_filter.removed_count == observer.event_count - observer.chunk_count == count


@given(streams, st.lists(st.integers(min_value=0)))
def test_the_observer_says_of_each_event_what_the_filter_does(
    stream: bytes, cuts: list[int]
) -> None:
    """One definition: also of events that nobody should send."""
    usage_filter, hidden = UsageFilter(), 0
    decoder = SseDecoder()
    events = [event for read in cut(stream, cuts) for event in decoder.feed(read)]
    if last := decoder.finish():
        events.append(last)
    for event in events:
        with contextlib.suppress(ValueError):
            hidden += is_usage_event(event, decode_json(event.data or b""))
    relay_through(usage_filter, stream)
    assert usage_filter.removed_count == hidden


@given(streams, st.lists(st.integers(min_value=0)))
def test_jumping_changes_nothing(stream: bytes, cuts: list[int]) -> None:
    """Rule 5, against a filter that goes event by event: read for read, and what waits."""
    quick, slow = UsageFilter(), UsageFilter()
    never_jump = mock.patch.object(UsageFilter, "_jump", lambda _, data, at, __: (at, len(data)))
    suspect_all = mock.patch.object(usage_filter_module, "find_usage", return_value=True)
    no_choice = mock.patch.object(usage_filter_module, "_USUAL_CHOICE", b"?")
    for read in cut(stream, cuts):
        with never_jump, suspect_all, no_choice:
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
    for event in (USAGE, CHUNK, USED, b': "usage":' * 9):
        stream = (event + end) * 300
        assert _looked_at(stream) <= 2 * len(stream)
