"""The observer's copy of an encoded body, decoded as it arrives (RFC 9110 section 8.4).

The client gets the encoded bytes; only this copy is decoded. A few bytes can decode to an endless
output, so the input is decoded in slices, and the output has a limit (R5).

The output and the error are the same however the encoded bytes are cut. A body that ends early
decodes as far as it came; the early end is not noticed here. Output before an error is kept, up to
the byte that shows the error. With several codings, the inner ones may lose the content of a slice.
The work is linear in the encoded and decoded bytes, even if members or frames are empty.
"""

from __future__ import annotations

import sys
import zlib
from itertools import chain
from typing import TYPE_CHECKING, Protocol, TypeAlias

import brotli  # type: ignore[import-untyped]  # it has no stubs

from codec.errors import LimitExceeded

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from telemetry.frames.frame import Headers

MAX_DECODED_BYTES = 64 * 1024 * 1024
"""The largest output of each coding of one body: as much as is tapped of a plain body."""

MAX_CODINGS = 4
"""Codings of one body; real bodies have one."""

MAX_ENCODED_BYTES = 64 * 1024 * 1024
"""Largest body whose encoded bytes are kept until its end, to find the byte that shows an error: as
much as is tapped of one body."""

MAX_MEMBERS = 64 * 1024
"""The most members or frames of one body: a server may end one with every event, and long answers
have some ten thousand. Each costs about ten microseconds, even an empty one, and no other limit
counts those."""

MAX_WINDOW_BYTES = 8 * 1024 * 1024
"""The most output that a zstd frame may require its reader to remember, as RFC 8878 asks of
readers."""

_WINDOW_BYTES = {"br": 16 * 1024 * 1024, "zstd": MAX_WINDOW_BYTES}
"""The most output that a decoder remembers; with zlib this is next to nothing."""

_SLICE_BYTES = 2 * 1024
"""Input of one step, which bounds its output: 2 MiB with deflate. Smaller slices cost too much."""

_SMALL_SLICE_BYTES = 256
"""Input of one step of zstd. Its output is up to 8 MiB (blocks of four bytes that repeat one byte
128 Ki times). It is also the input of a step after the end of the first member, where the rest of a
slice is copied."""

_STEP_BYTES = 256 * 1024
"""Output of one step of brotli, which the input does not bound."""

_GZIP_BEGINS = (b"\x1f\x8b\x08",)
_ZSTD_BEGINS = (
    b"\x28\xb5\x2f\xfd",
    *(bytes((first, 0x2A, 0x4D, 0x18)) for first in range(0x50, 0x60)),  # skippable frames
)


class UndecodableContent(Exception):  # noqa: N818 - names the condition, as the codec's errors do
    """The body is not encoded as its ``Content-Encoding`` says, or that coding is unknown."""


_Coding: TypeAlias = "Callable[[bytes], Iterator[bytes]]"
"""Decodes the next bytes of one coding, to pieces of bounded size."""


class _Member(Protocol):
    """The decoder of one member or frame, such as the decoders of zlib and zstd."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class ContentDecoder:
    """Undoes the codings of a ``Content-Encoding`` value. Not safe for concurrent calls.

    Args:
        encoding: the header's value; empty and ``identity`` change nothing.
        max_bytes: the largest output of each coding, if that is less than
            :data:`MAX_DECODED_BYTES`.

    Raises:
        UndecodableContent: a coding is not known, or there are too many.

    Attributes:
        error: why nothing more is decoded; ``None`` if there is no error.
    """

    def __init__(self, encoding: str, *, max_bytes: int | None = None) -> None:
        names = [part.strip().lower() for part in encoding.split(",")]
        names = [name for name in names if name not in {"", "identity"}]
        if len(names) > MAX_CODINGS:
            raise UndecodableContent("too many content codings")
        if not _CODINGS.keys() >= set(names):
            raise UndecodableContent("unknown content coding")
        self._names = tuple(reversed(names))
        self._max_bytes = MAX_DECODED_BYTES if max_bytes is None else max_bytes
        self._stages = self._begin()
        self._encoded = bytearray()
        self._decoded_bytes = 0
        self.error: UndecodableContent | LimitExceeded | None = None

    @property
    def remembered_bytes(self) -> int:
        """The memory that the decoders take to remember their output."""
        return sum(stage.remembered_bytes for stage in self._stages)

    def feed(self, data: bytes) -> bytes:
        """Decode the next bytes of the body, up to an error; raise nothing."""
        return b"".join(self.decode(data))

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Decode the next bytes as :meth:`feed` does, to pieces of bounded size."""
        if not self._names:
            yield data
        elif self.error is None:
            try:
                yield from self._decode(data)
            except (LimitExceeded, UndecodableContent) as error:
                # Its traceback holds what was decoded, which would stay in memory with the error.
                error.__context__ = None
                self.error = error.with_traceback(None)
            except _DAMAGED as error:
                self.error = UndecodableContent(f"the body is not encoded as it says: {error}")
            if self.error is not None:
                self._encoded.clear()

    def _decode(self, data: bytes) -> Iterator[bytes]:
        room_bytes = MAX_ENCODED_BYTES - len(self._encoded)
        for encoded in _slices(data[:room_bytes], _SLICE_BYTES):
            try:
                for piece in _run(self._stages, encoded):
                    self._decoded_bytes += len(piece)
                    yield piece
            except _DAMAGED:
                yield from self._decode_damaged(encoded)
            self._encoded += encoded
        if len(data) > room_bytes:
            raise LimitExceeded("MAX_ENCODED_BYTES", MAX_ENCODED_BYTES)

    def _decode_damaged(self, encoded: bytes) -> Iterator[bytes]:
        """Decode a slice up to the byte that shows the damage.

        The decoders forget the output of the call that fails, and cannot go back. So the whole body
        is decoded again, with this slice byte by byte.
        """
        stages = self._begin()
        again = _slices(bytes(self._encoded), _SLICE_BYTES)
        known_bytes = self._decoded_bytes
        for part in chain(again, _slices(encoded, 1)):
            for piece in _run(stages, part):
                yield piece[known_bytes:]
                known_bytes = max(0, known_bytes - len(piece))
        self._stages = stages

    def _begin(self) -> list[_Stage]:
        """Begin to decode, the outermost coding first."""
        return [
            _Stage(_CODINGS[name](), self._max_bytes, _WINDOW_BYTES.get(name, 0))
            for name in self._names
        ]


def _run(stages: Sequence[_Stage], encoded: bytes) -> Iterator[bytes]:
    pieces: Iterator[bytes] = iter((encoded,))
    for stage in stages:
        pieces = stage.decode(pieces)
    return pieces


class _Stage:
    """One coding among several. Each has a limit, because a later one may drop its output."""

    def __init__(self, coding: _Coding, max_bytes: int, window_bytes: int) -> None:
        self._coding = coding
        self._max_bytes = max_bytes
        self._window_bytes = window_bytes
        self._room_bytes = max_bytes

    @property
    def remembered_bytes(self) -> int:
        return min(self._max_bytes - self._room_bytes, self._window_bytes)

    def decode(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for encoded in pieces:
            for piece in self._coding(encoded):
                yield piece[: self._room_bytes]
                if len(piece) > self._room_bytes:
                    raise LimitExceeded("MAX_DECODED_BYTES", self._max_bytes)
                self._room_bytes -= len(piece)


class _Members:
    """Members (RFC 1952) or frames (RFC 8878), one after the other.

    Args:
        begin: makes the decoder of one.
        beginnings: its possible first bytes, all of one length.
        slice_bytes: input of one step, until the first has ended.
    """

    def __init__(
        self, begin: Callable[[], _Member], beginnings: tuple[bytes, ...], slice_bytes: int
    ) -> None:
        self._begin = begin
        self._slice_bytes = slice_bytes
        self._beginnings = beginnings
        self._member = begin()
        self._fresh = True
        self._count = 1
        self._next = b""  # bytes after the last one's end, too few to show what they are
        self._ended = False

    def __call__(self, data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):  # slices may become smaller on the way
            part = data[at : at + self._slice_bytes]
            at += len(part)
            yield from self._decode(part)

    def _decode(self, data: bytes) -> Iterator[bytes]:
        while data and not self._ended:
            if self._member.eof:
                self._slice_bytes = _SMALL_SLICE_BYTES
                data = self._begin_next(data)
                continue
            # Zstd checks less of a frame that it gets whole, so it never gets one.
            part = data[:1] if self._fresh else data
            self._fresh = False
            yield self._member.decompress(part)
            data = data[len(part) :] or self._member.unused_data

    def _begin_next(self, data: bytes) -> bytes:
        """Begin another member, if one follows; return its data."""
        data = self._next + data
        self._next = b""
        if not any(begin[: len(data)] == data[: len(begin)] for begin in self._beginnings):
            self._ended = True  # the rest is padding, or a server's slip
            return b""
        if len(data) < len(self._beginnings[0]):
            self._next = data
            return b""
        if self._count == MAX_MEMBERS:
            raise UndecodableContent("too many members")
        self._count += 1
        self._member = self._begin()
        self._fresh = True
        return data


class _Deflate:
    """Deflate in a zlib wrapper (RFC), or raw as some servers send it: the first bytes decide."""

    def __init__(self) -> None:
        self._inflate: _Member | None = None
        self._first = b""

    def __call__(self, data: bytes) -> Iterator[bytes]:
        if self._inflate is None:
            data = self._first + data
            if len(data) < 2:
                self._first = data
                return
            wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
        for part in _slices(data, _SLICE_BYTES):
            if self._inflate.eof:
                return
            yield self._inflate.decompress(part)


class _Brotli:
    """RFC 7932."""

    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    def __call__(self, data: bytes) -> Iterator[bytes]:
        while not self._decoder.is_finished():
            piece = self._decoder.process(data, output_buffer_limit=_STEP_BYTES)
            data = b""
            yield piece
            if not piece and self._decoder.can_accept_more_data():
                return


def _make_gzip() -> _Members:
    wbits = zlib.MAX_WBITS | 16
    return _Members(lambda: zlib.decompressobj(wbits=wbits), _GZIP_BEGINS, _SLICE_BYTES)


if sys.version_info >= (3, 14):
    _ZstdError = zstd.ZstdError
    _ZSTD_OPTIONS = {zstd.DecompressionParameter.window_log_max: MAX_WINDOW_BYTES.bit_length() - 1}

    def _make_zstd() -> _Members:
        return _Members(
            lambda: zstd.ZstdDecompressor(options=_ZSTD_OPTIONS), _ZSTD_BEGINS, _SMALL_SLICE_BYTES
        )

else:
    _ZstdError = zstandard.ZstdError

    def _make_zstd() -> _Members:
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        return _Members(decompressor.decompressobj, _ZSTD_BEGINS, _SMALL_SLICE_BYTES)


_DAMAGED = (zlib.error, brotli.error, _ZstdError)

_CODINGS: dict[str, Callable[[], _Coding]] = {
    "br": _Brotli,
    "deflate": _Deflate,
    "gzip": _make_gzip,
    "x-gzip": _make_gzip,
    "zstd": _make_zstd,
}


def _slices(data: bytes, size_bytes: int) -> Iterator[bytes]:
    return (data[start : start + size_bytes] for start in range(0, len(data), size_bytes))


UNCHANGING = ContentDecoder("")
"""The decoder of all bodies without a coding: it keeps no bytes."""


def make_decoder(headers: Headers, *, max_bytes: int | None = None) -> ContentDecoder:
    """Make the decoder for the body behind these headers.

    Raises:
        UndecodableContent: a coding is not known.
    """
    if "content-encoding" not in dict(headers):
        return UNCHANGING
    encoding = ", ".join(value for name, value in headers if name == "content-encoding")
    return ContentDecoder(encoding, max_bytes=max_bytes)
