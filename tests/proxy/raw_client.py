"""A raw client: bytes sent and received over real sockets, and answers taken apart."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codec.text.jsontext import decode_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

Address = tuple[str, int]
Fields = list[tuple[bytes, bytes]]


def split_fields(lines: list[bytes]) -> Fields:
    return [(name, value.lstrip(b" ")) for name, _, value in (x.partition(b":") for x in lines)]


def find_field(fields: Fields, name: bytes) -> bytes | None:
    return next((v for n, v in fields if n.lower() == name.lower()), None)


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def until(condition: Callable[[], object], *, seconds: float = 10) -> None:
    """Wait for it."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


def split_answer(data: bytes) -> tuple[bytes, Fields, bytes]:
    """Status line, fields, body as on the wire."""
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    return status, split_fields(lines), body


def join_chunks(body: bytes) -> tuple[bytes, bool]:
    """The bytes in a chunked body, and whether it ended cleanly."""
    pieces: list[bytes] = []
    while body:
        size_text, found, rest = body.partition(b"\r\n")
        if not found:
            break
        size = int(size_text.partition(b";")[0], 16)
        if size == 0:
            return b"".join(pieces), rest == b"\r\n"
        pieces.append(rest[:size])
        body = rest[size + 2 :]
    return b"".join(pieces), False


@dataclass
class Answer:
    """What a raw client saw: the head, the body without framing, and how it ended."""

    status: int
    fields: Fields
    body: bytes
    clean: bool
    reset: bool
    raw: bytes

    def field(self, name: bytes) -> bytes | None:
        return find_field(self.fields, name)

    @property
    def error(self) -> dict[str, Any]:
        """The error object of an OpenAI-shaped body."""
        decoded = decode_json(self.body)
        error: dict[str, Any] = decoded["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error


def parse_answer(raw: bytes, *, reset: bool) -> Answer:
    """Undo the framing of a whole or broken answer."""
    status, fields, body = split_answer(raw)
    answer = Answer(int(status.split(b" ")[1]), fields, body, not reset, reset, raw)
    if answer.field(b"transfer-encoding") is not None:
        answer.body, answer.clean = join_chunks(body)
    elif (length := answer.field(b"content-length")) is not None:
        answer.clean = len(body) == int(length)
    return answer


async def read_with_end(reader: asyncio.StreamReader) -> tuple[bytes, bool]:
    """Everything until the end, and whether that was a reset."""
    pieces: list[bytes] = []
    try:
        while data := await reader.read(65536):
            pieces.append(data)
    except ConnectionError:
        return b"".join(pieces), True
    return b"".join(pieces), False


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """Everything until FIN or RST, which must come soon."""
    async with asyncio.timeout(10):
        return (await read_with_end(reader))[0]


async def send_with_end(
    address: Address, data: bytes, *, seconds: float = 10.0
) -> tuple[bytes, bool]:
    """Send bytes on a new connection: what comes until its end, and whether that was a reset."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(data)
        async with asyncio.timeout(seconds):
            return await read_with_end(reader)
    finally:
        writer.transport.abort()


async def send_raw(address: Address, data: bytes, *, seconds: float = 10.0) -> bytes:
    """Send bytes on a new connection and read all that comes until its end."""
    return (await send_with_end(address, data, seconds=seconds))[0]


async def ask(address: Address, data: bytes, *, seconds: float = 10.0) -> Answer:
    """Send bytes on a new connection and take the answer apart."""
    raw, reset = await send_with_end(address, data, seconds=seconds)
    return parse_answer(raw, reset=reset)


async def read_answer(reader: asyncio.StreamReader, method: bytes = b"POST") -> bytes:
    """One answer, interim ones before it included, as its framing says where it ends."""
    data = b""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        data += head
        status, fields, _ = split_answer(head)
        code = int(status.split(b" ")[1])
        if code >= 200:
            break
    framing = {name.lower(): value for name, value in fields}
    if method == b"HEAD" or code in {204, 304}:
        return data
    if (length := framing.get(b"content-length")) is not None:
        return data + await reader.readexactly(int(length))
    if b"chunked" not in framing.get(b"transfer-encoding", b""):
        return data + await read_to_end(reader)
    while True:
        line = await reader.readuntil(b"\r\n")
        data += line
        if size := int(line.partition(b";")[0], 16):
            data += await reader.readexactly(size + 2)
            continue
        while line != b"\r\n":  # trailers
            line = await reader.readuntil(b"\r\n")
            data += line
        return data


@contextlib.asynccontextmanager
async def slow_client(
    address: Address, data: bytes, *, buffer_bytes: int = 4096
) -> AsyncIterator[socket.socket]:
    """A client that has sent this and reads when it wants to: nothing but the kernel buffers."""
    loop = asyncio.get_running_loop()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        sock.setblocking(False)
        await loop.sock_connect(sock, address)
        await loop.sock_sendall(sock, data)
        yield sock


async def receive(sock: socket.socket, size: int) -> bytes:
    """So many bytes."""
    loop, data = asyncio.get_running_loop(), bytearray()
    while len(data) < size and (piece := await loop.sock_recv(sock, size - len(data))):
        data += piece
    return bytes(data)


async def receive_to_end(sock: socket.socket) -> tuple[bytes, bool]:
    """Everything, and whether the end was a reset."""
    loop, data = asyncio.get_running_loop(), bytearray()
    try:
        async with asyncio.timeout(10):
            while piece := await loop.sock_recv(sock, 65_536):
                data += piece
    except ConnectionError:
        return bytes(data), True
    return bytes(data), False
