"""``codec.websockets.deflate``: what a handshake agreed on, and the inflater."""

from __future__ import annotations

import random
import zlib
from functools import partial

import pytest
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.headers import parse_extension

from codec.websockets.deflate import PIECE_BYTES, WINDOW_BYTES, Deflate, Inflater, read_deflate
from codec.websockets.parser import MessageKind
from tests.codec.websockets.frames import Direction, Part

HEADERS = [
    "permessage-deflate",
    "permessage-deflate; server_no_context_takeover",
    "permessage-deflate; client_no_context_takeover",
    "permessage-deflate;client_no_context_takeover ;\tserver_no_context_takeover",
    "permessage-deflate; server_max_window_bits=10; client_max_window_bits=9",
    'permessage-deflate; server_max_window_bits="10"; client_no_context_takeover',
]


@pytest.mark.parametrize("header", HEADERS)
def test_the_answer_of_a_handshake_is_read_as_websockets_does(header: str) -> None:
    """The library's client is the oracle; it takes whatever a server may answer."""
    [(_, parameters)] = parse_extension(header)
    factory = ClientPerMessageDeflateFactory(client_max_window_bits=True)
    theirs = factory.process_response_params(parameters, [])
    assert read_deflate(header) == Deflate(
        client_keeps_context=not theirs.local_no_context_takeover,
        server_keeps_context=not theirs.remote_no_context_takeover,
    )


@pytest.mark.parametrize("header", [None, "", "x-other", "x-permessage-deflate; a=b", ", ,"])
def test_without_the_extension_nothing_is_compressed(header: str | None) -> None:
    """Another extension is passed over."""
    assert read_deflate(header) is None


def test_the_extension_is_found_among_others() -> None:
    """Several lines of the header are joined by commas."""
    header = "x-other; a=1, permessage-deflate; server_no_context_takeover"
    assert read_deflate(header) == Deflate(server_keeps_context=False)


def test_pieces_have_a_limit() -> None:
    """Text that fills a piece exactly, and the text behind it, come all the same."""
    for size in (PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES):
        part = Part(MessageKind.TEXT, bytes(size))
        frame = Direction(deflate=Deflate()).write(part)
        payload = frame[2 if len(frame) < 128 else 4 :]
        inflater = Inflater(keeps_context=True)
        pieces = [*inflater.inflate(payload, is_end=True)]
        assert max(map(len, pieces)) <= PIECE_BYTES
        assert b"".join(pieces) == part.data


def finish(text: bytes, before: bytes) -> bytes:
    """Compress a text that refers to what is before it, in a block that is called the last one."""
    window = before[-WINDOW_BYTES:]
    raw = partial(zlib.compressobj, 9, zlib.DEFLATED, -15)
    packer = raw(zdict=window) if window else raw()
    return packer.compress(text) + packer.flush()


def test_text_behind_a_last_block_refers_to_text_before_it() -> None:
    """Within a message, and in the next one (RFC 7692, 7.2.3.4)."""
    noise = random.Random(1)
    first, more = noise.randbytes(3 * WINDOW_BYTES), noise.randbytes(WINDOW_BYTES // 2)
    second = first[300 - WINDOW_BYTES :][:1_000] + more
    third = second[500:]
    inflater = Inflater(keeps_context=True)
    blocks = finish(first, b"") + finish(second, first)
    assert b"".join(inflater.inflate(blocks + b"\0", is_end=True)) == first + second
    block = finish(third, first + second)
    assert len(block) < 1_000
    assert b"".join(inflater.inflate(block + b"\0", is_end=True)) == third
