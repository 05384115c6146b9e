"""``codec.websockets.parser``: one direction of a WebSocket connection to messages."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.protocol import OPEN, Protocol, Side

from codec.errors import MalformedWebSocket
from codec.websockets.deflate import Deflate
from codec.websockets.parser import MessageKind, MessageParser
from tests.codec.websockets.frames import (
    Direction,
    Part,
    directions,
    list_messages,
    parse,
    part_lists,
    read_by_websockets,
    split,
    write_frame,
)

TEXT, BINARY, CLOSE = MessageKind.TEXT, MessageKind.BINARY, MessageKind.CLOSE
PING, PONG = MessageKind.PING, MessageKind.PONG
cuts = st.lists(st.integers(0, 1_000_000), max_size=12)


def open_parser(direction: Direction, **more: object) -> MessageParser:
    """Open the parser of a direction."""
    return MessageParser(
        from_client=direction.from_client,
        deflate=direction.deflate,
        **more,  # type: ignore[arg-type]
    )


@given(directions, part_lists, cuts)
def test_messages_are_those_that_an_end_of_the_connection_reads(
    direction: Direction, parts: list[Part], at: list[int]
) -> None:
    """Whatever the fragments, the compression and the masks are, and however the bytes are cut."""
    data = b"".join(map(direction.write, parts))
    messages = parse(open_parser(direction), split(data, at))
    got = [(message.kind, message.data) for message in messages]
    assert got == list_messages(parts) == read_by_websockets(direction, data)
    assert all(message.is_whole for message in messages)


@given(directions, part_lists)
def test_messages_are_the_same_byte_by_byte(direction: Direction, parts: list[Part]) -> None:
    """A head of 14 bytes may come in 14 reads."""
    data = b"".join(map(direction.write, parts[:3]))[:3_000]
    reads = [data[at : at + 1] for at in range(len(data))]
    assert parse(open_parser(direction), reads) == parse(open_parser(direction), [data])


@given(directions, part_lists, cuts, st.integers(0, 500))
def test_a_message_beyond_the_limit_is_cut(
    direction: Direction, parts: list[Part], at: list[int], limit_bytes: int
) -> None:
    """Its beginning stays, its size is counted, and later messages are read as usual."""
    data = b"".join(map(direction.write, parts))
    got = parse(open_parser(direction, limit_bytes=limit_bytes), split(data, at))
    whole = parse(open_parser(direction), [data])
    assert [message.size_bytes for message in got] == [len(it.data) for it in whole]
    for message, full in zip(got, whole, strict=True):
        is_control = message.kind in (PING, PONG)
        assert message.data == (full.data if is_control else full.data[:limit_bytes])
        assert message.is_whole == (len(message.data) == len(full.data))


@given(directions, part_lists, st.integers(0, 1_000_000))
def test_a_parser_that_continues_gives_the_same_messages(
    direction: Direction, parts: list[Part], at: int
) -> None:
    """Between any two messages; within one there is nothing to continue from."""
    texts = [part for part in parts if part.kind in (TEXT, BINARY)]
    whole, parser = open_parser(direction), open_parser(direction)
    for part in texts:
        data = direction.write(part)
        reads = split(data, [1 + at % (len(data) - 1)])
        expected = parse(whole, [data])
        assert parser.window is not None
        parser = open_parser(direction, window=parser.window)
        first = parse(parser, reads[:1])
        assert parser.window is None
        assert first + parse(parser, reads[1:]) == expected
    assert parser.window == whole.window


def test_a_parser_that_is_continued_knows_what_messages_may_refer_to() -> None:
    """Control frames and messages that are not compressed change nothing of it."""
    direction = Direction(deflate=Deflate())
    parser = open_parser(direction)
    hello = direction.write(Part(TEXT, b"Hello"))
    others = [Part(PING, b"p"), Part(TEXT, b"plain", is_deflated=False)]
    assert len(parse(parser, [hello, *map(direction.write, others)])) == 3
    assert parser.window == b"Hello"
    again = parse(
        open_parser(direction, window=parser.window), [direction.write(Part(TEXT, b"Hello"))]
    )
    assert [message.data for message in again] == [b"Hello"]


def test_without_a_context_there_is_no_window() -> None:
    """The next message refers to nothing before it."""
    deflate = Deflate(server_keeps_context=False)
    data = Direction(deflate=deflate).write(Part(TEXT, b"Hello"))
    parser = MessageParser(from_client=False, deflate=deflate)
    assert len(parse(parser, [data])) == 1
    assert parser.window == b""


@pytest.mark.parametrize("data", [b"\x88\x00", b"\x83\x00"])
def test_nothing_continues_a_parser_that_reads_nothing_more(data: bytes) -> None:
    """Behind a close, or what is no frame."""
    parser = MessageParser(from_client=False)
    with contextlib.suppress(MalformedWebSocket):
        parse(parser, [data])
    assert parser.window is None


@pytest.mark.parametrize(
    ("data", "from_client", "expected"),
    [
        ("81 05 48 65 6c 6c 6f", False, [(TEXT, b"Hello")]),
        ("81 85 37 fa 21 3d 7f 9f 4d 51 58", True, [(TEXT, b"Hello")]),
        ("01 03 48 65 6c 80 02 6c 6f", False, [(TEXT, b"Hello")]),
        ("89 05 48 65 6c 6c 6f", False, [(PING, b"Hello")]),
        ("8a 85 37 fa 21 3d 7f 9f 4d 51 58", True, [(PONG, b"Hello")]),
        ("82 7e 01 00" + "07" * 256, False, [(BINARY, b"\7" * 256)]),
        ("82 7f 00 00 00 00 00 01 00 00" + "07" * 65_536, False, [(BINARY, b"\7" * 65_536)]),
    ],
)
def test_the_examples_of_the_standard(
    data: str, from_client: bool, expected: list[tuple[MessageKind, bytes]]
) -> None:
    """RFC 6455, 5.7."""
    messages = parse(MessageParser(from_client=from_client), [bytes.fromhex(data)])
    assert [(message.kind, message.data) for message in messages] == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("c1 07 f2 48 cd c9 c9 07 00", [b"Hello"]),
        ("41 03 f2 48 cd 80 04 c9 c9 07 00", [b"Hello"]),
        ("c1 07 f2 48 cd c9 c9 07 00 c1 05 f2 00 11 00 00", [b"Hello", b"Hello"]),
        ("c1 0b 00 05 00 fa ff 48 65 6c 6c 6f 00", [b"Hello"]),
        ("c1 08 f3 48 cd c9 c9 07 00 00", [b"Hello"]),
        ("c1 0d f2 48 05 00 00 00 ff ff ca c9 c9 07 00", [b"Hello"]),
        ("c1 01 00", [b""]),
        ("c1 08 f3 48 cd c9 c9 07 00 00 c1 05 f2 00 11 00 00", [b"Hello", b"Hello"]),
    ],
)
def test_the_examples_of_compression(data: str, expected: list[bytes]) -> None:
    """RFC 7692, 7.2.3, and a message that refers behind a block that is called the last one."""
    parser = MessageParser(from_client=False, deflate=Deflate())
    assert [message.data for message in parse(parser, [bytes.fromhex(data)])] == expected


@pytest.mark.parametrize(
    ("payload", "code", "reason"),
    [
        (b"", None, ""),
        (b"\x03", None, ""),
        (b"\x03\xe8", 1000, ""),
        (b"\x03\xf3going away", 1011, "going away"),
        (b"\x0f\xa0too long \xff", 4000, "too long \ufffd"),
    ],
)
def test_a_close_frame_has_a_code_and_a_reason(
    payload: bytes, code: int | None, reason: str
) -> None:
    """Also a strange one; whatever comes behind it is ignored."""
    parser = MessageParser(from_client=False)
    behind = write_frame(1, b"more")
    [message] = parse(parser, [write_frame(8, payload) + behind, behind, b"\xff" * 9])
    assert (message.kind, message.close_code, message.close_reason) == (CLOSE, code, reason)


FAULTS = {
    "unmasked from a client": (True, write_frame(1, b"Hi")),
    "masked from a server": (False, write_frame(1, b"Hi", key=b"1234")),
    "unknown opcode": (False, write_frame(3, b"Hi")),
    "reserved bit": (False, b"\xa1\x02Hi"),
    "ping in fragments": (False, write_frame(9, b"Hi", is_last=False)),
    "ping that is too long": (False, write_frame(9, b"H" * 126)),
    "ping that is compressed": (False, write_frame(9, b"Hi", is_deflated=True)),
    "nothing to continue": (False, write_frame(0, b"Hi")),
    "message in a message": (False, write_frame(1, b"Hi", is_last=False) + write_frame(1, b"Hi")),
    "compressed continuation": (
        False,
        write_frame(1, b"Hi", is_last=False) + write_frame(0, b"Hi", is_deflated=True),
    ),
    "no deflate stream": (False, write_frame(1, b"\xff\xff", is_deflated=True)),
    "length with its first bit set": (False, b"\x81\x7f\xff" + bytes(7)),
}


@pytest.mark.parametrize(("from_client", "data"), FAULTS.values(), ids=FAULTS)
def test_a_broken_stream_ends_parsing(from_client: bool, data: bytes) -> None:
    """What came before is read, and every later read says so again."""
    direction = Direction(from_client=from_client, deflate=Deflate())
    good = direction.write(Part(TEXT, b"Hello"))
    parser = open_parser(direction)
    messages = [*parser.feed(good)]
    broken = parser.feed(good + data)
    messages.append(next(broken))
    with pytest.raises(MalformedWebSocket):
        next(broken)
    assert [message.data for message in messages] == [b"Hello", b"Hello"]
    with pytest.raises(MalformedWebSocket):
        [*parser.feed(good)]


def test_compression_that_was_not_agreed_on_is_a_fault() -> None:
    """The bit then has no meaning."""
    with pytest.raises(MalformedWebSocket):
        [*MessageParser(from_client=False).feed(bytes.fromhex("c107f248cdc9c90700"))]


@given(st.booleans(), st.none() | st.just(Deflate()), st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_messages_or_a_fault(
    from_client: bool, deflate: Deflate | None, reads: list[bytes]
) -> None:
    """No exception of the library comes out."""
    parser = MessageParser(from_client=from_client, deflate=deflate)
    try:
        parse(parser, reads)
    except MalformedWebSocket:
        with pytest.raises(MalformedWebSocket):
            [*parser.feed(b"x")]


@given(st.binary(max_size=300), cuts)
def test_any_compressed_bytes_are_a_message_or_a_fault(payload: bytes, at: list[int]) -> None:
    """Whatever a frame says that it is."""
    parser = MessageParser(from_client=False, deflate=Deflate())
    data = write_frame(1, payload, is_deflated=True) + write_frame(1, b"next")
    try:
        got = [message.data for message in parse(parser, split(data, at))]
    except MalformedWebSocket:
        return
    assert len(got) == 2
    assert got[-1] == b"next"


def test_what_websockets_writes_is_read() -> None:
    """Both ends of a connection of the library, with a ping within a message."""
    for side in (Side.CLIENT, Side.SERVER):
        end = Protocol(side, state=OPEN)
        end.send_text("čaj".encode(), fin=False)
        end.send_ping(b"1")
        end.send_continuation(b"!", fin=True)
        end.send_close(1001, "bye")
        parser = MessageParser(from_client=side is Side.CLIENT)
        ping, text, close = parse(parser, end.data_to_send()[:4])
        assert (ping.kind, ping.data, text.data) == (PING, b"1", "čaj!".encode())
        assert (close.close_code, close.close_reason) == (1001, "bye")
