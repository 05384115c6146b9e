"""``codec.apis.gemini``: the quick way of reading words comes to what the general one does.

The oracle is the general way: each chunk by itself, decoded whole.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.gemini.fold import ContentFold
from codec.apis.gemini.stream import ContentStream

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD = b'{"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"},"index":0}]'
_TAIL = b',"modelVersion":"m","responseId":"r"}'
_COUNTS = b',"usageMetadata":{"promptTokenCount":3,"totalTokenCount":%b}'
_WORD = _HEAD + _COUNTS % b"7" + _TAIL
ODD_CHUNKS = (
    _HEAD + _TAIL,
    _HEAD + b',"modelVersion":"m2","responseId":"r"}',
    _HEAD + b',"modelVersion":null,"responseId":"r"}',
    _HEAD + b',"modelVersion":"m","responseId":"r","createTime":"2026-05-04T20:01:02Z"}',
    _HEAD + b',"usageMetadata":{"promptTokenCount":3}' + _TAIL,
    _HEAD + b',"usageMetadata":{"promptTokenCount":3,"totalTokenCount":9,"x1":2}' + _TAIL,
    _HEAD + b',"usageMetadata":{"promptTokenCount1":3,"totalTokenCount":9}' + _TAIL,
    _HEAD + b',"usageMetadata":{"d":[{"modality":"TEXT","tokenCount":3}]}' + _TAIL,
    _HEAD + b',"usageMetadata":{"promptTokenCount":null,"totalTokenCount":9}' + _TAIL,
    _HEAD + b',"usageMetadata":null' + _TAIL,
    _HEAD + b',"usageMetadata":7' + _TAIL,
    _HEAD + _COUNTS % b"-1" + _TAIL,
    _HEAD + _COUNTS % b"01" + _TAIL,
    _HEAD + _COUNTS % b"1.5" + _TAIL,
    _HEAD + _COUNTS % b"12345678901234567890" + _TAIL,
    _HEAD + b',"usageMetadata":{"promptTokenCount":3,"totalTokenCount":8' + _TAIL,
    _WORD.replace(b'"index":0', b'"index":1'),
    _WORD.replace(b'"index":0', b'"index":-1'),
    _WORD.replace(b',"index":0', b""),
    _WORD.replace(b',"index":0', b',"index":0,"finishReason":"STOP"'),
    _WORD.replace(b'"role":"model"', b'"role":"user"'),
    _WORD.replace(b',"role":"model"', b""),
    _WORD.replace(b'"text":"a"', b'"text":""'),
    _WORD.replace(b'"text":"a"', b'"text":7'),
    _WORD.replace(b'"text":"a"', b'"text":"a","text":"b"'),
    _WORD.replace(b'"text":"a"', b'"text":"\\ud83d"'),
    _WORD.replace(b'"text":"a"', b'"text":"\xff"'),
    _WORD.replace(b'"text":"a"', b'"text":"%b"' % (b"x" * 5_000)),
    _WORD.replace(b'"text":"a"', b'"text":"a","thought":true'),
    _WORD.replace(b'"text":"a"', b'"text":"a","thought":false'),
    _WORD.replace(b'"text":"a"', b'"text":"a","thoughtSignature":"s"'),
    _WORD.replace(b'{"text":"a"}', b'{"text":"a"},{"text":"b"}'),
    _WORD.replace(b'{"text":"a"}', b'{"functionCall":{"name":"f","args":{}}}'),
    _WORD.replace(b'{"text":"a"}', b""),
    _WORD.replace(b'"candidates":[', b'"candidates":[7,'),
    b'{"usageMetadata":{"promptTokenCount":3,"totalTokenCount":11}}',
    b'{"error":{"code":500,"message":"no","status":"INTERNAL"}}',
    b'{"promptFeedback":{"blockReason":"SAFETY"}}',
    b"{}",
    b"7",
    b"{",
    b"[DONE]",
    b"",
)


class SlowStream(ContentStream):
    """Reads every chunk the general way."""

    def _add_words(self, texts: Sequence[str], counts: bytes) -> bool:
        return False


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


def compare(data: bytes, size: int, lent_bytes: int | None = None) -> None:
    """Both ways say the same, cut anywhere, also before the end."""
    said: list[Any] = []
    for kind in (SlowStream, ContentStream):
        stream = kind(lend=None if lent_bytes is None else Lender(lent_bytes))
        for start in range(0, len(data), size):
            stream.feed(data[start : start + size])
        said.append((stream.has_content, stream.is_complete, stream.finish(), stream.chunk_count))
    assert said[0] == said[1]


def word(number: int, text: str, thought: bool | None = None) -> bytes:
    """A chunk as most are, whose counts run."""
    part = {"text": text} | ({} if thought is None else {"thought": thought})
    counts = {"promptTokenCount": 3, "candidatesTokenCount": number, "totalTokenCount": number + 3}
    details = [{"modality": "TEXT", "tokenCount": 3}]
    chunk = {
        "candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}],
        "usageMetadata": counts | {"promptTokensDetails": details},
        "modelVersion": "gemini-3-pro",
        "responseId": "r",
    }
    return json.dumps(chunk, ensure_ascii=False).encode()


def write(chunks: list[bytes], framing: str) -> bytes:
    """The chunks of a stream in one of its framings."""
    if framing == "array":
        return b"[" + b",\r\n".join(chunks) + b"]"
    end = b"\r\n\r\n" if framing == "crlf" else b"\n\n"
    return b"".join(b"data: " + chunk + end for chunk in chunks)


FRAMINGS = ("crlf", "lf", "array")
END = _WORD.replace(b'"index":0', b'"index":0,"finishReason":"STOP"')


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("odd", ODD_CHUNKS, ids=range(len(ODD_CHUNKS)))
def test_one_odd_chunk_among_many(odd: bytes, framing: str) -> None:
    """It alone is read in another way; those after it, as they were before."""
    for words in ([word(n, "w ") for n in range(9)], [_HEAD + _TAIL] * 9, [_WORD] * 9):
        for place in (0, 1, 5, 9):
            chunks = [*words[:place], odd, *words[place:], END]
            compare(write(chunks, framing), 1 << 20)


_TEXTS = st.text(st.sampled_from('a é🌊\\"\n0'), max_size=5)


@given(
    words=st.lists(st.tuples(_TEXTS, st.sampled_from([None, True, False])), max_size=12),
    odd=st.lists(st.tuples(st.integers(0, 12), st.sampled_from(ODD_CHUNKS)), max_size=3),
    framing=st.sampled_from(FRAMINGS),
    size=st.integers(1, 3_000),
    lent_bytes=st.none() | st.integers(0, 6_000),
)
def test_words_are_what_each_chunk_is(
    words: list[tuple[str, bool | None]],
    odd: list[tuple[int, bytes]],
    framing: str,
    size: int,
    lent_bytes: int | None,
) -> None:
    """Whatever is among them, wherever reads are cut, whatever there is room for."""
    chunks = [word(number, *said) for number, said in enumerate(words)]
    for at, payload in odd:
        chunks.insert(at, payload)
    compare(write([*chunks, END], framing), size, lent_bytes)


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("count", [20, 200])
@pytest.mark.parametrize("size", [1_000, 16_384, 1 << 20])
def test_most_chunks_of_a_usual_stream_are_read_quickly(
    framing: str, count: int, size: int
) -> None:
    """All but the first and the last one: a quick way that is never taken compares well, too."""
    chunks = [word(number + 100, f"w{number} ") for number in range(count)]
    data = write([*chunks, END], framing)
    stream = ContentStream()
    with mock.patch.object(
        ContentFold, "feed", autospec=True, side_effect=ContentFold.feed
    ) as general:
        for start in range(0, len(data), size):
            stream.feed(data[start : start + size])
    assert general.call_count == 2
    [answer] = stream.finish().answers
    assert answer.message.content == "".join(f"w{number} " for number in range(count)) + "a"


ZEROS = (
    _HEAD + b',"usageMetadata":{"totalTokenCount":%b}' * 2 + _TAIL,
    _HEAD.replace(b'"index":0', b'"index":%b') + b',"usageMetadata":%b' + _TAIL,
)


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("chunk", ZEROS, ids=["counts twice", "counts like the index"])
def test_zeros_are_tried_like_other_numbers(chunk: bytes, framing: str) -> None:
    """Counts that are zero do not pass for what else is zero in a chunk."""
    chunks = [chunk % (b"0", b"0"), chunk % (b"5", b"0"), chunk % (b"0", b"7"), END]
    for count in range(1, len(chunks) + 1):
        compare(write(chunks[:count], framing), 1 << 20)
