"""The observer's copy of an encoded body, decoded as it arrives (RFC 9110 section 8.4).

The client gets the encoded bytes; only this copy is decoded. Rules:

1. A few bytes can decode to an endless output: decoding goes in steps of bounded output, and each
   coding puts out at most :data:`MAX_DECODED_BYTES` of one body (R5).
2. However the encoded bytes are cut, the decoded ones are the same.
3. A body that ends early has decoded to what came until then; that it ended early is not noticed
   here.
4. What the steps before an error put out is kept: :meth:`ContentDecoder.feed` returns it and
   raises nothing.
"""

from __future__ import annotations

import functools
import zlib
from typing import TYPE_CHECKING, Protocol

import brotli  # type: ignore[import-untyped]  # it has no stubs
import zstandard

from codec.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ("ContentDecoder", "UndecodableContent")

MAX_DECODED_BYTES = 64 * 1024 * 1024
"""Of one body: as much as is tapped of a plain one."""

MAX_CODINGS = 4
"""Codings on top of one another; real bodies have one."""

MAX_WINDOW_BYTES = 8 * 1024 * 1024
"""What a zstd frame may make its reader remember: RFC 8878 asks readers for that much."""

_STEP_BYTES = 256 * 1024
"""Output of one step of zlib or brotli."""

_ZSTD_INPUT_BYTES = 256
"""Input of one step of zstd, whose output cannot be limited. It decodes to at most 8 MiB: blocks of
four bytes that repeat one byte 128 Ki times."""


class UndecodableContent(Exception):  # noqa: N818 - names the condition, as the codec's errors do
    """The body is not what its ``Content-Encoding`` says, or that is not known."""


class _Coding(Protocol):
    """One coding, under way."""

    def __call__(self, data: bytes) -> Iterator[bytes]:
        """What the next bytes decode to, in pieces of bounded size."""
        ...


class ContentDecoder:
    """Undoes the codings of a ``Content-Encoding`` value.

    Args:
        encoding: the header's value; empty and ``identity`` change nothing.

    Raises:
        UndecodableContent: a coding is not known, or there are too many.

    Attributes:
        error: why nothing more is decoded: :class:`UndecodableContent`, or
            :class:`~codec.errors.LimitExceeded` by rule 1. ``None`` where all is well.
    """

    def __init__(self, encoding: str) -> None:
        names = [part.strip().lower() for part in encoding.split(",")]
        names = [name for name in names if name not in {"", "identity"}]
        if len(names) > MAX_CODINGS:
            raise UndecodableContent("too many content codings")
        self._stages = [_Stage(_make_coding(name)) for name in reversed(names)]
        self.error: UndecodableContent | LimitExceeded | None = None

    def feed(self, data: bytes) -> bytes:
        """What the next bytes of the body decode to, as far as they do (rule 4)."""
        if not self._stages:
            return data
        if self.error is not None:
            return b""
        pieces: Iterable[bytes] = (data,)
        for stage in self._stages:
            pieces = stage.decode(pieces)
        decoded = bytearray()
        try:
            for piece in pieces:
                decoded += piece
        except LimitExceeded as error:
            self.error = error
        except (zlib.error, brotli.error, zstandard.ZstdError) as error:
            self.error = UndecodableContent(f"the body is not encoded as it says: {error}")
        return bytes(decoded)


class _Stage:
    """One coding among several. Each has a limit of its own: a later one may swallow its output."""

    def __init__(self, coding: _Coding) -> None:
        self._coding = coding
        self._room_bytes = MAX_DECODED_BYTES

    def decode(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for encoded in pieces:
            for piece in self._coding(encoded):
                yield piece[: self._room_bytes]
                if len(piece) > self._room_bytes:
                    raise LimitExceeded("MAX_DECODED_BYTES", MAX_DECODED_BYTES)
                self._room_bytes -= len(piece)


class _Gzip:
    """RFC 1952: one member or several."""

    def __init__(self) -> None:
        self._begin = functools.partial(zlib.decompressobj, wbits=zlib.MAX_WBITS | 16)
        self._member = self._begin()

    def __call__(self, data: bytes) -> Iterator[bytes]:
        more = False
        while data or more:
            if self._member.eof:
                self._member = self._begin()
            piece = self._member.decompress(data, _STEP_BYTES)
            yield piece
            more = len(piece) == _STEP_BYTES and not self._member.eof
            data = self._member.unused_data or self._member.unconsumed_tail


class _Deflate:
    """zlib-wrapped as the RFC says, or raw as some servers send it: the first bytes tell."""

    def __init__(self) -> None:
        self._inflate: zlib._Decompress | None = None
        self._first = b""

    def __call__(self, data: bytes) -> Iterator[bytes]:
        if self._inflate is None:
            data = self._first + data
            if len(data) < 2:
                self._first = data
                return
            wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
        more = False
        while (data or more) and not self._inflate.eof:
            piece = self._inflate.decompress(data, _STEP_BYTES)
            yield piece
            more = len(piece) == _STEP_BYTES
            data = self._inflate.unconsumed_tail


class _Brotli:
    """RFC 7932."""

    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    def __call__(self, data: bytes) -> Iterator[bytes]:
        piece = self._decoder.process(data, output_buffer_limit=_STEP_BYTES)
        while piece or not self._decoder.can_accept_more_data():
            yield piece
            piece = self._decoder.process(b"", output_buffer_limit=_STEP_BYTES)


class _Zstd:
    """RFC 8878: one frame or several."""

    def __init__(self) -> None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        self._decoder = decompressor.decompressobj(read_across_frames=True)

    def __call__(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _ZSTD_INPUT_BYTES):
            yield self._decoder.decompress(data[start : start + _ZSTD_INPUT_BYTES])


_CODINGS: dict[str, Callable[[], _Coding]] = {
    "br": _Brotli,
    "deflate": _Deflate,
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "zstd": _Zstd,
}


def _make_coding(name: str) -> _Coding:
    coding = _CODINGS.get(name)
    if coding is None:
        raise UndecodableContent("unknown content coding")
    return coding()
