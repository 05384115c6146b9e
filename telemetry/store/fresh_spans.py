"""Keeps spans that are still to be sent in memory, so that new ones are not read back.

:class:`FreshSpans` knows, in order of age, all spans that are pending and have not failed alone, or
the oldest of them; or it knows nothing, and the file is read. It never guesses. It begins to know
when a read of the file found everything. It forgets everything when the order is no longer that of
adding (a clock was put back), and when the store says so: a span was postponed or lost, a call that
failed may have added spans, or the file is another one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from telemetry.store.rows import PendingSpan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from telemetry.store.rows import SpanRow

MAX_FRESH_BYTES = 8 << 20
"""Spans that are kept in memory (R5): a second of 800 long chats. Newer ones are left to the
file."""


class FreshSpans:
    """Not safe for concurrent calls: they are made under the lock of the file, after a commit."""

    def __init__(self) -> None:
        self._spans: deque[PendingSpan] = deque()
        self._size_bytes = 0
        self._newest_ns = 0
        self._knows_all = False  # whether the file has no newer ones
        self._knows = False

    def begin(self, spans: Iterable[PendingSpan], newest_ns: int) -> None:
        """Begin with all pending spans; none was recorded after `newest_ns`."""
        self.forget()
        self._spans.extend(spans)
        self._size_bytes = sum(len(span.span) for span in self._spans)
        self._newest_ns = newest_ns
        self._knows = self._knows_all = True
        if self._size_bytes > MAX_FRESH_BYTES:
            self.forget()

    def forget(self) -> None:
        """Forget all spans."""
        self._spans.clear()
        self._size_bytes = 0
        self._knows = self._knows_all = False

    def add(self, numbered: Iterable[tuple[int, SpanRow]]) -> None:
        """Add spans under their numbers, each greater than those before."""
        if not self._knows_all:
            return
        for seq, row in numbered:
            if row.recorded_ns < self._newest_ns:
                self.forget()
                return
            if self._size_bytes + len(row.span) > MAX_FRESH_BYTES:
                self._knows_all = False
                return
            self._newest_ns = row.recorded_ns
            self._size_bytes += len(row.span)
            self._spans.append(PendingSpan(seq, row.span_id, row.span))

    def settle(self, seqs: Collection[int]) -> None:
        """Forget spans that are not pending any more, or have failed alone."""
        while self._spans and self._spans[0].seq in seqs:  # usually the oldest batch
            self._size_bytes -= len(self._spans.popleft().span)
        if any(span.seq in seqs for span in self._spans):
            self._spans = deque(span for span in self._spans if span.seq not in seqs)
            self._size_bytes = sum(len(span.span) for span in self._spans)

    def read(self, limit_spans: int, limit_bytes: int) -> Sequence[PendingSpan] | None:
        """Return what :meth:`telemetry.store.store.Store.read_due` finds, ``None`` if unknown."""
        if not self._knows:
            return None
        found: list[PendingSpan] = []
        total_bytes = 0
        for span in self._spans:
            total_bytes += len(span.span)
            if len(found) == limit_spans or (found and total_bytes > limit_bytes):
                return found
            found.append(span)
        if not self._knows_all and len(found) < limit_spans:
            self.forget()  # only the file has what comes next
            return None
        return found
