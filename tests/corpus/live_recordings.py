"""Recorded sessions of Gemini Live: their messages, a worker's frames, and each turn."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

from codec.websockets import MessageKind
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import (
    Begin,
    End,
    Frame,
    RequestBody,
    ResponseData,
    ResponseHead,
    SocketData,
)
from telemetry.observing.observer import Observer
from telemetry.observing.source import FrameSource
from tests.codec.websockets.frames import Direction, Part
from tests.corpus.oracle import parse_json
from tests.corpus.recordings import Recording, read_lines
from tests.telemetry import tap_frames
from tests.telemetry.tap_frames import MS, START_NS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from codec.websockets import Deflate
    from telemetry.observing.exchange import Exchange

__all__ = ("NUMBER", "Messages", "load_live", "load_sessions", "observe_frames", "write_frames")

NUMBER = 7
"""The number of the connection."""

PATH = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"

Messages = list[tuple[bool, bytes]]
"""Of both sides: whether the client sent it, and its text; Google's are in several lines."""


@cache
def load_sessions(folder: Path) -> Sequence[Messages]:
    """The messages of each recorded connection."""
    found = []
    for exchange in read_lines(folder, "gemini.live"):
        lines = [*map(parse_json, exchange["response"]["body"].splitlines())]
        asks = [line["from"] == "client" for line in lines]
        texts = [
            json.dumps(line["data"], indent=None if asked else 2).encode()
            for line, asked in zip(lines, asks, strict=True)
        ]
        found.append([*zip(asks, texts, strict=True)])
    return found


def write_frames(
    messages: Messages,
    kind: EndKind = EndKind.CLIENT_GONE,
    *,
    deflate: Deflate | None = None,
    is_fragmented: bool = False,
) -> list[Frame]:
    """The frames that a worker makes, a message in each; Google's messages are binary.

    Args:
        messages: of both sides.
        kind: how the connection ends.
        deflate: they are compressed, with those before as their context.
        is_fragmented: they come in pieces, with a ping between two of them.
    """
    at_ns = START_NS
    begin = tap_frames.begin(
        NUMBER, is_socket=True, endpoint="gemini.live", method="GET", path=PATH
    )
    agreed = (("sec-websocket-extensions", "permessage-deflate"),) if deflate is not None else ()
    head = ResponseHead(exchange=NUMBER, at_ns=at_ns, status=101, headers=agreed)
    frames: list[Frame] = [begin, head]
    sides = {side: Direction(from_client=side, deflate=deflate) for side in (True, False)}
    cuts, between = ((3, 40), (Part(MessageKind.PING, b"?"),)) if is_fragmented else ((), ())
    for from_client, text in messages:
        at_ns += MS
        form = MessageKind.TEXT if from_client else MessageKind.BINARY
        data = sides[from_client].write(Part(form, text, cuts=cuts, between=between))
        frames.append(SocketData(NUMBER, at_ns, from_client, data))
    return [*frames, End(exchange=NUMBER, at_ns=at_ns + MS, kind=kind)]


def observe_frames(frames: Iterable[Frame]) -> list[Exchange]:
    """The records of the turns of a connection."""
    exchanges: list[Exchange] = []
    failures: list[Exception] = []
    source = FrameSource(Observer(failures.append), lambda exchange, _: exchanges.append(exchange))
    source.feed(*frames)
    assert failures == []
    return exchanges


class _Frames(Observer):
    """Keeps the frames of all turns."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: dict[int, list[Frame]] = {}

    def feed(self, frame: Frame) -> Exchange | None:
        self.turns.setdefault(frame.exchange, []).append(frame)
        return super().feed(frame)


def load_live(folder: Path) -> Iterator[Recording]:
    """Each turn of all connections, as if it had come by HTTP."""
    for number, messages in enumerate(load_sessions(folder)):
        observer = _Frames()
        FrameSource(observer, lambda *_: None).feed(*write_frames(messages))
        for frames in observer.turns.values():
            [begin] = [frame for frame in frames if isinstance(frame, Begin)]
            *_, asked = [frame.data for frame in frames if isinstance(frame, RequestBody)]
            reads = [frame.data for frame in frames if isinstance(frame, ResponseData)]
            yield Recording(
                id=f"live {number}, turn {-begin.exchange}",
                target=PATH.encode(),
                request=asked or b"",
                body=b"".join(reads),
            )
