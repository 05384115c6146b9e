"""Calls over raw sockets: every byte under control, and what became of each, span included.

The same call can be made directly and through the proxy, and both answers compared. It has a trace
id of its own, which its span takes over: spans are counted call by call.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import time
import uuid
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from telemetry.reading.stored_calls import open_calls
from tests.proxy.harness import STREAMED_CHAT, request_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from pathlib import Path

    from telemetry.store.rows import SpanSummary

    Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

__all__ = (
    "ASK_SECONDS",
    "Call",
    "Seen",
    "added_latency",
    "ask",
    "ask_all",
    "connected",
    "make_call",
    "parse_answer",
    "seen_alike",
    "wait_for_spans",
)

ASK_SECONDS = 30.0
"""How long an answer may take to end: many times what the slowest row lets it."""

SPAN_SECONDS = 30.0
"""How long spans may take to be there: a busy machine's 50 ms (R8)."""

_HOP_BY_HOP = frozenset(
    {b"connection", b"content-length", b"keep-alive", b"trailer", b"transfer-encoding"}
)
"""What may differ between a direct answer and a proxied one.

See ``docs/contract/promises.md#what-may-differ``.
"""

_DIGITS = re.compile(rb"[0-9A-Fa-f]+").fullmatch


# --- calls and what became of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request on the wire; its span has the trace id."""

    trace_id: str
    data: bytes = field(repr=False)


def make_call(
    script: str,
    body: bytes = STREAMED_CHAT,
    *,
    target: str = "/v1/chat/completions",
    head: bytes = b"",
    close: bool = True,
    content_type: bytes = b"application/json",
) -> Call:
    """A call, of chats where nothing else is said, that the upstream answers by a script.

    More may stand in the path behind the script's name, as in ``streams/17``; each field of `head`
    has its line end; `close`: the connection is for this call alone.
    """
    trace_id = uuid.uuid4().hex
    traceparent = f"traceparent: 00-{trace_id}-{uuid.uuid4().hex[:16]}-01\r\n".encode()
    path = f"/{script}{target}".encode()
    data = request_bytes(
        body, target=path, head=head + traceparent, close=close, content_type=content_type
    )
    return Call(trace_id=trace_id, data=data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a client saw of one call.

    `status` is code and reason, empty where no head came; `fields` are without those of this hop,
    `body` is without framing; `whole`: it ended as its framing says.
    """

    status: bytes = b""
    fields: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = field(default=b"", repr=False)
    whole: bool = False
    seconds: float = field(default=0.0, compare=False)

    @property
    def code(self) -> int:
        """The status code; 0 where no head came."""
        return int(self.status.partition(b" ")[0] or b"0")


def parse_answer(raw: bytes, *, reset: bool = False, seconds: float = 0.0) -> Seen:
    """Take apart what came until the connection ended, interim answers left out."""
    while True:
        head, found, rest = raw.partition(b"\r\n\r\n")
        if not found:
            return Seen(seconds=seconds)
        line, *lines = head.split(b"\r\n")
        status = line.partition(b" ")[2]
        if not status.startswith(b"1"):
            break
        raw = rest
    pairs = [(name, value.lstrip(b" ")) for name, _, value in (x.partition(b":") for x in lines)]
    framing = {name.lower(): value for name, value in pairs}
    if b"transfer-encoding" in framing:
        body, whole = _join_chunks(rest)
    elif b"content-length" in framing:
        length = int(framing[b"content-length"])
        body, whole = rest[:length], len(rest) >= length
    else:
        body, whole = rest, not reset
    fields = tuple((n.lower(), v) for n, v in pairs if n.lower() not in _HOP_BY_HOP)
    return Seen(status=status, fields=fields, body=body, whole=whole, seconds=seconds)


def _join_chunks(data: bytes) -> tuple[bytes, bool]:
    """The bytes in a chunked body up to its end or first fault, and whether it was its end."""
    pieces: list[bytes] = []
    while True:
        line, found, rest = data.partition(b"\r\n")
        digits = line.partition(b";")[0]
        if not found or not _DIGITS(digits):
            return b"".join(pieces), False
        size = int(digits, 16)
        if size == 0:
            return b"".join(pieces), rest == b"\r\n" or rest.endswith(b"\r\n\r\n")
        pieces.append(rest[:size])
        if rest[size : size + 2] != b"\r\n":
            return b"".join(pieces), False
        data = rest[size + 2 :]


@asynccontextmanager
async def connected(port: int, *, buffer_bytes: int = 0) -> AsyncIterator[Streams]:
    """A new connection on loopback, with a receive buffer of its own size if that is not 0."""
    with contextlib.closing(socket.socket()) as sock:
        if buffer_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        sock.connect(("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=buffer_bytes or 1 << 20)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)  # the transport closes in the loop's next turn


async def ask(
    port: int, data: bytes, *, marker: bytes = b"", on_marker: Callable[[], None] | None = None
) -> Seen:
    """Send bytes on a new connection, and read until it ends; call when a marker has come."""
    begun = time.monotonic()
    raw, reset = bytearray(), False
    async with connected(port) as (reader, writer), asyncio.timeout(ASK_SECONDS):
        writer.write(data)
        try:
            while piece := await reader.read(1 << 18):
                raw += piece
                if on_marker is not None and marker in raw:
                    on_marker()
                    on_marker = None
        except ConnectionError:
            reset = True
    return parse_answer(bytes(raw), reset=reset, seconds=time.monotonic() - begun)


async def ask_all(port: int, calls: Iterable[Call], *, at_once: int = 16) -> list[Seen]:
    """Make the calls, so many at a time; the answers in order of the calls."""
    waiting = list(enumerate(calls))
    seen: dict[int, Seen] = {}

    async def work() -> None:
        while waiting:
            number, call = waiting.pop()
            seen[number] = await ask(port, call.data)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, len(waiting))):
            group.create_task(work())
    return [seen[number] for number in sorted(seen)]


def seen_alike(direct: Sequence[Seen], proxied: Sequence[Seen]) -> int:
    """How many answers are the same on both ways; every one, or the first that is not is shown."""
    for number, pair in enumerate(zip(direct, proxied, strict=True)):
        assert pair[0] == pair[1], (number, pair, pair[0].body[-300:], pair[1].body[-300:])
    return len(direct)


def added_latency(direct: Sequence[Seen], proxied: Sequence[Seen]) -> str:
    """What the proxy adds to a whole call, connection and all, in the middle and at the 99 %."""
    texts = []
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        near, far = (sorted(seen.seconds for seen in side) for side in (direct, proxied))
        added = far[int(share * (len(far) - 1))] - near[int(share * (len(near) - 1))]
        texts.append(f"{name} {added * 1000:+.1f} ms")
    return ", ".join(texts)


# --- spans


def wait_for_spans(
    store: Path, calls: Sequence[Call], seconds: float = SPAN_SECONDS
) -> dict[str, SpanSummary]:
    """The spans of these calls by trace id, when all are there or time is up.

    A call with two of them fails here (R3); one without is for
    :func:`tests.faults.row.report_calls`.
    """
    wanted = {call.trace_id for call in calls}
    until = time.monotonic() + seconds
    found: dict[str, SpanSummary] = {}
    counts: Counter[str] = Counter()
    last = 0
    while len(found) < len(wanted) and time.monotonic() < until:
        with open_calls(store) as reader:
            while rows := reader.after(last):
                last = rows[-1].seq
                found.update((row.trace_id, row) for row in rows if row.trace_id in wanted)
                counts.update(row.trace_id for row in rows if row.trace_id in wanted)
        time.sleep(0.05)
    twice = [trace_id for trace_id, count in counts.items() if count > 1]
    assert not twice, twice
    return found
