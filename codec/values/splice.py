"""A changed JSON document in the bytes of the one it was (``docs/contract/sources.md#s4-4``).

Rules:

1. What says the same keeps its bytes: number text, escapes, white space, the order of keys, keys
   that occur twice. Saying the same is strict: ``true`` is not 1, 1 is not ``1.0``, and ``NaN`` is
   ``NaN``.
2. A member that changed is changed in its place, of several with one name the last, which is the
   one that counts. A member that went goes with every other of its name. New ones come last.
3. Of a list the beginning and the end that are the same stay; what is between is changed item by
   item, then added or taken away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.text.jsontext import decode_json, encode_json, is_too_deep
from codec.values._changes import MAX_CHANGE_DEPTH, common_ends, is_same
from codec.values._spans import scan_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.values._spans import Span

__all__ = ("splice_json",)

Edit = tuple[int, int, str]
"""The bytes to replace, from start to end, and the text to put there."""


def splice_json(original: bytes, value: Any) -> bytes:
    r"""Return the document that says a value, with the bytes of the original where it agrees.

    Args:
        original: one JSON document, as :func:`codec.text.jsontext.decode_json` takes it.
        value: any JSON value; it is not changed.

    Raises:
        ValueError: the original is not a JSON document, or the value cannot be written as one.

    >>> splice_json(b'{"n": 1.0, "s":"\\u00e9"}', {"n": 1.0, "s": "e", "t": None})
    b'{"n": 1.0, "s":"e","t":null}'
    """
    old = decode_json(original)
    if is_too_deep(value):
        raise ValueError("JSON nested too deeply")
    edits = sorted(_Splicer(original).edit(scan_spans(original), old, value))
    pieces: list[bytes] = []
    position = 0
    for start, end, text in edits:
        pieces += [original[position:start], text.encode()]
        position = end
    return b"".join([*pieces, original[position:]])


class _Splicer:
    """Finds the edits that make one document another. They never overlap."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def edit(self, span: Span, old: Any, new: Any, depth: int = 0) -> Iterator[Edit]:
        if is_same(old, new):
            return
        if depth < MAX_CHANGE_DEPTH and isinstance(old, dict) and isinstance(new, dict):
            yield from self._edit_object(span, old, new, depth + 1)
        elif depth < MAX_CHANGE_DEPTH and isinstance(old, list) and isinstance(new, list):
            yield from self._edit_list(span, old, new, depth + 1)
        else:
            yield span.start, span.end, encode_json(new)

    def _edit_object(
        self, span: Span, old: dict[str, Any], new: dict[str, Any], depth: int
    ) -> Iterator[Edit]:
        names = [str(decode_json(self._data[start:end])) for start, end in span.keys]
        places = {name: place for place, name in enumerate(names)}  # of several the last
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

    def _edit_list(self, span: Span, old: list[Any], new: list[Any], depth: int) -> Iterator[Edit]:
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


def _remove(span: Span, starts: list[int], kept: list[bool]) -> Iterator[Edit]:
    """Remove members or items, each with a comma: the one behind it, or before it at the end."""
    last_kept = max((place for place, keep in enumerate(kept) if keep), default=None)
    for place, keep in enumerate(kept):
        if not keep and (last_kept is not None and place < last_kept):
            yield starts[place], starts[place + 1], ""
    if last_kept is None and kept:
        yield starts[0], span.values[-1].end, ""
    elif last_kept is not None and last_kept + 1 < len(kept):
        yield span.values[last_kept].end, span.values[-1].end, ""


def _append(span: Span, starts: list[int], kept: list[bool], added: list[str]) -> Iterator[Edit]:
    """Put members or items behind the last one that is kept."""
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
