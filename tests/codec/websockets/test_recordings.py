"""Recorded sessions of Realtime, Live and Responses, framed again and parsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from codec.text.jsontext import decode_json
from codec.websockets.deflate import Deflate
from codec.websockets.parser import MessageKind, MessageParser
from tests.codec.websockets.frames import Direction, Part, parse, read_by_websockets
from tests.corpus.recordings import FOLDER, NEEDS_RECORDINGS, read_lines

pytestmark = NEEDS_RECORDINGS

_SECOND = Path("recordings-apis-2", "exchanges.jsonl")
_SESSIONS = [
    exchange
    for api, *file in (("realtime",), ("gemini.live",), ("responses.websocket", _SECOND))
    if FOLDER is not None
    for exchange in read_lines(FOLDER, api, *file)
]


@pytest.mark.parametrize("is_compressed", [False, True])
def test_the_messages_of_a_session_are_read(is_compressed: bool) -> None:
    """Each direction of each session, in reads of 1,400 bytes, as ``websockets`` reads it."""
    count = 0
    for session in _SESSIONS:
        lines = [line for line in session["response"]["body"].split("\n") if line]
        for side in ("client", "server"):
            texts = [line.encode() for line in lines if decode_json(line)["from"] == side]
            deflate = Deflate() if is_compressed else None
            direction = Direction(from_client=side == "client", deflate=deflate)
            data = b"".join(direction.write(Part(MessageKind.TEXT, text)) for text in texts)
            parser = MessageParser(from_client=side == "client", deflate=deflate)
            reads = [data[at : at + 1_400] for at in range(0, len(data), 1_400)]
            got = [(message.kind, message.data) for message in parse(parser, reads)]
            assert got == [(MessageKind.TEXT, text) for text in texts]
            assert got == read_by_websockets(direction, data)
            count += len(got)
    assert count > 1_000
