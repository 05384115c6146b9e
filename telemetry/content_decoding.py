"""The observer's copy of an encoded body, decoded as it arrives (RFC 9110 section 8.4).

The client gets the encoded bytes; only this copy is decoded. What comes out is limited, for a
small input can decode to an endless output (R5).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Protocol

import brotli
import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("ContentDecoder", "UndecodableContent")

MAX_DECODED_BYTES = 64 * 1024 * 1024
"""Of one body: as much as is tapped of a plain one."""

MAX_CODINGS = 4
"""Codings on top of one another; real bodies have one."""

_INPUT_BYTES = 16 * 1024
"""Piece of input given to a decoder at once: bounds what one step can put out."""


class UndecodableContent(Exception):  # noqa: N818 - names what it is about
    """The body is not what its ``Content-Encoding`` says, or it decodes to too much."""


class _Decoder(Protocol):
    def __call__(self, data: bytes) -> bytes: ...


class ContentDecoder:
    """Undoes the codings of a ``Content-Encoding`` value.

    Args:
        encoding: the header's value; empty and ``identity`` change nothing.

    Raises:
        UndecodableContent: a coding is not known.
    """

    def __init__(self, encoding: str) -> None:
        names = [name for part in encoding.split(",") if (name := part.strip().lower())]
        names = [name for name in names if name != "identity"]
        if len(names) > MAX_CODINGS:
            raise UndecodableContent("too many content codings")
        self._decoders = [_make_decoder(name) for name in reversed(names)]
        self._decoded_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Decode the next bytes of the body.

        Raises:
            UndecodableContent: see the class; nothing can be fed afterwards.
        """
        if not self._decoders:
            return data
        out = [
            self._step(data[start : start + _INPUT_BYTES])
            for start in range(0, len(data), _INPUT_BYTES)
        ]
        return b"".join(out)

    def _step(self, data: bytes) -> bytes:
        try:
            for decode in self._decoders:
                data = decode(data)
        except (zlib.error, brotli.error, zstandard.ZstdError, EOFError) as error:
            raise UndecodableContent(f"the body is not encoded as it says: {error}") from error
        self._decoded_bytes += len(data)
        if self._decoded_bytes > MAX_DECODED_BYTES:
            raise UndecodableContent("the body decodes to too much")
        return data


def _make_decoder(name: str) -> _Decoder:
    make = _DECODERS.get(name)
    if make is None:
        raise UndecodableContent(f"unknown content coding {name[:40]!r}")
    return make()


def _gzip() -> _Decoder:
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress


def _deflate() -> _Decoder:
    """zlib-wrapped as the RFC says, or raw as some servers send it: the first bytes tell."""
    inner: list[_Decoder] = []
    pending = b""

    def decode(data: bytes) -> bytes:
        nonlocal pending
        if not inner:
            pending += data
            if len(pending) < 2:
                return b""
            wrapped = pending[0] & 0x0F == 8 and int.from_bytes(pending[:2], "big") % 31 == 0
            wbits = zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS
            inner.append(zlib.decompressobj(wbits=wbits).decompress)
            data, pending = pending, b""
        return inner[0](data)

    return decode


def _brotli() -> _Decoder:
    return brotli.Decompressor().process  # type: ignore[no-any-return]


def _zstd() -> _Decoder:
    return zstandard.ZstdDecompressor(max_window_size=8 * 1024 * 1024).decompressobj().decompress


_DECODERS: dict[str, Callable[[], _Decoder]] = {
    "br": _brotli,
    "deflate": _deflate,
    "gzip": _gzip,
    "x-gzip": _gzip,
    "zstd": _zstd,
}
