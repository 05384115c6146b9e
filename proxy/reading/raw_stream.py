"""The true bytes of an answer as lines of text, with the times at which they came.

A line has the time of the read in which it began. If a pause of :data:`MIN_PAUSE_NS` or more came
inside a line, the rest of it is another line here. Bytes that are no text, or whose content coding
cannot be undone, are only counted, read by read.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry.observing.content_decoding import ContentDecoder, UndecodableContent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from telemetry.raw_answer import RawAnswer

MIN_PAUSE_NS: Final = 100_000_000
"""The shortest pause inside a line that is shown; a large event comes in several reads at once."""

MAX_SHOWN_BYTES: Final = 16 * 1024 * 1024
"""The most that a compressed answer becomes."""

_PROBE_BYTES: Final = 64 * 1024
"""How much of an answer tells whether it is text."""


class StreamLine(NamedTuple):
    """A line of an answer, or what one read had of it.

    Attributes:
        at_ns: when its read came, in nanoseconds since the epoch.
        wait_ns: how long nothing had come before that read; ``None`` if an earlier line came in it.
        text: without its line feed; ``None`` for bytes that are only counted.
        size_bytes: how many those are.
    """

    at_ns: int
    wait_ns: int | None
    text: str | None
    size_bytes: int = 0


def walk_lines(answer: RawAnswer) -> Iterator[StreamLine]:
    """Yield the lines of an answer as they came."""
    decoder = _open_decoder(answer)
    if decoder is None:
        yield from _count(answer)
        return
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    begun: tuple[int, int | None] = (answer.first_ns, 0)  # time and wait of an unfinished line
    texts: list[str] = []  # what has come of it
    last_ns = answer.first_ns
    for at_ns, data in _walk_reads(answer):
        text = decode(decoder.feed(data))
        if not text:  # a coding keeps what it has not finished
            continue
        wait_ns, last_ns = at_ns - last_ns, at_ns
        if texts and wait_ns >= MIN_PAUSE_NS:
            yield StreamLine(*begun, "".join(texts))
            texts = []
        known_wait_ns: int | None = wait_ns
        *lines, rest = text.split("\n")
        for line in lines:
            if texts:
                yield StreamLine(*begun, "".join((*texts, line)))
                texts = []
            else:
                yield StreamLine(at_ns, known_wait_ns, line)
                known_wait_ns = None
        if rest and not texts:
            begun = at_ns, known_wait_ns
        if rest:
            texts.append(rest)
    if texts:
        yield StreamLine(*begun, "".join(texts))


def measure_time(answer: RawAnswer) -> int:
    """Measure the time from the first read that is kept to the last, in nanoseconds."""
    return sum(answer.waits_ns)


def _walk_reads(answer: RawAnswer) -> Iterator[tuple[int, bytes]]:
    """Yield time and bytes of each read."""
    at_ns, start = answer.first_ns, 0
    for wait_ns, size_bytes in zip(answer.waits_ns, answer.sizes_bytes, strict=True):
        at_ns += wait_ns
        yield at_ns, answer.body[start : start + size_bytes]
        start += size_bytes


def _open_decoder(answer: RawAnswer) -> ContentDecoder | None:
    """Open a decoder of the content coding; ``None`` for what cannot be shown as text."""
    encoding = answer.content_encoding
    try:
        probing = ContentDecoder(encoding, max_bytes=_PROBE_BYTES)
        begun = probing.feed(answer.body[:_PROBE_BYTES])
        decoder = ContentDecoder(encoding, max_bytes=MAX_SHOWN_BYTES)
    except UndecodableContent:
        return None
    is_unread = not begun and probing.error is not None
    return None if is_unread or b"\0" in begun[:_PROBE_BYTES] else decoder


def _count(answer: RawAnswer) -> Iterator[StreamLine]:
    """Yield the sizes of the reads."""
    waits_ns = iter(answer.waits_ns)
    for at_ns, data in _walk_reads(answer):
        yield StreamLine(at_ns, next(waits_ns), None, len(data))
