"""Find the values of a JSON document in its bytes."""

from __future__ import annotations

import re

__all__ = ("Span", "scan_spans")

_SPACE = re.compile(rb"[ \t\n\r]*")
_SCALAR = re.compile(rb"[^\s,\]}]*")
_BOMS = re.compile(rb"(?:\xef\xbb\xbf)*")  # the parser accepts two
_QUOTE, _BACKSLASH, _COMMA = b'"\\,'
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_LIST, _CLOSE_LIST = b"{}[]"


class Span:
    """The bytes of one value.

    Attributes:
        start: the offset of its first byte.
        end: the offset past its last byte.
        keys: of an object the offsets of its members' keys, from quote to behind quote.
        values: the values of its members, or of a list its items; in the order of the bytes.
    """

    __slots__ = ("end", "keys", "start", "values")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.keys: list[tuple[int, int]] = []
        self.values: list[Span] = []


def scan_spans(data: bytes) -> Span:
    """Find every value of a document, which must be one that the parser accepted.

    No recursion: a document may be as deep as its parser was willing to go.
    """
    root = Span(_skip(data, _end_of(_BOMS, data, 0)))
    open_spans: list[Span] = []
    span, position = root, root.start
    while True:
        opener = data[position]
        if opener in {_OPEN_OBJECT, _OPEN_LIST}:
            open_spans.append(span)
            position = _skip(data, position + 1)
            if data[position] not in {_CLOSE_OBJECT, _CLOSE_LIST}:
                span, position = _enter(data, open_spans[-1], position)
                continue
        elif opener == _QUOTE:
            position = span.end = _end_of_string(data, position)
        else:
            position = span.end = _end_of(_SCALAR, data, position)
        while open_spans:
            position = _skip(data, position)
            if data[position] == _COMMA:
                span, position = _enter(data, open_spans[-1], _skip(data, position + 1))
                break
            position += 1
            open_spans.pop().end = position
        else:
            return root


def _enter(data: bytes, container: Span, position: int) -> tuple[Span, int]:
    """Begin the next value of a container, behind its key if that is an object."""
    if data[container.start] == _OPEN_OBJECT:
        end = _end_of_string(data, position)
        container.keys.append((position, end))
        position = _skip(data, _skip(data, end) + 1)  # the colon
    span = Span(position)
    container.values.append(span)
    return span, position


def _skip(data: bytes, position: int) -> int:
    return _end_of(_SPACE, data, position)


def _end_of(pattern: re.Pattern[bytes], data: bytes, position: int) -> int:
    match = pattern.match(data, position)
    return match.end() if match is not None else position


def _end_of_string(data: bytes, start: int) -> int:
    """Return the offset behind the closing quote: the first that is not escaped."""
    position = start + 1
    while True:
        position = data.index(b'"', position)
        escapes = position - 1
        while data[escapes] == _BACKSLASH:
            escapes -= 1
        position += 1
        if (position - escapes) % 2 == 0:
            return position
