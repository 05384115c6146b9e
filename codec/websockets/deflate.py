"""Compression of messages (permessage-deflate, RFC 7692): what was agreed on, and the inflater.

With a kept context the messages of one direction are one deflate stream, so an inflater has to see
every byte. Its state between two messages is the window, the last 32 KiB of text. An inflater with
the largest window reads what was compressed with any other, and one that keeps its context reads
messages without: only the window need not be kept for these.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import msgspec

from codec.errors import MalformedWebSocket

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("PIECE_BYTES", "WINDOW_BYTES", "Deflate", "Inflater", "read_deflate")

WINDOW_BYTES: Final = 32 * 1024
"""How far back a deflate stream may refer: the largest window of RFC 1951."""

PIECE_BYTES: Final = 64 * 1024
"""The most text that is inflated at once, whatever the compressed bytes say."""

_TAIL: Final = b"\0\0\xff\xff"
"""The end of an empty block, which a sender leaves out behind each message (RFC 7692, 7.2.1)."""

_RAW: Final = -zlib.MAX_WBITS
"""A stream without header and checksum, with the largest window."""


class Deflate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How the messages of a connection may be compressed, as its handshake agreed.

    Attributes:
        client_keeps_context: a message of the client may refer to earlier ones.
        server_keeps_context: likewise, of the server.
    """

    client_keeps_context: bool = True
    server_keeps_context: bool = True


def read_deflate(header: str | None) -> Deflate | None:
    """Read ``Sec-WebSocket-Extensions`` of the answer to a handshake, several lines comma-joined.

    Returns ``None`` if messages are not compressed. Other extensions are passed over: the parser
    notices if they change frames.

    >>> read_deflate("permessage-deflate; client_no_context_takeover; server_max_window_bits=12")
    Deflate(client_keeps_context=False, server_keeps_context=True)
    """
    for extension in (header or "").split(","):
        name, *parameters = (part.partition("=")[0].strip() for part in extension.split(";"))
        if name == "permessage-deflate":
            return Deflate(
                client_keeps_context="client_no_context_takeover" not in parameters,
                server_keeps_context="server_no_context_takeover" not in parameters,
            )
    return None


class Inflater:
    """Inflates the compressed messages of one direction. Not safe for concurrent calls.

    Args:
        keeps_context: a message may refer to earlier ones.
        window: the window at the end of an earlier message, to continue behind it.
    """

    __slots__ = ("_decompressor", "_keeps_context", "_recent", "_window")

    def __init__(self, *, keeps_context: bool, window: bytes = b"") -> None:
        self._keeps_context = keeps_context
        self._window = bytearray(window)  # the end of the messages before
        self._recent = bytearray()  # the end of the message under way
        self._decompressor = _open(window)

    @property
    def window(self) -> bytes:
        """The window at the end of the last whole message."""
        return bytes(self._window)

    def inflate(self, data: bytes, *, is_end: bool) -> Iterator[bytes]:
        """Inflate the next bytes of a message, in pieces of at most :data:`PIECE_BYTES`.

        Args:
            data: the bytes.
            is_end: the message ends with them.

        Raises:
            MalformedWebSocket: they are not a deflate stream.
        """
        if is_end:
            data += _TAIL
        while data:
            try:
                piece = self._decompressor.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise MalformedWebSocket("a message that cannot be inflated") from error
            if piece:
                _extend(self._recent, piece)
                yield piece
            data = self._decompressor.unconsumed_tail
            if self._decompressor.eof:
                data = self._decompressor.unused_data
                self._reopen()
        if is_end:
            self._end_message()

    def _reopen(self) -> None:
        """Continue behind a block that calls itself the last one, as RFC 7692, 7.2.3.4 allows."""
        self._decompressor = _open(bytes(self._window + self._recent))

    def _end_message(self) -> None:
        if self._keeps_context:
            _extend(self._window, self._recent)
            del self._window[:-WINDOW_BYTES]
        self._recent.clear()


def _open(window: bytes) -> zlib._Decompress:
    if not window:
        return zlib.decompressobj(_RAW)
    return zlib.decompressobj(_RAW, zdict=window[-WINDOW_BYTES:])


def _extend(window: bytearray, text: bytes | bytearray) -> None:
    """Add text to a window; what is too far back is forgotten when that is twice the window."""
    window += text
    if len(window) > 2 * WINDOW_BYTES:
        del window[:-WINDOW_BYTES]
