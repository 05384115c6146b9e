"""Find the span that a backend fails at, and hold it apart.

A backend may fail on a span instead of refusing it: a 5xx, a reset, no answer in time. To wait for
the backend would then be to wait for ever, with every later span behind that one.

Pure: values in, values out. The exporter does what it says.

Rules:

1. Suspicion arises when :data:`MAX_STRIKES` tries failed by an answer that may lie in the spans
   (:attr:`telemetry.export.delivery.Answer.suspect`), and no try went through in between. It ends
   with a whole batch that is taken.
2. Under suspicion a try begins with the oldest span alone and, where that fails, one other, drawn
   by lot. While both fail nothing else is sent: a backend that fails at everything gets two small
   requests per wait, and what waits goes out in order of age when it recovers.
3. Once one is taken the backend is known to work. The others follow in order of age, and what
   fails is halved. A span that fails by itself is *put aside*: it stays pending, is tried alone,
   at its own time, without end, and keeps nobody waiting.
4. What cannot lie in the spans, and a second span that fails by itself while nothing was taken
   since the first, end the try: it is the backend again. So no more than
   :data:`MAX_FAILED_IN_A_ROW` requests in a row fail in one try.
5. What a try has learnt is kept: after one that ended so, the next one sends parts no larger than
   what failed last, halved; after one without failure they may be twice as large. Where the backend
   was away right after the oldest had failed, the next try begins with the other one. So a span
   that takes the backend down with it is found too, in a few tries.
6. Of the spans that were put aside one is tried at a time, while the backend takes others or none
   are there, and after one that failed again none for :data:`ALONE_SECONDS`: a thousand of them,
   each with a time-out, leave most of the time to the others.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from telemetry.export.delivery import Backoff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telemetry.store.rows import PendingSpan

__all__ = (
    "ALONE_BACKOFF",
    "ALONE_SECONDS",
    "MAX_FAILED_IN_A_ROW",
    "MAX_STRIKES",
    "Blame",
    "Suspicion",
    "Trial",
)

MAX_STRIKES = 3
"""Tries that fail before spans are suspected: some 7 s, which a restart or a hiccup may take."""

MAX_FAILED_IN_A_ROW = 10
"""The oldest alone; from 64 spans down to one, by halves; and the one or two beside that."""

ALONE_BACKOFF = Backoff(first_seconds=60.0, max_seconds=3600.0)
"""The own wait of a span that was put aside; it goes by how often it failed alone."""

ALONE_SECONDS = 30.0
"""From one such span that failed again to the next one's turn: three times a usual time-out."""


class Blame(Enum):
    """The cause of a failure, as far as it is known: the spans, or the backend."""

    BACKEND = auto()
    """The try is over; wait."""
    PART = auto()
    """In one of the spans that were sent; its halves are next."""
    SPAN = auto()
    """In the one span that was sent: put it aside."""
    OPEN = auto()
    """Another span will tell."""


class Suspicion:
    """What is known from one try to the next (rules 1 and 5).

    Args:
        max_part_spans: spans in a whole batch.
    """

    def __init__(self, max_part_spans: int) -> None:
        self._max_part_spans = max_part_spans
        self._part_spans = max_part_spans
        self._strikes = 0
        self._asked_another = False
        self._oldest_second = False

    def begin(self, spans: Sequence[PendingSpan], draw: float) -> Trial:
        """A try at `spans`, oldest first; `draw` is a random number from 0 to 1."""
        trial = Trial(spans)
        if self._strikes >= MAX_STRIKES:
            trial.probe(draw, self._part_spans, oldest_second=self._oldest_second)
        self._asked_another = False
        return trial

    def note_blame(self, blame: Blame, spans: int, *, suspect: bool) -> None:
        """Note the cause of a failure of so many spans."""
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
        """A try went through without any failure."""
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
        """Go by rules 2 to 5: one alone, then the others in parts of so many spans."""
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
        """The backend took a part, or refused it: it works."""
        self._works = True
        self._taken_since_culprit = True

    def judge(self, part: Sequence[PendingSpan], *, suspect: bool) -> Blame:
        """Judge the failure of `part`, whose cause may be the spans only where it is `suspect`."""
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
        """One span first, then the others in order of age, in parts."""
        others = [*self._spans[:index], *self._spans[index + 1 :]]
        starts = range(0, len(others), self._part_spans)
        parts = [others[start : start + self._part_spans] for start in starts]
        self.parts = [*reversed(parts), [self._spans[index]]]
