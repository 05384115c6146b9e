"""Frames of whole exchanges, for the tests of the observing half."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from telemetry.frames.ending import EndKind
from telemetry.frames.frame import Begin, End, Frame, RequestBody, ResponseData, ResponseHead
from telemetry.frames.kept import frame_bytes
from telemetry.span_identity import SpanIdentity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from telemetry.frames.outbox import FrameOutbox

START_NS = 1_700_000_000_000_000_000
MS = 1_000_000

ASKED = b'{"model":"m-1","messages":[{"role":"user","content":"hi"}]}'
ASKED_STREAM = b'{"model":"m-1","stream":true,"messages":[{"role":"user","content":"hi"}]}'
ANSWER = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m-1-2026","choices":'
    b'[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}'
)


def event(delta: str = "", finish: str | None = None, *, index: int = 0) -> bytes:
    """One chunk of a stream as an event."""
    reason = "null" if finish is None else f'"{finish}"'
    return (
        'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m-1-2026",'
        f'"choices":[{{"index":{index},"delta":{{{delta}}},"finish_reason":{reason}}}]}}\n\n'
    ).encode()


ROLE = event('"role":"assistant","content":""')
HEL = event('"content":"Hel"')
LO = event('"content":"lo"')
STOP = event(finish="stop")
USAGE = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m-1-2026",'
    b'"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
)
DONE = b"data: [DONE]\n\n"
WHOLE_STREAM = (ROLE, HEL, LO, STOP, USAGE, DONE)

GZIP = [("content-encoding", "gzip")]


def add_frame(outbox: FrameOutbox, frame: Frame) -> None:
    """Add a frame to its exchange, which is a new one if none is kept."""
    number = frame.exchange
    kept = outbox._kept.get(number) or outbox._spooled.get(number)
    exchange = kept or outbox.open_exchange(number)
    exchange.add(frame, frame_bytes(frame))


def identity(number: int = 1, **members: Any) -> SpanIdentity:
    """The identity that goes with the number of an exchange."""
    return SpanIdentity(trace_id=f"{number:032x}", span_id=f"{number:016x}", **members)


def begin(number: int = 1, **members: Any) -> Begin:
    """A ``begin`` frame."""
    defaults: dict[str, Any] = {
        "at_ns": START_NS,
        "identity": identity(number),
        "endpoint": "chat.completions",
        "method": "POST",
        "path": "/v1/chat/completions",
        "upstream": "default",
    }
    return Begin(exchange=number, **{**defaults, **members})


def end(number: int = 1, kind: EndKind = EndKind.UPSTREAM_EOF, **members: Any) -> End:
    """An ``end`` frame."""
    return End(exchange=number, kind=kind, **{"at_ns": START_NS + 1000 * MS, **members})


def exchange_frames(
    *data: bytes,
    number: int = 1,
    asked: bytes | None = ASKED,
    status: int | None = 200,
    headers: Sequence[tuple[str, str]] = (),
    request_headers: Sequence[tuple[str, str]] = (),
    head: dict[str, Any] | None = None,
    kind: EndKind = EndKind.UPSTREAM_EOF,
    **ending: Any,
) -> list[Frame]:
    """The frames of one exchange.

    Its ``data`` are the reads of the answer's body, 10 ms apart from 100 ms after the start; a
    ``status`` of ``None`` means that no answer came, ``asked`` of ``None`` that the request was
    over the limit. ``head`` and ``ending`` are further members of those frames.
    """
    size = len(asked) if asked is not None else 1 << 30
    frames: list[Frame] = [
        begin(number, headers=tuple(request_headers)),
        RequestBody(exchange=number, data=asked, size_bytes=size),
    ]
    if status is not None:
        frames.append(
            ResponseHead(
                exchange=number,
                at_ns=START_NS + 90 * MS,
                status=status,
                headers=tuple(headers),
                **(head or {}),
            )
        )
    frames += [
        ResponseData(number, START_NS + (100 + 10 * count) * MS, piece)
        for count, piece in enumerate(data)
    ]
    return [*frames, end(number, kind, **ending)]


def cut(data: bytes, at: Iterable[int]) -> list[bytes]:
    """The bytes cut at some places; places outside of them do not matter."""
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in at)})
    return [data[a:b] for a, b in pairwise(places)]
