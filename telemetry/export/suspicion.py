"""Find the span that a backend fails on, and hold it apart.

A backend may fail on a span instead of refusing it: a 5xx, a reset, no answer in time. If the
exporter then waited for the backend, it would wait for ever, and so would every later span.

Pure: values in, values out. The exporter acts on the result.

Suspicion arises when :data:`MAX_STRIKES` tries failed, no try succeeded in between, and the spans
may be the cause (:attr:`telemetry.export.delivery.Answer.suspect`). It ends when a whole batch is
accepted.

Under suspicion a try begins with the oldest span alone and, if that fails, with one other span,
drawn at random. While both fail nothing else is sent: a backend that fails on everything gets two
small requests per wait, and the spans are sent in order of age when it recovers.

Once a span is accepted the backend is known to work. The others follow in order of age, and a part
that fails is halved. A span that fails alone is *put aside*: it stays pending and is tried alone,
without end, and no other span waits for it.

A failure that the spans cannot have caused ends the try, because the backend is the cause again. A
second span that fails alone also ends it, if no span was accepted since the first. So only a few
requests in a row fail in one try: the oldest alone, a part and its halves down to one span, and one
or two more.

A try uses the results of earlier tries. After a try that ended with a failure, the next one sends
parts of at most half the size that failed last; after a try without failure the parts may be twice
as large. If the backend was away right after the oldest had failed, the next try begins with the
other one. So even a span that takes the backend down with it is found in a few tries.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from telemetry.export.delivery import Backoff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telemetry.store.rows import PendingSpan

MAX_STRIKES = 3
"""Tries that fail before spans are suspected: some 7 s, enough for a restart or a hiccup."""

ALONE_BACKOFF = Backoff(first_seconds=60.0, max_seconds=3600.0)
"""The wait of a span that was put aside, by how often it failed alone."""

ALONE_SECONDS = 30.0
"""The pause after such a span has failed, before the next one is tried: three times a usual
time-out. They are tried one at a time, while the backend accepts others or no others are pending.
So even a thousand of them, each with a time-out, leave most of the time to the others."""


class Blame(Enum):
    """The cause of a failure, as far as it is known: the spans, or the backend."""

    BACKEND = auto()
    """The try is over; wait."""
    PART = auto()
    """In one of the spans that were sent; its halves are next."""
    SPAN = auto()
    """In the one span that was sent: put it aside."""
    OPEN = auto()
    """Not known yet: another span is tried."""


class Suspicion:
    """The knowledge from earlier tries."""

    def __init__(self, max_part_spans: int) -> None:
        self._max_part_spans = max_part_spans
        self._part_spans = max_part_spans
        self._strikes = 0
        self._asked_another = False
        self._oldest_second = False

    def begin(self, spans: Sequence[PendingSpan], draw: float) -> Trial:
        """Begin a try at `spans`, oldest first; `draw` is a random number from 0 to 1."""
        trial = Trial(spans)
        if self._strikes >= MAX_STRIKES:
            trial.probe(draw, self._part_spans, oldest_second=self._oldest_second)
        self._asked_another = False
        return trial

    def note_blame(self, blame: Blame, spans: int, *, suspect: bool) -> None:
        """Note the cause of a failure of a number of spans."""
        if blame is Blame.BACKEND:
            self._strikes += suspect
            self._oldest_second |= self._asked_another and not suspect
        elif blame is Blame.OPEN:
            self._asked_another = True
        elif blame is Blame.PART:
            self._part_spans = max(1, spans // 2)
        else:
            # A span is put aside: what failed is explained.
            self._part_spans = self._max_part_spans
            self._oldest_second = False

    def note_success(self) -> None:
        """Note a try without any failure."""
        if self._strikes >= MAX_STRIKES:
            self._part_spans *= 2
        if self._part_spans >= self._max_part_spans:
            self._part_spans = self._max_part_spans
            self._strikes = 0
            self._oldest_second = False


class Trial:
    """One try at a batch: the parts to send, and what a failure means.

    Attributes:
        parts: what is still to be sent, the next one last.
        failed: whether anything of it failed.
    """

    def __init__(self, spans: Sequence[PendingSpan]) -> None:
        self.parts: list[Sequence[PendingSpan]] = [spans]
        self.failed = False
        self._spans = spans
        self._part_spans = 0  # none: not under suspicion
        self._second: int | None = None
        self._works = False
        self._taken_since_culprit = False

    def probe(self, draw: float, part_spans: int, *, oldest_second: bool) -> None:
        """Send one span alone first, then the others in parts."""
        self._part_spans = part_spans
        last = len(self._spans) - 1
        first, second = 0, min(1 + int(draw * last), last)
        if oldest_second:
            first, second = second, first
        if first != second:
            self._second = second
        self._begin_with(first)

    def halve(self, part: Sequence[PendingSpan]) -> None:
        """Send the halves of `part` next, the older one first."""
        middle = len(part) // 2
        self.parts += (part[middle:], part[:middle])

    def note_answer(self) -> None:
        """Note that the backend accepted or refused a part: it works."""
        self._works = True
        self._taken_since_culprit = True

    def judge(self, part: Sequence[PendingSpan], *, suspect: bool) -> Blame:
        """Judge the failure of `part`, which may lie in the spans only if it is `suspect`."""
        self.failed = True
        if not (suspect and self._part_spans):
            return Blame.BACKEND
        if not self._works:
            if self._second is None:
                return Blame.BACKEND
            self._begin_with(self._second)
            self._second = None
            return Blame.OPEN
        if len(part) > 1:
            self.halve(part)
            return Blame.PART
        blame = Blame.SPAN if self._taken_since_culprit else Blame.BACKEND
        self._taken_since_culprit = False
        return blame

    def _begin_with(self, index: int) -> None:
        """Send one span first, then the others in order of age, in parts."""
        others = [*self._spans[:index], *self._spans[index + 1 :]]
        starts = range(0, len(others), self._part_spans)
        parts = [others[start : start + self._part_spans] for start in starts]
        self.parts = [*reversed(parts), [self._spans[index]]]
