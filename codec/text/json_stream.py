"""JSON values in a stream: the elements of one array, or values one after another.

A stream that begins with a bracket is an array: its elements are the values, its end closes the
stream, and everything behind that is ignored. In any other stream the values stand one after
another. A value ends with its last bracket or quote; a number or a word ends where something else
begins. Line ends have no meaning (``docs/contract/apis.md#framing``). The values are the same
however the bytes are cut.

This is not a validator: it requires no commas, and does not check that brackets match. If the text
ends where a value cannot end, the rest is returned as a value, and its decoder reports the fault. A
value under way never holds more than its limit (R5). The work is linear in the bytes, whatever they
are (:mod:`codec.text.nesting`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codec.errors import LimitExceeded
from codec.text.nesting import CLOSERS, Ending, pass_over
from codec.text.sse import MAX_EVENT_BYTES, OVERLAP_BYTES, SHORTENED_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("JsonSplitter",)

_PIECE_BYTES: Final = 16 * 1024
"""The size of the pieces that are followed at once (:data:`codec.text.scan.MAX_PIECE_BYTES`)."""

_QUOTE, _ARRAY, _ARRAY_END = b'"[]'  # as numbers
_TO_CLOSERS: Final = bytes.maketrans(b"[{", b"]}")

_to_value = re.compile(rb"[^ \t\r\n,]").search
_to_scalar_end = re.compile(rb'[ \t\r\n,\[\]{}"]').search
_find_marks = re.compile(rb'"[^"]*("?)|[\[{]+|[\]}]+').finditer


class JsonSplitter:
    r"""Cuts a stream of JSON into its values. Not safe for concurrent calls.

    Args:
        limit_bytes: the limit of a value.
        shorten: shortens a piece of a large value (:class:`codec.text.sse.SseDecoder`), so that a
            value may be larger on the wire than its limit.

    Attributes:
        in_array: the stream is an array.
        is_closed: the end of the array came.

    >>> splitter = JsonSplitter()
    >>> splitter.split(b'[{"a": "]"}\r\n,{"b"')
    [b'{"a": "]"}']
    >>> splitter.split(b": 1}]")
    [b'{"b": 1}']
    """

    __slots__ = (
        "_begun",
        "_closers",
        "_exceeded",
        "_in_scalar",
        "_in_string",
        "_is_escaped",
        "_limit_bytes",
        "_pending",
        "_shorten",
        "_shortened",
        "in_array",
        "is_closed",
    )

    def __init__(
        self,
        *,
        limit_bytes: int = MAX_EVENT_BYTES,
        shorten: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.is_closed = False
        self._limit_bytes = limit_bytes
        self._shorten = shorten
        self._begun = False
        self.in_array = False
        self._pending = bytearray()  # the value under way; empty between values
        self._shortened = 0  # how many bytes of it were shortened
        self._closers = bytearray()  # the partners of its open brackets
        self._in_string = self._in_scalar = False
        self._is_escaped = False  # a backslash escapes the next byte
        self._exceeded = False

    @property
    def is_between_values(self) -> bool:
        """Whether the next byte belongs to no value that has begun."""
        return self._begun and not (self._pending or self._exceeded)

    @property
    def pending_bytes(self) -> int:
        """The size of the value under way."""
        return len(self._pending)

    def split(self, data: bytes) -> list[bytes]:
        """Split one read, cut anywhere, and return the text of the values that it completes.

        Raises:
            LimitExceeded: a value passes its limit. Values that were complete before it are
                returned first, and the next call raises. The splitter is finished.
        """
        self._check_limit()
        values: list[bytes] = []
        for start in range(0, len(data), _PIECE_BYTES):
            self._feed_piece(data[start : start + _PIECE_BYTES], values)
            if self._exceeded:
                break
        if not values:
            self._check_limit()
        return values

    def finish(self) -> bytes:
        """Return the value that was under way when the stream ended; empty if there was none.

        Raises:
            LimitExceeded: as :meth:`split`.
        """
        self._check_limit()
        rest = bytes(self._pending)
        self._pending.clear()
        return rest

    def _feed_piece(self, piece: bytes, values: list[bytes]) -> None:
        text = self._mask_escapes(piece)
        at = 0
        while at < len(text) and not self.is_closed:
            if not self._pending:
                start = self._begin(text, at)
                if start < 0:
                    return
                at = start + 1
            else:
                start = 0
            end = self._follow(text, at)
            if end < 0:
                self._keep(piece[start:])
                return
            value = bytes(self._pending) + piece[start:end]
            self._pending.clear()
            self._shortened, self._in_scalar = 0, False
            if len(value) > self._limit_bytes:
                self._exceeded = True
                return
            values.append(value)
            at = end

    def _mask_escapes(self, piece: bytes) -> bytes:
        """Replace backslashes and the bytes that they escape; the length stays the same."""
        if self._is_escaped:
            piece = b"\0" + piece[1:]
        if b"\\" not in piece:
            self._is_escaped = False
            return piece
        piece = piece.replace(rb"\\", b"\0\0").replace(rb"\"", b"\0\0")
        self._is_escaped = piece.endswith(b"\\")
        return piece

    def _begin(self, text: bytes, at: int) -> int:
        """Find where the next value begins; -1 if none does."""
        while (found := _to_value(text, at)) is not None:
            at = found.start()
            first = text[at]
            if not self._begun:
                self._begun = True
                if first == _ARRAY:
                    self.in_array = True
                    at += 1
                    continue
            if first == _ARRAY_END and self.in_array:
                self.is_closed = True
                return -1
            if first in CLOSERS:
                self._closers.append(CLOSERS[first])
            self._in_string = first == _QUOTE
            self._in_scalar = not (self._closers or self._in_string)
            return at
        return -1

    def _follow(self, text: bytes, at: int) -> int:
        """Follow the value under way to its end; -1 if the end is still to come."""
        if self._in_scalar:
            found = _to_scalar_end(text, at)
            return -1 if found is None else found.start()
        if self._in_string:
            at = text.find(b'"', at) + 1
            if not at:
                return -1
            self._in_string = False
        if not self._closers:
            return at
        if self._pending and at < len(text):  # most of a large value
            ending = pass_over(text[at:], self._closers)
            if ending is not None:
                self._in_string = ending is not Ending.OUTSIDE
                return -1
        return self._follow_marks(text, at)

    def _follow_marks(self, text: bytes, at: int) -> int:
        closers = self._closers
        for found in _find_marks(text, at):
            run = found[0]
            if run[0] == _QUOTE:
                self._in_string = not found[1]
            elif run[0] in CLOSERS:
                closers += run.translate(_TO_CLOSERS)
            elif len(run) < len(closers):
                del closers[-len(run) :]
            else:
                end = found.start() + len(closers)
                closers.clear()
                return end
        return -1

    def _keep(self, piece: bytes) -> None:
        """Keep the piece of a value whose end is still to come."""
        pending = self._pending
        pending += piece
        if self._shorten is not None and len(pending) - self._shortened >= SHORTENED_BYTES:
            start = max(0, self._shortened - OVERLAP_BYTES)
            pending[start:] = self._shorten(bytes(pending[start:]))
            self._shortened = len(pending)
        self._exceeded = len(pending) > self._limit_bytes

    def _check_limit(self) -> None:
        if self._exceeded:
            self._pending.clear()
            raise LimitExceeded("MAX_EVENT_BYTES", self._limit_bytes)
