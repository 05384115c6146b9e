"""``codec.apis.messages``: the quick ways of reading deltas come to what the general one does.

The oracle is the general way: each event by itself, decoded whole.
"""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec import delta_reader
from codec.apis.messages import stream as stream_module
from codec.apis.messages.stream import MessageStream, read_delta
from codec.text.sse import read_event
from tests.codec.apis.messages.events import START, STOP, begin, cut, delta, end, text, write_event

_T = b'"delta":{"type":"text_delta","text":"a"}'
ODD_PAYLOADS = (
    b'{"type":"content_block_delta","index":0,%b}' % _T * 2,
    b'{"type":"content_block_delta","index":0,\n%b}' % _T,
    b'{"type":"content_block_delta","index":0,%b}{}' % _T,
    b'{"type":"content_block_delta","index":0,%b} ' % _T,
    b' {"type":"content_block_delta","index":0,%b}' % _T,
    b'{"type":"content_block_delta","index":1,%b}' % _T,
    b'{"type":"content_block_delta","index":-1,%b}' % _T,
    b'{"type":"content_block_delta","index":99999999999999999999,%b}' % _T,
    b'{"type":"content_block_delta",%b}' % _T,
    b'{"index":0,%b}' % _T,
    b'{"type":"content_block_stop","index":0,%b}' % _T,
    b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":7}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":null}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","thinking":"t"}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"t"}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"1"}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"new_delta","text":"t"}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\xff"}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\ud83d"}}',
    b'{"type":"content_block_delta","index":0,%b,"x":"%b"}' % (_T, b"y" * 5_000),
    b'{"type":"content_block_delta","index":0,%b\nid: 3' % _T,
    b'{"type":"ping"}',
    b"{}",
    b"{",
    b"",
    b"[DONE]",
)


class SlowStream(MessageStream):
    """Reads every event by itself and as the general way does."""

    def feed(self, data: bytes) -> None:
        """Take one read."""
        for raw in self._split(data):
            if (event := read_event(raw)) is not None:
                self._feed_event(event)
        self._reserve_pending()


class Lender:
    """Lends so many bytes, and no more."""

    def __init__(self, size_bytes: int) -> None:
        self.left = size_bytes

    def __call__(self, size_bytes: int) -> bool:
        """Lend, or do not."""
        if size_bytes > self.left:
            return False
        self.left -= size_bytes
        return True


def compare(reads: list[bytes], lent_bytes: int | None = None) -> None:
    """Both ways say the same, lender and count of chunks included."""
    streams = []
    for kind in (MessageStream, SlowStream):
        stream = kind(lend=None if lent_bytes is None else Lender(lent_bytes))
        for piece in reads:
            stream.feed(piece)
        streams.append(stream)
    quick, slow = streams
    assert quick.has_content == slow.has_content
    assert quick.finish() == slow.finish()
    assert quick.chunk_count == slow.chunk_count


def stream_of(
    odd: list[tuple[int, bytes]], *, is_named: bool, pieces: list[str] | None = None
) -> bytes:
    """Many deltas, with odd events at some places."""
    name = b"event: content_block_delta\n" if is_named else b""
    texts = [text(piece).partition(b"data: ")[2][:-2] for piece in pieces or map(str, range(150))]
    for at, payload in odd:
        texts.insert(at, payload)
    events = b"".join(b"%bdata: %b\n\n" % (name, data) for data in texts)
    return START + begin(0) + events + end() + STOP


@given(
    odd=st.lists(st.tuples(st.integers(0, 150), st.sampled_from(ODD_PAYLOADS)), max_size=4),
    is_named=st.booleans(),
    size=st.integers(1, 20_000),
)
def test_events_that_are_read_quickly_are_what_each_is(
    odd: list[tuple[int, bytes]], size: int, *, is_named: bool
) -> None:
    """Whatever is among them, wherever reads are cut."""
    compare(cut(stream_of(odd, is_named=is_named), size))


@pytest.mark.parametrize("place", [0, 70, 149])
@pytest.mark.parametrize("payload", ODD_PAYLOADS, ids=range(len(ODD_PAYLOADS)))
def test_one_odd_event_among_many(payload: bytes, place: int) -> None:
    """It alone is read in another way, and so is half an object beside it."""
    compare([stream_of([(place, payload)], is_named=True)])
    compare([stream_of([(place, payload), (place + 1, b"{")], is_named=True)])


@given(
    pieces=st.lists(
        st.text(max_size=9) | st.sampled_from(["", "x" * 700, "\U0001f600" * 90]), max_size=150
    ),
    size=st.integers(1, 20_000),
    lent_bytes=st.integers(0, 300_000),
)
def test_both_ways_keep_the_same_where_room_is_scarce(
    pieces: list[str], size: int, lent_bytes: int
) -> None:
    """To the byte, whoever lends."""
    compare(cut(stream_of([], is_named=True, pieces=pieces or ["a"]), size), lent_bytes)


def test_the_usual_event_is_read_quickly_and_so_is_a_run() -> None:
    """Else the tests above would compare the general way with itself."""
    events = [text(f"{number} ") for number in range(150)]
    with mock.patch.object(delta_reader.DeltaReader, "_feed_other") as other:
        stream = MessageStream()
        stream.feed(START)
        assert other.call_count == 1
    stream = MessageStream()
    with mock.patch.object(stream_module, "read_delta", wraps=read_delta) as read:
        stream.feed(START + begin(0) + b"".join(events))
        assert read.call_count < 20
        for event in events:
            stream.feed(event)
        assert read.call_count >= 150
    [block] = stream.finish().body["content"]
    assert block["text"] == "".join(f"{number} " for number in range(150)) * 2


def test_thinking_and_arguments_are_read_quickly_too() -> None:
    """Text after thinking after arguments, in one read and event by event."""
    kinds = [("thinking_delta", "thinking"), ("input_json_delta", "partial_json")]
    events = [
        delta(index, kind, **{member: f"{number}"})
        for index, (kind, member) in enumerate(kinds)
        for number in range(90)
    ]
    events += [text("Hi", 2)] * 90 + [write_event("content_block_stop", index=2)]
    compare([START, b"".join(events), end(), STOP])
    compare([START, *events, end(), STOP])
