"""Writes a changed JSON document into the bytes of the original.

See ``docs/contract/sources.md#s4-4``. Values that are the same keep their bytes: number text,
escapes, white space, the order of keys, keys that occur twice. The comparison is strict: ``true``
is not 1, 1 is not ``1.0``, and ``NaN`` is ``NaN``.

A changed member is changed in its place; of several with one name, the last is changed, which is
the one that counts. A removed member is removed with every other of its name. New members come
last. A list keeps its beginning and its end as far as they are the same; what is between is changed
item by item, and then items are added or removed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from codec.text.jsontext import decode_json, encode_json, is_too_deep
from codec.values._changes import MAX_CHANGE_DEPTH, common_ends, is_same

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("splice_json",)

_SPACE = re.compile(rb"[ \t\n\r]*")
_SCALAR = re.compile(rb"[^\s,\]}]*")
_BOMS = re.compile(rb"(?:\xef\xbb\xbf)*")  # the parser accepts two
_QUOTE, _BACKSLASH, _COMMA = b'"\\,'
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_LIST, _CLOSE_LIST = b"{}[]"


class _Span:
    """The bytes of one value.

    Attributes:
        start: the offset of its first byte.
        end: the offset past its last byte.
        keys: for an object, the offsets of its members' keys, from the first quote to behind the
            last.
        values: the values of an object's members, or a list's items, in the order of the bytes.
    """

    __slots__ = ("end", "keys", "start", "values")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.keys: list[tuple[int, int]] = []
        self.values: list[_Span] = []


def _scan_spans(data: bytes) -> _Span:
    """Find every value of a document, which must be one that the parser accepted.

    This does not recurse, because a document may be as deep as its parser accepts.
    """
    root = _Span(_skip(data, _end_of(_BOMS, data, 0)))
    open_spans: list[_Span] = []
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


def _enter(data: bytes, container: _Span, position: int) -> tuple[_Span, int]:
    """Begin the next value of a container; in an object it stands behind its key."""
    if data[container.start] == _OPEN_OBJECT:
        end = _end_of_string(data, position)
        container.keys.append((position, end))
        position = _skip(data, _skip(data, end) + 1)  # the colon
    span = _Span(position)
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


Edit = tuple[int, int, str]
"""The bytes to replace, from start to end, and the text to put there."""


def splice_json(original: bytes, value: Any) -> bytes:
    r"""Write a value as a document, with the bytes of the original wherever the two agree.

    Args:
        original: one JSON document that :func:`codec.text.jsontext.decode_json` accepts.
        value: any JSON value; it is not changed.

    Raises:
        ValueError: the original is not a JSON document, or the value cannot be written as one.

    >>> splice_json(b'{"n": 1.0, "s":"\\u00e9"}', {"n": 1.0, "s": "e", "t": None})
    b'{"n": 1.0, "s":"e","t":null}'
    """
    old = decode_json(original)
    if is_too_deep(value):
        raise ValueError("JSON nested too deeply")
    edits = sorted(_Splicer(original).edit(_scan_spans(original), old, value))
    pieces: list[bytes] = []
    position = 0
    for start, end, text in edits:
        pieces += [original[position:start], text.encode()]
        position = end
    return b"".join([*pieces, original[position:]])


class _Splicer:
    """Finds the edits that turn one document into another. They never overlap."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def edit(self, span: _Span, old: Any, new: Any, depth: int = 0) -> Iterator[Edit]:
        if is_same(old, new):
            return
        if depth < MAX_CHANGE_DEPTH and isinstance(old, dict) and isinstance(new, dict):
            yield from self._edit_object(span, old, new, depth + 1)
        elif depth < MAX_CHANGE_DEPTH and isinstance(old, list) and isinstance(new, list):
            yield from self._edit_list(span, old, new, depth + 1)
        else:
            yield span.start, span.end, encode_json(new)

    def _edit_object(
        self, span: _Span, old: dict[str, Any], new: dict[str, Any], depth: int
    ) -> Iterator[Edit]:
        names = [str(decode_json(self._data[start:end])) for start, end in span.keys]
        places = {name: place for place, name in enumerate(names)}  # the last of several
        for name, place in places.items():
            if name in new:
                yield from self.edit(span.values[place], old[name], new[name], depth)
        added = [
            f"{encode_json(name)}:{encode_json(value)}"
            for name, value in new.items()
            if name not in old
        ]
        starts = [start for start, _ in span.keys]
        kept = [name in new for name in names]
        yield from _remove(span, starts, kept)
        yield from _append(span, starts, kept, added)

    def _edit_list(self, span: _Span, old: list[Any], new: list[Any], depth: int) -> Iterator[Edit]:
        first, last = common_ends(old, new)
        changed = min(len(old), len(new)) - first - last
        for place in range(first, first + changed):
            yield from self.edit(span.values[place], old[place], new[place], depth)
        added = [encode_json(item) for item in new[first + changed : len(new) - last]]
        starts = [value.start for value in span.values]
        gone = range(first + changed, len(old) - last)
        yield from _remove(span, starts, [place not in gone for place in range(len(old))])
        before = first + changed
        if added and before < len(old):
            yield starts[before], starts[before], ",".join(added) + ","
        else:
            yield from _append(span, starts, [True] * len(old), added)


def _remove(span: _Span, starts: list[int], kept: list[bool]) -> Iterator[Edit]:
    """Remove members or items, each with the comma behind it, or before it at the end."""
    last_kept = max((place for place, keep in enumerate(kept) if keep), default=None)
    for place, keep in enumerate(kept):
        if not keep and (last_kept is not None and place < last_kept):
            yield starts[place], starts[place + 1], ""
    if last_kept is None and kept:
        yield starts[0], span.values[-1].end, ""
    elif last_kept is not None and last_kept + 1 < len(kept):
        yield span.values[last_kept].end, span.values[-1].end, ""


def _append(span: _Span, starts: list[int], kept: list[bool], added: list[str]) -> Iterator[Edit]:
    """Add members or items behind the last one that is kept."""
    if not added:
        return
    last_kept = max((place for place, keep in enumerate(kept) if keep), default=None)
    text = ",".join(added)
    if last_kept is not None:
        end = span.values[last_kept].end
        yield end, end, f",{text}"
    else:
        start = starts[0] if starts else span.start + 1
        yield start, start, text
