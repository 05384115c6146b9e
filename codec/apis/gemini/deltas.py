"""Chunks that are one more word of a candidate, as most are, read as no more than that.

Rules:

1. A chunk is one more word where it is the one before it but for its text and the numbers in its
   counts. What else it could say, the general way has to find.
2. Of counts in one form the last ones stand for all: they run, and are never summed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from codec.delta_reader import is_short

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("WordReader",)


class Part(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A text."""

    text: str
    thought: bool = False


class Content(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A text, and whose it is."""

    parts: Annotated[list[Part], msgspec.Meta(min_length=1, max_length=1)]
    role: str | None = None


class Candidate(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A candidate that goes on."""

    content: Content
    index: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0


class Word(msgspec.Struct, gc=False, forbid_unknown_fields=True, rename="camel"):
    """A chunk with one text, and nothing but what nearly every chunk has beside it."""

    candidates: Annotated[list[Candidate], msgspec.Meta(min_length=1, max_length=1)]
    usage_metadata: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    model_version: str | None = None
    response_id: str | None = None
    create_time: str | None = None


_NO_COUNTS: Final = msgspec.Raw()
_decode = msgspec.json.Decoder(Word).decode

_NUMBER: Final = rb"(?:0|[1-9]\d{0,14})"
_PLAIN: Final = re.compile(rb"[\s\w\"{}\[\]:,]*").fullmatch
"""Counts as they all are: objects and lists of words and whole numbers."""
_WORDS: Final = re.compile(rb'"([^"]*)"').findall
_DIGIT: Final = re.compile(rb"\d").search


@lru_cache(maxsize=64)  # a model has one form, or a few
def _match_form(form: bytes) -> Callable[[bytes], object]:
    """Make what tells whether counts have this form, in which a zero stands for every number."""
    return re.compile(re.escape(form).replace(b"0", _NUMBER)).fullmatch


class WordReader:
    """Reads chunks that are like the one before them. Not safe for concurrent calls.

    What is compared is emptied of its text and its counts.
    """

    __slots__ = ("_has_form", "_last")

    def __init__(self) -> None:
        self._last: Word | None = None
        self._has_form: Callable[[bytes], object] = _match_form(b"")

    def begin(self, data: bytes) -> None:
        """Look at a chunk that was read the general way: others may be like it."""
        self._last = None
        if (word := _read(data)) is None:
            return
        text, counts = _empty(word)
        if text and _PLAIN(counts) and not _DIGIT(b"".join(_WORDS(counts))):
            self._last = word
            self._has_form = _match_form(re.sub(rb"\d+", b"0", counts))

    def read(self, data: bytes) -> tuple[str, bytes] | None:
        """Read the text and the counts of a chunk that is like the last one (rule 1).

        Returns:
            ``None`` where it is not.
        """
        if (last := self._last) is None or (word := _read(data)) is None:
            return None
        said = _empty(word)
        return said if word == last and self._has_form(said[1]) else None


def _read(data: bytes) -> Word | None:
    if not is_short(data):
        return None
    try:
        return _decode(data)
    except msgspec.MsgspecError:
        return None


def _empty(word: Word) -> tuple[str, bytes]:
    """Take the text and the counts out of a chunk, and return them."""
    part = word.candidates[0].content.parts[0]
    said = part.text, bytes(word.usage_metadata)
    part.text, word.usage_metadata = "", _NO_COUNTS
    return said
