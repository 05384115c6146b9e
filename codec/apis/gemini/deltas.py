"""Recognises by its bytes a chunk that adds one more word to a candidate, as most chunks do.

Such a chunk equals the one before it, except for its text and the numbers in its counts. All other
chunks are read the general way. No guess about JSON is trusted: the places of the text and of the
counts are *tried*. With another text and other numbers there, the parser must find that just these
changed. The counts of a chunk include those before it, so the last ones stand for all.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from codec.delta_reader import is_short
from codec.text.event_frame import EventFrame
from codec.text.jsontext import decode_literals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ("MAX_RUN", "WordFrame", "learn_frame")


class Part(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A part with a text."""

    text: str
    thought: bool = False


class Content(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A content with one part, and its role."""

    parts: Annotated[list[Part], msgspec.Meta(min_length=1, max_length=1)]
    role: str | None = None


class Candidate(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A candidate that has not ended."""

    content: Content
    index: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0


class Word(msgspec.Struct, gc=False, forbid_unknown_fields=True, rename="camel"):
    """A chunk with one text, and besides it only what nearly every chunk has."""

    candidates: Annotated[list[Candidate], msgspec.Meta(min_length=1, max_length=1)]
    usage_metadata: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    model_version: str | None = None
    response_id: str | None = None
    create_time: str | None = None


MAX_RUN: Final = 64
"""Chunks that are compared together. Those that differ from the first are compared again."""

_decode = msgspec.json.Decoder(Word).decode

_TRIAL: Final = "a text that nobody sends"
_TEXT: Final = re.compile(rb'"text"[ \t]*:[ \t]*"([^"\\]*(?:\\.[^"\\]*)*)"').search
_NUMBER: Final = rb"(?:0|[1-9]\d{0,14})"
_PLAIN: Final = re.compile(rb"[\s\w\"{}\[\]:,]*").fullmatch
"""Matches the usual counts: objects and lists of words and whole numbers."""
_WORDS: Final = re.compile(rb'"([^"]*)"').findall
_DIGIT: Final = re.compile(rb"\d").search
_NUMBERS: Final = re.compile(rb"\d+").sub
_REASON: Final = b'"finishReason"'
_SEAM: Final = b"\0"
"""Separates counts that are compared together; none of them contains it."""


def _match_form(form: bytes) -> Callable[[bytes], object]:
    """Make a test of whether counts have this form, in which a zero stands for every number.

    It takes several counts, each with :data:`_SEAM` behind it.
    """
    one = re.escape(form).replace(b"0", _NUMBER)
    return re.compile(rb"(?:%b%b)*+" % (one, _SEAM)).fullmatch


class WordFrame:
    """The bytes of a chunk, with places for its text and, behind that, its counts. Immutable.

    Args:
        before: the chunk's bytes up to and with the quote that opens the text.
        between: from the text's closing quote to the counts; empty where there are none.
        form: of the counts, with a zero for each number.
        behind: what follows the counts, or the text.
    """

    __slots__ = ("_between", "_frame", "_has_form")

    def __init__(self, *, before: bytes, between: bytes, form: bytes, behind: bytes) -> None:
        self._between = between
        self._frame = EventFrame(before, behind)
        self._has_form = _match_form(form)

    def match_run(self, chunks: Sequence[bytes], start: int) -> tuple[list[str], bytes]:
        """Read the chunks from `start` on, as far as each is one more word, a few at a time.

        Returns:
            Their texts, and the counts of the last of them; no texts if the first is different.
        """
        return self._read_middles(self._frame.cut_run(chunks[start : start + MAX_RUN]))

    def _read_middles(self, middles: list[bytes]) -> tuple[list[str], bytes]:
        """Read the bytes from the text to the counts of chunks, up to the first that differs."""
        if not self._between:
            return decode_literals(middles), b""
        parts = [middle.partition(self._between) for middle in middles]
        while parts and not parts[-1][1]:  # a reason to finish stands there, as in the last chunk
            parts.pop()
        counts = [part[2] for part in parts]
        if not self._has_form(_SEAM.join([*counts, b""])):
            counts = [*takewhile(lambda one: self._has_form(one + _SEAM), counts)]
        texts = decode_literals([part[0] for part in parts[: len(counts)]])
        return texts, counts[len(texts) - 1] if texts else b""


def learn_frame(chunk: bytes, data: bytes) -> WordFrame | None:
    """Make a frame of a chunk that was read the general way; ``None`` if it does not fit.

    Args:
        chunk: its bytes, in the form in which the next chunks will come.
        data: the JSON in it.
    """
    if _REASON in data:  # usually the last chunk, so no other one will be like it
        return None
    start = chunk.find(data)
    text = _TEXT(chunk)
    if start < 0 or text is None or not is_short(data):
        return None
    if (word := _read(data)) is None or not (part := word.candidates[0].content.parts[0]).text:
        return None
    counts = bytes(word.usage_metadata)
    if not _PLAIN(counts) or _DIGIT(b"".join(_WORDS(counts))):
        return None
    end = chunk.find(counts, text.end(1))
    form = _NUMBERS(b"0", counts)
    before, behind = chunk[: text.start(1)], chunk[end + len(counts) :]
    between = chunk[text.end(1) : end] if counts else b""
    others = _NUMBERS(_other_number, counts)
    part.text, word.usage_metadata = _TRIAL, msgspec.Raw(others)
    filled = before + _TRIAL.encode() + between + others + behind
    trial = _read(filled[start : len(filled) - (len(chunk) - start - len(data))])
    if end < 0 or trial != word:
        return None
    return WordFrame(before=before, between=between, form=form, behind=behind)


def _other_number(number: re.Match[bytes]) -> bytes:
    """Return a number that differs from this one, to try its place."""
    return b"1" if number[0] == b"0" else b"0"


def _read(data: bytes) -> Word | None:
    try:
        return _decode(data)
    except msgspec.MsgspecError:
        return None
