"""Answers that are malformed streams, the same in every run.

Faults in chunks, in events, in framing, and ends of all kinds. A usage event, where it is asked
for, stands alone between two events: only there it is the one that nobody sees who did not ask
(``docs/contract/promises.md#usage``).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.faults.malformed_bodies import ODD_BYTES, ODD_NUMBERS, encode, odd_value, spoil
from tests.proxy.harness import DONE, USAGE_EVENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ("Frame", "MalformedStream", "choose_frame", "make_stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedStream:
    """An answer, as pieces that are written one after the other.

    Attributes:
        asked: to a request that asks for usage.
        unasked: to one that does not.
        closes: only the end of the connection ends it, well or not.
    """

    asked: tuple[bytes, ...]
    unasked: tuple[bytes, ...]
    closes: bool


# fmt: off
_LINE_ENDS = (b"\n", b"\r\n", b"\r")
_ODD_LINES = (
    b": comment", b":", b"event: error", b"event:", b"id: 1\x00", b"retry: x", b"data",
    b"nonsense", b"data:[DONE]", b"data: ", b"data:  [DONE]", b"DATA: {}", b" data: {}", b"\x00",
    b"\xff\xfe", b"data: null", b"data: []", b"data: 1", b'data: "x"', b"data: {}",
    b'data: {"choices":null}', b'data: {"choices":{}}', b'data: {"object":"other"}', b"error: {}",
    b'data: {"error":{"message":"Overloaded","type":"overloaded_error"}}', b'data: {"error":5}',
    b'data: {"error":"x"}', b'{"error":{"message":"bare"}}',
)
_PAGES = (
    b"", b"\n", b"\r\n\r\n", b"<html><body>502 Bad Gateway</body></html>",
    b'{"error":{"message":"no stream"}}', b"{", b"null", b"data:", b"data: {", b"data: [DONE]",
    b"\xef\xbb\xbf", b"\x00" * 5000, b"data: " + b"x" * 70_000, b"\n" * 5000, b": ping\n\n" * 200,
)
_TYPES = (
    b"Content-Type: text/event-stream\r\n",
    b"Content-Type: text/event-stream; charset=utf-8\r\n",
    b"Content-Type: text/plain\r\n",
    b"",
)
_LAST_CHUNK = b"0\r\n\r\n"
_BAD_ENDINGS = (b"", b"0\r\n", b"zz\r\n\r\n", b"5\r\nab", b"2\r\nabc\r\n", b"-1\r\n\r\n")
# fmt: on


def make_stream(number: int) -> MalformedStream:
    """A stream; each number makes one of its own."""
    dice = random.Random(f"stream {number}")
    if dice.random() < 0.1:
        events = list[bytes]()
        tail = dice.choice((*_PAGES, dice.randbytes(dice.randrange(1, 2000))))
    else:
        events, tail = _spoiled_events(dice)
    frame = choose_frame(dice, tail_bytes=len(tail))
    usage = USAGE_EVENT if dice.random() < 0.9 else b""
    return MalformedStream(
        asked=frame.write(b"".join([*events, usage, tail])),
        unasked=frame.write(b"".join([*events, tail])),
        closes=frame.closes,
    )


def _spoiled_events(dice: random.Random) -> tuple[list[bytes], bytes]:
    """Events with faults, and what comes after the usage."""
    events = [_event(dice, chunk) for chunk in _chunk_objects(dice)]
    events = [_spoil_event(dice, event) if dice.random() < 0.3 else event for event in events]
    for _ in range(dice.randrange(4)):
        events.insert(dice.randrange(len(events) + 1), dice.choice(_ODD_LINES) + b"\n\n")
    if dice.random() < 0.05:
        events.insert(0, b"\xef\xbb\xbf")
    last = events[-1]
    return events, dice.choice((b"", DONE, DONE, DONE, DONE * 2, DONE + last, DONE[:8], last[:30]))


def _chunk_objects(dice: random.Random) -> list[dict[str, Any]]:
    """Chunks as they should be."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in dice.choices(("Hel", "lo", "é", "\\", "🌊"), k=4)]
    if dice.random() < 0.3:
        call: dict[str, Any] = {"index": 0, "id": "c", "type": "function"}
        for part in ({"name": "f", "arguments": "{"}, {"arguments": "}"}):
            deltas.append({"tool_calls": [{**call, "function": part}]})
            call = {"index": 0}
    finish = dice.choice(("stop", "stop", "length", "tool_calls", "error", None))
    shared = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    return [{**shared, "choices": [choice]} for choice in choices]


def _event(dice: random.Random, chunk: dict[str, Any]) -> bytes:
    """A chunk as an event, sometimes with members of odd types."""
    if dice.random() < 0.15:
        [choice] = chunk["choices"]
        target = dice.choice((chunk, choice, choice["delta"] or choice))
        # Without `choices` it could be a usage event's like; without an object it is none.
        names = sorted(set(target) - {"choices"}) or ["content"]
        target[dice.choice(names)] = odd_value(dice)
    return b"data: " + encode(chunk) + b"\n\n"


def _spoil_event(dice: random.Random, event: bytes) -> bytes:
    """The event with a fault; an event's end stays its end."""
    body = event.rstrip(b"\n")
    end = dice.choice(_LINE_ENDS)
    faults: tuple[Callable[[], bytes], ...] = (
        lambda: body[: dice.randrange(1, len(body))],
        lambda: spoil(dice, body),
        lambda: body.replace(b"data: ", b"data:", 1),
        lambda: body.replace(b',"', b"," + end + b'data: "', 1),
        lambda: dice.choice(_ODD_LINES) + end + body,
        lambda: body[:-1] + b',"choices":[{"index":0,"delta":{"content":"twice"}}]}',
        lambda: body[:-1] + b',"n":%b}' % dice.choice(ODD_NUMBERS),
        lambda: body[:-1] + b',"deep":' + b"[" * 3000 + b"]" * 3000 + b"}",
        lambda: body[:-1] + b',"pad":"' + b"x" * dice.choice((100, 17_000, 70_000)) + b'"}',
        lambda: body[:20] + dice.choice(ODD_BYTES) + body[20:],
        lambda: body + body,
    )
    return dice.choice(faults)() + end + end + b"\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """How a body goes on the wire, the same for any body.

    `chunk_bytes` is 0 where it is not chunked; `length_error` is added to the length that is told,
    if one is.
    """

    head: bytes
    chunk_bytes: int = 0
    ending: bytes = _LAST_CHUNK
    length_error: int | None = None
    write_bytes: int

    @property
    def closes(self) -> bool:
        """Only the end of the connection ends it."""
        if self.chunk_bytes:
            return self.ending != _LAST_CHUNK
        return self.length_error != 0

    def write(self, body: bytes) -> tuple[bytes, ...]:
        """The pieces that are written; a few hundred at most."""
        if size := max(self.chunk_bytes, self.chunk_bytes and len(body) // 500):
            pieces = [body[start : start + size] for start in range(0, len(body), size)]
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
            framed = self.head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + self.ending
        elif self.length_error is not None:
            length = len(body) + self.length_error
            framed = self.head + b"Content-Length: %d\r\n\r\n%b" % (length, body)
        else:
            framed = self.head + b"Connection: close\r\n\r\n" + body
        size = max(self.write_bytes, len(framed) // 200)
        return tuple(framed[start : start + size] for start in range(0, len(framed), size))


def choose_frame(
    dice: random.Random, *, tail_bytes: int = 0, types: Sequence[bytes] = _TYPES
) -> Frame:
    """Framing, right or wrong; a length that is too short takes from the tail alone.

    Each of `types` is a field with its line end, or nothing.
    """
    head = b"HTTP/1.1 200 OK\r\n" + dice.choice(types) + b"X-Stream: malformed\r\n"
    write_bytes = dice.choice((7, 100, 1000, 1 << 20))
    right = dice.random() < 0.7
    chance = dice.random()
    if chance < 0.6:
        ending = _LAST_CHUNK if right else dice.choice(_BAD_ENDINGS)
        chunk_bytes = dice.choice((1, 50, 500, 1 << 20))
        return Frame(head=head, chunk_bytes=chunk_bytes, ending=ending, write_bytes=write_bytes)
    if chance < 0.8:
        error = 0 if right else dice.choice((1, 40, -min(tail_bytes, 1), -tail_bytes))
        if error < 0:
            # What is too much belongs to nobody; on a kept connection it would be the next answer.
            head += b"Connection: close\r\n"
        return Frame(head=head, length_error=error, write_bytes=write_bytes)
    return Frame(head=head, write_bytes=write_bytes)
