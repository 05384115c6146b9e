from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codec.errors import LimitExceeded
from codec.text import sse
from codec.text.sse import ServerSentEvent, SseDecoder

LINES = [
    b"data: {}", b"data:{}", b"data:", b"data", b"data:  two", b": note", b":", b"event: error",
    b"event:", b"id: 7", b"retry: 10", b"retry: x", b"foo: bar", b"error: {}", b"\xd0\xbf: x",
    b"data: \xd0\xbf\xd1\x80", b"", b"", b"",
]  # fmt: skip
LINE_ENDS = [b"\n", b"\r\n", b"\r"]

streams = st.builds(
    lambda bom, lines, tail: bom + b"".join(line + end for line, end in lines) + tail,
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef\xbb"]),
    st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(LINE_ENDS)), max_size=20),
    st.sampled_from([b"", b"data: tail", b"da"]),
)


def decode(*reads: bytes) -> list[ServerSentEvent]:
    """All events of a stream that came in these reads."""
    decoder = SseDecoder()
    events = [event for read in reads for event in decoder.feed(read)]
    last = decoder.finish()
    has_told = last is not None and (last.data or last.event or last.comments)
    return [*events, last] if last is not None and has_told else events


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """Cut data at these places."""
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def oracle(stream: bytes) -> list[tuple[bytes | None, str | None, tuple[str, ...]]]:
    """Read a stream line by line, as the standard tells it, with rule 4 for what comes out."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found = []
    data: list[bytes] = []
    event = b""
    error: bytes | None = None
    comments: list[str] = []
    for line in [*text.split(b"\n"), b""]:
        if not line:
            joined = b"\n".join(data) if data else None
            if not joined and error is not None:
                joined, event = error, b"error"
            if joined or event or comments:
                found.append((joined, event.decode() or None, tuple(comments)))
            data, event, error, comments = [], b"", None, []
            continue
        name, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value
        elif name == b"error":
            error = value
        elif not name:
            comments.append(value.decode())
    return found


@given(streams)
def test_events_are_those_of_a_plain_reading(stream: bytes) -> None:
    """Rule 1: for every mixture of line ends, fields and comments."""
    got = [(event.data, event.event, event.comments) for event in decode(stream)]
    assert got == oracle(stream)


@given(streams, st.lists(st.integers(0, 500), max_size=8))
@example(b"data: a\nid: 1\n\n\n", [15])
def test_any_cut_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    """Rule 2: values and raw bytes do not depend on the reads."""
    assert decode(*split(stream, cuts)) == decode(stream)


@given(streams, st.lists(st.integers(0, 500), max_size=8))
@example(b"data: a\n\ndata: b\r\n\r\ndata: c\r\n\r\n", [9, 30])
def test_an_event_comes_out_with_the_read_that_ends_it(stream: bytes, cuts: list[int]) -> None:
    """Rule 2: no read is waited for, whatever those before it ended in."""
    decoder = SseDecoder()
    come, place = 0, 0
    for piece in split(stream, cuts):
        come, place = come + len(decoder.feed(piece)), place + len(piece)
        assert come == len(SseDecoder().feed(stream[:place]))


@given(streams)
def test_single_bytes_give_the_same_events(stream: bytes) -> None:
    """Rule 2, at its extreme."""
    assert decode(*(stream[i : i + 1] for i in range(len(stream)))) == decode(stream)


@given(streams)
def test_raw_bytes_are_pieces_of_the_stream_in_order(stream: bytes) -> None:
    """The raw bytes of the events are found in the stream, one after the other."""
    place = 0
    for event in decode(stream):
        place = stream.index(event.raw, place) + len(event.raw)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            b'id: 7\nevent: tick\nretry: 10\n: note\ndata: {"a":1}\nfoo: bar\n\n',
            [("7", "tick", "10", ("note",), b'{"a":1}')],
            id="all fields",
        ),
        pytest.param(
            b": only\n\ndata:\n\ndata: nope\n\n",
            [(None, None, None, ("only",), None), (None, None, None, (), b"nope")],
            id="comment only, empty data",
        ),
        pytest.param(
            b"event: error\n: engine crashed\n\n",
            [(None, "error", None, ("engine crashed",), None)],
            id="an error without data",
        ),
        pytest.param(b"id: 7\nretry: 3\n\n", [], id="nothing to tell"),
        pytest.param(
            b"id: a\0b\nretry: 1s\ndata: x\n\n",
            [(None, None, None, (), b"x")],
            id="the standard ignores an id with NUL and a retry that is no number",
        ),
        pytest.param(
            b'event: a\r\ndata: {"x":\r\ndata:\r\ndata: 1}\r\n\r\ndata: {"y":"l1\\nl2"}\r\r',
            [(None, "a", None, (), b'{"x":\n\n1}'), (None, None, None, (), b'{"y":"l1\\nl2"}')],
            id="empty data lines and two line ends",
        ),
        pytest.param(
            'data: {"t":"a\u2028b"}\n\n'.encode(),
            [(None, None, None, (), '{"t":"a\u2028b"}'.encode())],
            id="U+2028 ends no line",
        ),
        pytest.param(
            b'error: {"code":500}\n\n',
            [(None, "error", None, (), b'{"code":500}')],
            id="dialects 4.7 old llama.cpp",
        ),
        pytest.param(b"\n\n\ndata: a\n\n\n\ndata: b\n\n\n", [
            (None, None, None, (), b"a"), (None, None, None, (), b"b"),
        ], id="blank lines between events"),
    ],
)  # fmt: skip
def test_fields(raw: bytes, expected: list[tuple[object, ...]]) -> None:
    """Events have the fields that were sent, and what tells nothing does not come out."""
    got = [(e.id, e.event, e.retry, e.comments, e.data) for e in decode(raw)]
    assert got == expected
    warm = SseDecoder()
    warm.feed(b"data: first\n\n")
    again = [(e.id, e.event, e.retry, e.comments, e.data) for e in warm.feed(raw)]
    assert again == expected, "the quick way differs from the general one"


def test_a_crlf_cut_in_two_is_one_line_end() -> None:
    """No blank line comes from the cut, and the tail is surfaced at the end."""
    events = decode(b'data: {"a":1}\r', b"\n\r", b'\n: hb\r\n\r\ndata: [DONE]\r\n\r\ndata: {"b":2}')
    assert [event.data for event in events] == [b'{"a":1}', None, b"[DONE]", b'{"b":2}']
    assert events[0].raw == b'data: {"a":1}\r\n\r\n'


def test_a_lone_cr_stream_is_not_a_read_late() -> None:
    """An event that ends in two CRs comes out at once: no LF can change it."""
    decoder = SseDecoder()
    assert [event.raw for event in decoder.feed(b"data: a\r\r")] == [b"data: a\r\r"]
    assert [event.raw for event in decoder.feed(b"\ndata: b\n\n")] == [b"data: b\n\n"]


def test_a_character_cut_in_two_is_whole_again() -> None:
    """Bytes stay bytes until an event is complete (rule 3; ``docs/contract/sources.md#s4-20``)."""
    reads = bytes.fromhex("646174613a2022c3"), bytes.fromhex("a9220a0a")
    assert [event.data for event in decode(*reads)] == ['"é"'.encode()]


def test_single_line_events_are_known() -> None:
    """A comment or a second field makes an event more than one line."""
    raws = (
        b"data: a\n\n",
        b"data: a\r\n\r\n",
        b": c\ndata: a\n\n",
        b"data: a\nid: 1\n\n",
        b"data: a",
    )
    assert [event.is_single_line for raw in raws for event in decode(raw)] == [
        True, True, False, False, True,
    ]  # fmt: skip


def test_the_end_of_an_event_is_two_line_ends() -> None:
    """Whatever they are: the pattern that is quick finds what the plain one does, anywhere."""
    plain = re.compile(rb"\r\r|(?>\r\n|\n)(?>\r\n|\n|\r)")
    for length in range(8):
        for letters in product(b"\r\nx", repeat=length):
            text = bytes(letters)
            found = [match.span() for match in sse._EVENT_END.finditer(text)]
            assert found == [match.span() for match in plain.finditer(text)], text


@pytest.mark.parametrize("read_bytes", [16, 1000, 10_000])
def test_large_events_without_cr_are_not_looked_at_byte_by_byte(
    monkeypatch: pytest.MonkeyPatch, read_bytes: int
) -> None:
    """A few KiB on the wire may be many events that are each near the limit: 28 MB took 1.2 s."""
    monkeypatch.setattr(sse, "_EVENT_END", None)
    stream = (b"data: " + b"x" * 900 + b"\n\n") * 20
    decoder = SseDecoder(limit_bytes=1000)
    found: list[ServerSentEvent] = []
    feed_in_pieces(decoder, stream, read_bytes, found)
    assert [event.data for event in found] == [b"x" * 900] * 20


@pytest.mark.parametrize("read_bytes", [1, 7, 1000, 10_000])
def test_an_event_over_the_limit_ends_the_decoder(
    monkeypatch: pytest.MonkeyPatch, read_bytes: int
) -> None:
    """Rule 5: events before it come out, however the reads are cut, and nothing after it does."""
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)
    stream = b"data: a\n\n" + b"data: " + b"x" * 92 + b"\n\n" + b"data: " + b"x" * 93 + b"\n\n"
    decoder = SseDecoder()
    found: list[ServerSentEvent] = []
    with pytest.raises(LimitExceeded) as caught:
        feed_in_pieces(decoder, stream, read_bytes, found)
    assert [event.data for event in found] == [b"a", b"x" * 92]
    assert caught.value.limit == "MAX_EVENT_BYTES"
    with pytest.raises(LimitExceeded):
        decoder.feed(b"data: b\n\n")
    with pytest.raises(LimitExceeded):
        decoder.finish()


def test_a_limit_passed_behind_the_last_event_is_told_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rule 5: no event is lost to the exception, and the exception is not lost either."""
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 10)
    decoder = SseDecoder()
    assert [event.data for event in decoder.feed(b"data: a\n\ndata: far too long")] == [b"a"]
    with pytest.raises(LimitExceeded):
        decoder.finish()


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 5: no more than the limit and one read is ever held."""
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    decoder = SseDecoder()
    for _ in range(100):
        decoder.feed(b"x" * 10)
    assert len(decoder._pending) == 1000
    with pytest.raises(LimitExceeded):
        decoder.feed(b"x")
    assert not decoder._pending


def feed_in_pieces(
    decoder: SseDecoder, stream: bytes, read_bytes: int, found: list[ServerSentEvent]
) -> None:
    """Feed a stream read by read, and an empty read at its end."""
    for start in range(0, len(stream) + read_bytes, read_bytes):
        found += decoder.feed(stream[start : start + read_bytes])


@pytest.mark.parametrize("line", [b"data: x\n", b"data: x\r\n"])
def test_what_waits_is_searched_once(line: bytes) -> None:
    """Rule 6: of an event that goes on for megabytes, each read is looked at, and no more."""
    decoder = SseDecoder()
    for _ in range(100):
        decoder.feed(line * 1_000)
        assert len(decoder._pending) - decoder._searched <= len(b"\r\n\r")


def test_between_events_the_next_byte_begins_one() -> None:
    """Not before a byte order mark can have come, inside an event, or past the limit."""
    decoder = SseDecoder(limit_bytes=20)
    states = [decoder.is_between_events]
    for read in (b"data: a\n\n", b"data: b", b"\n\ndata: c\n\n" + b"data: " + b"d" * 30):
        decoder.feed(read)
        states.append(decoder.is_between_events)
    assert states == [False, True, False, False]


@pytest.mark.parametrize("rest", [b"d", b"data", b"data:", b"data: ", b"id: 7\n", b"event: x\n"])
def test_an_event_that_the_end_cuts_off_is_there_though_it_says_nothing(rest: bytes) -> None:
    """It is no comment; blank lines and marks before a stream begin no event."""
    decoder = SseDecoder()
    decoder.feed(b"data: a\n\n" + rest)
    last = decoder.finish()
    assert last is not None
    assert (last.data or b"", last.is_comment) == (b"", False)
    for nothing in (b"", b"\n\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b"\r\n"):
        decoder = SseDecoder()
        decoder.feed(nothing)
        assert decoder.finish() is None
    decoder.feed(b": bye\n: b")
    last = decoder.finish()
    assert last is not None
    assert last.is_comment
