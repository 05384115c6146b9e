"""``codec.text.lines``: lines of JSON, however they are cut."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.errors import LimitExceeded
from codec.text.lines import LineDecoder

ENDS = st.sampled_from([b"\n", b"\r\n", b" \r\n", b"\n\n"])
LINES = st.lists(
    st.tuples(
        st.text(max_size=12).map(lambda text: text.replace("\n", " ").encode()) | st.just(b'"\xf0'),
        ENDS,
    ),
    max_size=8,
)


def read(pieces: list[bytes], limit_bytes: int = 1_000) -> list[bytes]:
    """The lines of these reads, the last one without an end too."""
    decoder = LineDecoder(limit_bytes=limit_bytes)
    lines = [line for piece in pieces for line in decoder.split(piece)]
    last = decoder.finish()
    return lines if last is None or last.data is None else [*lines, last.data]


@given(LINES, st.binary(max_size=9), st.data())
def test_to_3_lines_are_the_same_however_they_are_cut(
    lines: list[tuple[bytes, bytes]], last: bytes, data: st.DataObject
) -> None:
    """CRLF and characters cut in two included; the last line may lack its end."""
    written = b"".join(line + end for line, end in lines) + last
    places = data.draw(st.lists(st.integers(0, len(written)), max_size=9).map(sorted))
    starts, ends = [0, *places], [*places, len(written)]
    pieces = [written[start:end] for start, end in zip(starts, ends, strict=True)]
    expected = [line.strip(b" \t\r") for line in written.split(b"\n")]
    assert read(pieces) == [line for line in expected if line]
    assert read([written[at : at + 1] for at in range(len(written))]) == read([written])


@pytest.mark.parametrize("white", [b"\x0b", b"\x0c", "\u2028".encode(), b"\r"])
def test_nothing_else_ends_a_line(white: bytes) -> None:
    """Python's own ``splitlines`` would cut there."""
    assert read([b'{"a":' + white + b"1}\n"]) == [b'{"a":' + white + b"1}"]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_line_that_is_too_long_is_the_end(size: int) -> None:
    """What was whole before it comes out; then nothing more does."""
    written = b"1\n22\n" + b"3" * 20 + b"\n4\n"
    decoder = LineDecoder(limit_bytes=10)
    lines: list[bytes] = []
    for at in range(0, len(written), size):
        with contextlib.suppress(LimitExceeded):
            lines += decoder.split(written[at : at + size])
    assert lines == [b"1", b"22"]
    with pytest.raises(LimitExceeded):
        decoder.split(b"5\n")
    with pytest.raises(LimitExceeded):
        decoder.finish()
    assert (decoder.pending_bytes, decoder.is_between_events) == (0, False)


def test_a_line_of_the_limit_is_none_too_long() -> None:
    """Its end does not count."""
    assert read([b"1234567890\n"], 10) == [b"1234567890"]
    assert read([b"1234567890"], 10) == [b"1234567890"]


def test_it_tells_what_is_under_way() -> None:
    """In bytes, and whether the next one begins a line."""
    decoder = LineDecoder(limit_bytes=10)
    assert decoder.is_between_events
    decoder.split(b"1\n22")
    assert (decoder.pending_bytes, decoder.is_between_events) == (2, False)
    decoder.split(b"\n")
    assert (decoder.pending_bytes, decoder.is_between_events) == (0, True)
    assert decoder.finish() is None
