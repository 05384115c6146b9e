"""Reads the first message of a TLS client: which host it names and which protocols it offers.

The message is only looked at; TLS itself reads it again (RFC 8446 sections 4.1.2 and 5.1; RFC 6066
section 3; RFC 7301 section 3.1).
"""

from __future__ import annotations

from typing import Final, NamedTuple

MAX_HELLO_BYTES: Final = 32 * 1024
"""The largest message, with the heads of its records. Real ones have less than 4 KiB, of which keys
that resist quantum computers take half."""

MAX_RECORDS: Final = 16
"""The most records that a message may be cut into; real clients send one."""

_HANDSHAKE = 22
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_PROTOCOLS = 16
_HOST_NAME = 0
_MAX_RECORD_BYTES = 1 << 14


class NotTls(Exception):  # noqa: N818 - names the condition, as others do
    """The bytes are not the beginning of TLS."""


class BadHello(Exception):  # noqa: N818 - as above
    """The bytes begin a ClientHello that is invalid or too large."""


class ClientHello(NamedTuple):
    """What a client says first.

    Attributes:
        server_name: the host that it names, in lower case and without a final dot; ``None`` if it
            names none.
        protocols: what it offers by ALPN; empty if it offers nothing.
    """

    server_name: str | None
    protocols: tuple[bytes, ...]


class _Bytes:
    """Reads one piece after the other; a piece that is too short is a :class:`BadHello`."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, size_bytes: int) -> bytes:
        piece = self._data[self._at : self._at + size_bytes]
        if len(piece) < size_bytes:
            raise BadHello
        self._at += size_bytes
        return piece

    def number(self, size_bytes: int) -> int:
        return int.from_bytes(self.take(size_bytes))

    def vector(self, size_bytes: int) -> bytes:
        """Take a vector whose length has so many bytes."""
        return self.take(self.number(size_bytes))


def read_client_hello(data: bytes) -> ClientHello | None:
    """Read the message from the beginning of a connection; ``None`` while it is incomplete.

    Raises:
        NotTls: the bytes are something else.
        BadHello: the message is invalid, too large, or cut into too many records.
    """
    message = _join_records(data)
    return None if message is None else _read(message)


def _join_records(data: bytes) -> bytes | None:
    """Join the message's parts from its records."""
    if data[:1] not in {b"", bytes([_HANDSHAKE])} or data[1:2] not in {b"", b"\x03"}:
        raise NotTls
    message = b""
    at = 0
    for _ in range(MAX_RECORDS):
        head = data[at : at + 5]
        if head[:1] not in {b"", bytes([_HANDSHAKE])} or head[1:2] not in {b"", b"\x03"}:
            raise BadHello
        if len(head) < 5:
            break
        size = int.from_bytes(head[3:])
        if not 0 < size <= _MAX_RECORD_BYTES:
            raise BadHello
        message += data[at + 5 : at + 5 + size]
        if message[:1] not in {b"", bytes([_CLIENT_HELLO])}:
            raise BadHello
        if len(message) >= 4:
            end = 4 + int.from_bytes(message[1:4])
            if end > MAX_HELLO_BYTES:
                raise BadHello
            if len(message) >= end:
                return message[4:end]
        if at + 5 + size > len(data):
            break
        at += 5 + size
    else:
        raise BadHello
    if len(data) > MAX_HELLO_BYTES:
        raise BadHello
    return None


def _read(message: bytes) -> ClientHello:
    fields = _Bytes(message)
    fields.take(2 + 32)  # version and random
    for size_bytes in (1, 2, 1):  # session id, cipher suites, compression methods
        fields.vector(size_bytes)
    name: str | None = None
    protocols: tuple[bytes, ...] = ()
    extensions = _Bytes(fields.vector(2) if fields else b"")
    seen = set()
    while extensions:
        kind, value = extensions.number(2), extensions.vector(2)
        if kind in seen:
            raise BadHello
        seen.add(kind)
        if kind == _SERVER_NAME:
            name = _read_name(_Bytes(_Bytes(value).vector(2)))
        elif kind == _PROTOCOLS:
            protocols = _read_protocols(_Bytes(_Bytes(value).vector(2)))
    return ClientHello(name, protocols)


def _read_name(names: _Bytes) -> str | None:
    found = None
    while names:
        kind, value = names.number(1), names.vector(2)
        if kind != _HOST_NAME:
            continue
        if found is not None or not value:
            raise BadHello
        found = value.decode("latin-1").lower().removesuffix(".")
    return found


def _read_protocols(names: _Bytes) -> tuple[bytes, ...]:
    found = []
    while names:
        found.append(names.vector(1))
    return tuple(found)
