"""The two ends of a load of WebSockets: an upstream that speaks Responses, and its clients.

``python -m tests.bench.socket_ends upstream PORT`` answers each ``response.create`` with so many
deltas, paced or as fast as they are taken. Each delta says when it was written.
``... client LOAD`` opens the connections of a :class:`SocketLoad`, waits for a line on its standard
input, asks once on each, and prints a :class:`SocketResult`.

Both read and write frames by hand: a library would take longer than what is measured.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import random
import re
import sys
import time
from dataclasses import dataclass, field

import msgspec

from codec.text.jsontext import decode_json_object

__all__ = ("SocketLoad", "SocketResult")

_PING, _PONG = b"\x89\x80\0\0\0\0", b"\x8a\0"
_PINGS = 500  # at once
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 section 1.3
_STAMP = 20  # digits
_BATCH = 16  # deltas that are written before others have their turn

_find_key = re.compile(rb"(?i)sec-websocket-key: *(\S+)").search


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketLoad:
    """What the clients do.

    Attributes:
        rate: deltas/s of each connection; 0: as fast as they are taken.
        pings_per_second: of one more connection that does nothing else.
    """

    port: int
    connections: int
    deltas: int
    rate: float = 0
    pings_per_second: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketResult:
    """What the clients saw, from the first request to the last message.

    Attributes:
        delay_p50_ns: from the write of a delta to the end of the read that brought it.
    """

    messages: int
    seconds: float
    delay_p50_ns: int
    delay_p99_ns: int
    pongs: int


def _frame(payload: bytes, mask: bytes = b"") -> bytes:
    size, masked = len(payload), 0x80 if mask else 0
    if size < 126:
        head = bytes((0x81, masked | size))
    elif size < 1 << 16:
        head = bytes((0x81, masked | 126)) + size.to_bytes(2)
    else:
        head = bytes((0x81, masked | 127)) + size.to_bytes(8)
    return head + mask + payload


def _event(kind: str, **members: object) -> bytes:
    return _frame(msgspec.json.encode({"type": f"response.{kind}"} | members))


_IN_PART = {"item_id": "msg_load", "output_index": 0, "content_index": 0}
_DELTA = _event(
    "output_text.delta", **_IN_PART, delta="xxxxxxxx", logprobs=[], obfuscation="0" * _STAMP
)
_BEFORE_STAMP = _DELTA[: -_STAMP - 2]


def _read_frames(data: bytes) -> tuple[list[tuple[int, bytes, bytes]], bytes]:
    """Read opcode, mask and payload of each frame, and what is left of the data."""
    frames, at, size = [], 0, len(data)
    while size >= at + 2:
        length, body = data[at + 1] & 0x7F, at + 2
        if length > 125:
            more = 2 if length == 126 else 8
            length = int.from_bytes(data[body : body + more])
            body += more
        mask_end = body + 4 if data[at + 1] & 0x80 else body
        end = mask_end + length
        if end > size:
            break
        frames.append((data[at] & 15, data[body:mask_end], data[mask_end:end]))
        at = end
    return frames, data[at:]


class _Upstream(asyncio.Protocol):
    numbers = itertools.count(1)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._left, self._is_socket, self._is_full = b"", False, False

    def data_received(self, data: bytes) -> None:
        data = self._left + data
        if not self._is_socket:
            self._left = b"" if b"\r\n\r\n" in data else data
            if not self._left:
                self._answer(data)
            return
        frames, self._left = _read_frames(data)
        pings = 0
        for opcode, mask, payload in frames:
            pings += opcode == 9
            if opcode == 8:
                self._transport.close()
            elif opcode == 1:
                text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
                asked = decode_json_object(text)["metadata"]
                self._begin(int(asked["deltas"]), float(asked["rate"]))
        if pings:
            self._transport.write(_PONG * pings)

    def _answer(self, head: bytes) -> None:
        if (key := _find_key(head)) is None:
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            choice = {"index": 0, "message": {"role": "assistant", "content": "Hello"}}
            chat = {"model": "load", "choices": [choice | {"finish_reason": "stop"}]}
            body = msgspec.json.encode(chat | {"usage": usage})
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            return
        self._is_socket = True
        accept = base64.b64encode(hashlib.sha1(key[1] + _GUID).digest())
        self._transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: %b\r\n\r\n" % accept
        )

    def _begin(self, deltas: int, rate: float) -> None:
        self._count, self._sent, self._rate = deltas, 0, rate
        self._response = {"id": f"resp_{next(self.numbers)}", "model": "load"}
        created = self._response | {"status": "in_progress", "output": []}
        self._transport.write(_event("created", response=created))
        loop = asyncio.get_running_loop()
        # Those that were asked at once do not all write at the same moment.
        self._first = loop.time() + (random.random() / rate if rate else 0)
        self._go_on()

    def _go_on(self) -> None:
        loop = asyncio.get_running_loop()
        batch = 1 if self._rate else _BATCH
        if self._rate and loop.time() < self._first:
            loop.call_at(self._first, self._go_on)
            return
        while batch and self._sent < self._count and not self._is_full:
            self._transport.write(b'%b%0*d"}' % (_BEFORE_STAMP, _STAMP, time.monotonic_ns()))
            self._sent += 1
            batch -= 1
        if self._sent == self._count:
            self._end()
        elif self._rate:
            loop.call_at(self._first + self._sent / self._rate, self._go_on)
        elif not self._is_full:
            loop.call_soon(self._go_on)

    def _end(self) -> None:
        text = {"type": "output_text", "text": "x" * 8 * self._count, "annotations": []}
        item = {"id": "msg_load", "type": "message", "role": "assistant", "content": [text]}
        usage = {"input_tokens": 1, "output_tokens": self._count, "total_tokens": self._count + 1}
        ended = {"status": "completed", "output": [item | {"status": "completed"}], "usage": usage}
        self._transport.write(_event("completed", response=self._response | ended))

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if not self._rate:
            self._go_on()


@dataclass(slots=True)
class _Tally:
    """What all clients have seen."""

    delays_ns: list[int] = field(default_factory=list)
    messages: int = 0
    pongs: int = 0


class _Client(asyncio.Protocol):
    def __init__(self, tally: _Tally) -> None:
        loop = asyncio.get_running_loop()
        self.joined: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._tally, self._left = tally, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(
            b"GET /v1/responses HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )

    def ask(self, deltas: int, rate: float) -> None:
        """Ask for a response."""
        asked = {"deltas": str(deltas), "rate": str(rate)}
        create = {"type": "response.create", "model": "load", "input": "Hello", "metadata": asked}
        # A mask of zeros changes nothing.
        self.transport.write(_frame(msgspec.json.encode(create), mask=bytes(4)))

    def data_received(self, data: bytes) -> None:
        now_ns, tally = time.monotonic_ns(), self._tally
        data = self._left + data
        if not self.joined.done():
            head, _, data = data.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101 "), head
            self.joined.set_result(None)
        frames, self._left = _read_frames(data)
        for opcode, _, payload in frames:
            if opcode != 1:
                tally.pongs += opcode == 10
                continue
            tally.messages += 1
            if payload.startswith(b'{"type":"response.output_text.delta"'):
                tally.delays_ns.append(now_ns - int(payload[-_STAMP - 2 : -2]))
            elif payload.startswith(b'{"type":"response.completed"'):
                self.ended.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        for each in (self.joined, self.ended):
            if not each.done():
                each.set_exception(exc or ConnectionError("it ended"))


async def _flood(client: _Client, pings_per_second: int) -> None:
    begun, sent = time.monotonic(), 0
    while True:
        if sent < (time.monotonic() - begun) * pings_per_second:
            client.transport.write(_PING * _PINGS)
            sent += _PINGS
        await asyncio.sleep(_PINGS / pings_per_second / 4)


async def _be_clients(load: SocketLoad) -> SocketResult:
    loop, tally = asyncio.get_running_loop(), _Tally()
    count = load.connections + bool(load.pings_per_second)
    clients = []
    for _ in range(count):
        _, client = await loop.create_connection(lambda: _Client(tally), "127.0.0.1", load.port)
        clients.append(client)
        await client.joined
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    flooding = None
    if load.pings_per_second:
        flooding = asyncio.ensure_future(_flood(clients.pop(), load.pings_per_second))
    begun = time.monotonic()
    for client in clients:
        client.ask(load.deltas, load.rate)
    await asyncio.gather(*(client.ended for client in clients))
    seconds = time.monotonic() - begun
    if flooding is not None:
        flooding.cancel()
    delays = sorted(tally.delays_ns)
    return SocketResult(
        messages=tally.messages,
        seconds=seconds,
        delay_p50_ns=delays[len(delays) // 2],
        delay_p99_ns=delays[len(delays) * 99 // 100],
        pongs=tally.pongs,
    )


async def _be_upstream(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Upstream, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "upstream":
        asyncio.run(_be_upstream(int(sys.argv[2])))
    else:
        _load = msgspec.json.decode(sys.argv[2], type=SocketLoad)
        print(msgspec.json.encode(asyncio.run(_be_clients(_load))).decode(), flush=True)
