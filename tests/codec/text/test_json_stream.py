"""``codec.text.json_stream``: values of a stream of JSON, cut anywhere."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.errors import LimitExceeded
from codec.text.base64_text import shorten_base64, shorten_base64_text
from codec.text.json_stream import JsonSplitter
from codec.text.jsontext import decode_json
from codec.text.sse import SHORTENED_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

SCALARS = st.none() | st.booleans() | st.integers() | st.text('ab\\"[]{},: \n\u00e9', max_size=9)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)
SPACES = st.sampled_from(["", " ", "\r\n", "\n\t"])
CUTS = st.lists(st.integers(0, 400), max_size=12)


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """The bytes, cut at these places."""
    ends = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(ends)]


def split(pieces: Iterable[bytes], **limits: Any) -> tuple[list[bytes], JsonSplitter]:
    """All values of a stream, and the splitter."""
    splitter = JsonSplitter(**limits)
    return [value for piece in pieces for value in splitter.split(piece)], splitter


@given(st.lists(VALUES, max_size=6), st.booleans(), SPACES, SPACES, CUTS)
def test_the_elements_of_an_array_are_what_a_parser_reads(
    values: list[Any], indented: bool, before: str, behind: str, places: list[int]
) -> None:
    """However it is written, and wherever its bytes are cut."""
    indent = 2 if indented else None
    texts = [json.dumps(value, indent=indent, ensure_ascii=False) for value in values]
    array = f"[{before}{f'{before},{behind}'.join(texts)}{behind}]{before}".encode()
    assert decode_json(array) == values
    told, splitter = split(cut(array, places))
    assert [decode_json(text) for text in told] == values
    assert splitter.is_closed
    assert splitter.finish() == b""


@given(st.lists(st.lists(VALUES) | st.dictionaries(st.text(), VALUES), max_size=5), SPACES, CUTS)
def test_values_may_stand_one_after_another(
    values: list[Any], space: str, places: list[int]
) -> None:
    """Where the stream begins with no array; objects need nothing between them."""
    texts = ["{}", *map(json.dumps, values)]
    told, splitter = split(cut(space.join(texts).encode(), places))
    assert [text.decode() for text in told] == texts
    assert not splitter.is_closed


@given(st.lists(VALUES, min_size=1, max_size=4), st.integers(0, 300), CUTS)
def test_an_array_that_breaks_off_tells_what_was_whole(
    values: list[Any], end: int, places: list[int]
) -> None:
    """And the value under way is what came of it."""
    array = json.dumps(values).encode()
    kept = array[: min(end, len(array) - 1)]
    told, splitter = split(cut(kept, places))
    rest = splitter.finish()
    assert [decode_json(text) for text in told] == values[: len(told)]
    assert not splitter.is_closed
    assert kept.endswith(rest)
    assert len(told) + bool(rest) <= len(values)


@given(st.text('ab\\"[]{},: ').map(str.encode), CUTS)
def test_anything_is_cut_the_same_however_it_is_read(data: bytes, places: list[int]) -> None:
    """Nothing is lost of what is not JSON but white space and commas."""
    whole, splitter = split([data])
    told, other = split(cut(data, places))
    assert told == whole
    assert other.is_closed is splitter.is_closed
    assert other.finish() == splitter.finish()


def test_what_follows_the_end_of_the_array_is_passed_over() -> None:
    """A second array, too."""
    told, splitter = split([b"[{}] [1] x", b"{}"])
    assert told == [b"{}"]
    assert splitter.is_between_values


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_value_past_its_limit_ends_it(size: int) -> None:
    """Those before it are told first."""
    data = b"[1, " + b'"' + b"a" * 100 + b'"]'
    splitter = JsonSplitter(limit_bytes=50)
    told = []
    with pytest.raises(LimitExceeded):  # noqa: PT012 - which of the reads raises is up to the cut
        for start in range(0, len(data) + size, size):
            told += splitter.split(data[start : start + size])
    assert told == [b"1"]
    assert splitter.pending_bytes == 0
    with pytest.raises(LimitExceeded):
        splitter.finish()


@pytest.mark.parametrize("size", [1_000, 60_000, 5_000_000])
def test_a_large_picture_takes_little(size: int) -> None:
    """Its length stands for it, counted over all reads."""
    chars = 4_000_000
    part = b'{\n "inlineData": {\n  "mimeType": "image/png",\n  "data": "' + b"A" * chars + b'"}}'
    array = b"[" + part + b", {}]"
    splitter = JsonSplitter(limit_bytes=4 * SHORTENED_BYTES, shorten=shorten_base64_text)
    told = []
    for start in range(0, len(array), size):
        told += splitter.split(array[start : start + size])
        assert splitter.pending_bytes < 2 * SHORTENED_BYTES
    first, second = map(decode_json, told)
    shorten_base64(first["inlineData"], ("data",))
    assert first["inlineData"]["data"] == f"<{chars} base64 characters>"
    assert second == {}


@pytest.mark.parametrize(
    "unit", [b"{},", b"[", b"[]", b'"\\"\\\\",', b"\\", b'{"a":[', b"]", b'""', b"1,", b"[]{"]
)
def test_the_work_is_linear(unit: bytes) -> None:
    """Of the worst that was thought of: four times as much takes four times as long."""
    short, long = (
        min(_time(unit, size_bytes) for _ in range(3)) for size_bytes in (300_000, 1_200_000)
    )
    assert long < 10 * short


def _time(unit: bytes, size_bytes: int) -> float:
    """Seconds of the processor's for so much of one unit, in reads of 60,000 bytes."""
    data = b"[{" + unit * (size_bytes // len(unit))
    splitter = JsonSplitter()
    begun = time.thread_time()
    for start in range(0, len(data), 60_000):
        splitter.split(data[start : start + 60_000])
    return time.thread_time() - begun
