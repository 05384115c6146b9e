"""Sketches of answers: enough words of an answer to recognise it when a client rewrote it.

A client that rewrites an answer, trims it or takes its thoughts out, keeps most of its words. If
another client asked the same model the same question, it got other words.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codec.history_items import HistoryItem

Sketch = bytes
"""The CRC-32 of words, four bytes each, in any order. A set would take twenty times the memory."""

MAX_SKETCH_WORDS: Final = 16
"""How many words of an answer are kept: first those of :data:`FIRST_ENDS`, then those with the
smallest CRC-32. Where a word stands does not count."""

FIRST_ENDS: Final = frozenset(range(0, 256, 4))
"""The last bytes of the words that are chosen first, a quarter of all. If these are enough, the
other words need not be sorted, which takes longer than to find them."""

WORD_BYTES: Final = 4

MIN_ALIKE_WORDS: Final = 3
"""How many words two answers must share if one has more than twice as many: many answers have a
label of one word."""

MAX_SKETCHED_CHARS: Final = 4_096
"""How many characters of an answer are read, in some 80 us. With fewer, the head that many files or
pages share would weigh as much as what each says."""

_WORD: Final = re.compile(r"\w+")

_ASCII_WORDS: Final = bytes(
    ord(chr(code).lower()) if _WORD.match(chr(code)) else ord(" ") for code in range(128)
) + bytes(128)
"""A table that reduces ASCII text to its words in lower case, with white space between them."""


def make_sketch(items: Iterable[HistoryItem]) -> Sketch:
    """Make the sketch of an assistant's items."""
    text = _join(items)
    words = {*_list_ascii_words(text)} if text.isascii() else {*_list_words(text)}
    if not words and (signs := text.strip()):  # signs alone count as one word
        words.add(signs.encode("utf-8", "replace"))
    if len(words) <= MAX_SKETCH_WORDS:
        return array("I", map(crc32, words)).tobytes()
    first = {word for word in words if word[-1] in FIRST_ENDS}
    digests = sorted(map(crc32, first))[:MAX_SKETCH_WORDS]
    if len(digests) < MAX_SKETCH_WORDS:
        others = sorted(map(crc32, words - first))
        digests += others[: MAX_SKETCH_WORDS - len(digests)]
    return array("I", digests).tobytes()


def _list_words(text: str) -> list[bytes]:
    """List the words of a text in lower case."""
    return [word.encode("utf-8", "replace") for word in _WORD.findall(text.lower())]


def _list_ascii_words(text: str) -> list[bytes]:
    """List the words of an ASCII text in lower case, in a sixth of the time."""
    return text.encode().translate(_ASCII_WORDS).split()


def _join(items: Iterable[HistoryItem]) -> str:
    """Join the texts of the items, up to :data:`MAX_SKETCHED_CHARS`."""
    room = MAX_SKETCHED_CHARS
    texts: list[str] = []
    for item in items:
        texts.append(item.text[:room])
        room = max(0, room - len(item.text))
    return " ".join(texts)


def is_alike(said: Sketch, repeated: Sketch) -> bool:
    """Tell whether a history repeats an answer: both share half of the words of one of them.

    Half of the words of the shorter one are enough if these are at least :data:`MIN_ALIKE_WORDS`.
    An answer without text, because it failed, resembles whatever a client put in its place.
    """
    if not said:
        return True
    ours, theirs = {*array("I", said)}, {*array("I", repeated)}
    both = len(ours & theirs)
    return 2 * both >= min(len(ours), len(theirs)) > 0 and (
        both >= MIN_ALIKE_WORDS or 2 * both >= len(ours)
    )
