"""``telemetry.frames.blocks``: what is packed comes out again, and no more than it may."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.frames.blocks import (
    BLOCK_BYTES,
    HEADER_BYTES,
    MalformedBlockError,
    pack,
    read_header,
    unpack,
)


def read_all(data: bytes) -> list[bytes]:
    """What each block of these bytes gives."""
    file, plain = io.BytesIO(data), []
    while header := file.read(HEADER_BYTES):
        stored_bytes, plain_bytes = read_header(header)
        plain.append(unpack(file.read(stored_bytes), plain_bytes))
    return plain


@given(st.lists(st.binary(max_size=100)), st.integers(0, 3))
def test_what_is_packed_comes_out_again(pieces: list[bytes], copies: int) -> None:
    """However long it is, and in blocks of the size that a reader expects."""
    pieces += [bytes(BLOCK_BYTES // 2)] * copies
    plain = read_all(b"".join(pack(pieces)))
    assert b"".join(plain) == b"".join(pieces)
    assert all(0 < len(block) <= BLOCK_BYTES for block in plain)


def test_a_stream_takes_a_small_part() -> None:
    """Chunks say the same around each word."""
    chunks = [b'data: {"choices":[{"delta":{"content":"word %d"}}]}\n\n' % n for n in range(2000)]
    assert len(b"".join(pack(chunks))) < len(b"".join(chunks)) / 8


@given(st.data())
def test_a_changed_byte_is_found(data: st.DataObject) -> None:
    """Wherever it is: nothing that was not packed comes out."""
    plain = b"what a provider said " * 20
    [block] = pack([plain])
    at = data.draw(st.integers(0, len(block) - 1))
    changed = bytearray(block)
    changed[at] ^= data.draw(st.integers(1, 255))
    try:
        found = read_all(bytes(changed))
    except MalformedBlockError:
        return
    assert b"".join(found) == plain


def test_a_block_gives_no_more_than_it_may() -> None:
    """A megabyte behind a small claim is not made."""
    large = b"".join(pack([bytes(BLOCK_BYTES)]))
    with pytest.raises(MalformedBlockError, match="another length"):
        unpack(large[HEADER_BYTES:], 10)
    with pytest.raises(MalformedBlockError, match="claims"):
        read_header(b"\0\0\0\1" + (BLOCK_BYTES + 1).to_bytes(4, "big"))


@pytest.mark.parametrize("plain", [b"", b"what a provider said " * 20])
def test_a_block_that_is_cut_off_is_refused(plain: bytes) -> None:
    """Wherever it is cut, and also where it says that it gives nothing."""
    [block] = pack([plain]) if plain else [bytes(HEADER_BYTES + 1)]
    for end in range(HEADER_BYTES, len(block)):
        with pytest.raises(MalformedBlockError):
            unpack(block[HEADER_BYTES:end], len(plain))
