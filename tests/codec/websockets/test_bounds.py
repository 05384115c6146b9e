"""The memory of ``codec.websockets``, whatever a connection carries (R5)."""

from __future__ import annotations

import tracemalloc
import zlib
from typing import TYPE_CHECKING

import pytest

from codec.websockets.deflate import WINDOW_BYTES, Deflate
from codec.websockets.parser import FREE_BYTES, MAX_MESSAGE_BYTES, MessageKind, MessageParser
from tests.codec.websockets.frames import Direction, Part, write_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

READ = 64 * 1024
MEBI = 1024 * 1024
HUGE = 100 * MEBI
PEAK = 4 * 1024 * 1024
"""A message, the copy of it that is given away, and some reads."""


def follow(parser: MessageParser, reads: Iterable[bytes]) -> tuple[list[tuple[int, int]], int]:
    """Parse reads; return what was kept of each message and its size, and the peak of memory."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        seen = [(len(it.data), it.size_bytes) for read in reads for it in parser.feed(read)]
        return seen, tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def in_reads(data: bytes) -> Iterator[bytes]:
    """Yield the reads in which data comes."""
    return (data[at : at + READ] for at in range(0, len(data), READ))


@pytest.mark.parametrize("from_client", [False, True])
def test_a_huge_frame_is_counted_and_cut(from_client: bool) -> None:
    """A frame of 100 MB, and the message behind it."""

    def reads() -> Iterator[bytes]:
        key = b"\1\2\3\4" if from_client else b""
        yield b"\x82" + (b"\xff" if from_client else b"\x7f") + HUGE.to_bytes(8, "big") + key
        piece = bytes(READ)
        for _ in range(HUGE // READ):
            yield piece
        yield write_frame(1, b"next", key=key or None)

    seen, peak = follow(MessageParser(from_client=from_client), reads())
    assert seen == [(FREE_BYTES, HUGE), (4, 4)]
    assert peak < PEAK


def test_a_huge_read_is_not_copied_as_a_whole() -> None:
    """Whoever replays a connection may have all of it."""
    data = write_frame(2, bytes(20 * 1024 * 1024))
    seen, peak = follow(MessageParser(from_client=False), [data])
    assert seen == [(FREE_BYTES, 20 * 1024 * 1024)]
    assert peak < PEAK


def test_a_message_is_kept_as_far_as_its_room_is_lent() -> None:
    """In steps, up to a limit; the next one begins anew."""
    lent: list[int] = []
    parser = MessageParser(from_client=False)

    def lend(size_bytes: int) -> bool:
        lent.append(size_bytes)
        return len(lent) != 3

    parser.lend = lend
    message = write_frame(2, bytes(4 * FREE_BYTES))
    assert follow(parser, [message])[0] == [(3 * FREE_BYTES, 4 * FREE_BYTES)]
    assert lent == [FREE_BYTES] * 3
    huge = write_frame(2, bytes(HUGE))
    assert follow(parser, [message, huge])[0] == [
        (4 * FREE_BYTES, 4 * FREE_BYTES),
        (MAX_MESSAGE_BYTES, HUGE),
    ]


def test_room_that_is_taken_back_cuts_the_message_under_way() -> None:
    """To what needs none; what was never lent, and the next message, are left alone."""
    parser = MessageParser(from_client=False)
    parser.lend = lambda _: True
    message = write_frame(2, bytes(3 * FREE_BYTES))
    half = len(message) // 2
    assert not [*parser.feed(message[:half])]
    parser.cut()
    assert follow(parser, [message[half:]])[0] == [(FREE_BYTES, 3 * FREE_BYTES)]
    parser.cut()
    assert follow(parser, [message])[0] == [(3 * FREE_BYTES, 3 * FREE_BYTES)]


def bomb(keeps_context: bool) -> bytes:
    """Compress 100 MB of one byte, and then a message that begins with what came before."""
    deflate = Deflate(server_keeps_context=keeps_context)
    direction = Direction(deflate=deflate, level=9)
    small = Part(MessageKind.TEXT, b"x" * 1_000)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    parts = [packer.compress(b"x" * (1024 * 1024)) for _ in range(HUGE >> 20)]
    huge = b"".join([*parts, packer.flush(zlib.Z_SYNC_FLUSH)])[:-4]
    if keeps_context:
        direction._compressor = packer
    return write_frame(1, huge, is_deflated=True) + direction.write(small)


@pytest.mark.parametrize("keeps_context", [True, False])
def test_a_bomb_is_counted_and_cut(keeps_context: bool) -> None:
    """100 MB in 100 kB; with its context kept, the next message refers to what was thrown away."""
    parser = MessageParser(from_client=False, deflate=Deflate(server_keeps_context=keeps_context))
    seen, peak = follow(parser, in_reads(bomb(keeps_context)))
    assert seen == [(FREE_BYTES, HUGE), (1_000, 1_000)]
    assert peak < PEAK


def test_many_messages_in_one_read_are_not_held_together() -> None:
    """A read of 64 KiB with 60 messages of 1 MiB: each is made when the one before was handled."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    text = b"x" * MEBI
    data = b"".join(
        write_frame(1, (packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4],
                    is_deflated=True)
        for _ in range(60)
    )  # fmt: skip
    parser = MessageParser(from_client=False, deflate=Deflate(), limit_bytes=MEBI)
    seen, peak = follow(parser, [data])
    assert seen == [(MEBI, MEBI)] * 60
    assert peak < PEAK


def test_a_message_in_tiny_fragments_is_counted_and_cut() -> None:
    """A fragment has one byte, and a whole read of them comes at once."""
    piece = write_frame(0, b"x", is_last=False)
    count = 40_000
    reads = [write_frame(1, b"x", is_last=False), *([piece * 10_000] * (count // 10_000))]
    parser = MessageParser(from_client=False, limit_bytes=10_000)
    seen, peak = follow(parser, [*reads, write_frame(0, b"")])
    assert seen == [(10_000, count + 1)]
    assert peak < 512 * 1024


def test_a_long_life_takes_no_memory() -> None:
    """Five thousand messages and some pings; the window never grows."""
    direction = Direction(deflate=Deflate())
    parts = [Part(MessageKind.TEXT, b"%06d" % n * 30) for n in range(1_000)]
    parts.insert(0, Part(MessageKind.PING, b"p"))
    parser = MessageParser(from_client=False, deflate=Deflate())
    sizes = []
    tracemalloc.start()
    try:
        for _ in range(5):
            for _ in parser.feed(b"".join(map(direction.write, parts))):
                pass
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert max(sizes[2:]) < sizes[1] + 64 * 1024
    assert len(parser.window or b"") == WINDOW_BYTES


def test_nothing_is_kept_behind_a_close_frame() -> None:
    """Nor counted, nor parsed."""
    parser = MessageParser(from_client=False)
    reads = [write_frame(8, b"\x03\xe8"), *([write_frame(2, bytes(READ - 10))] * 200)]
    seen, peak = follow(parser, reads)
    assert seen == [(2, 2)]
    assert peak < READ
