"""Rows that wait for the store, and what goes into one commit.

Rules:

1. What a call brings is committed together: its row, those of other spans, what changed of open
   runs (R8).
2. The oldest come first. A batch has at most :data:`BATCH_BYTES`, but always one entry: it fits a
   disk with little room.
3. What makes the store fail is given up alone: entries are taken apart first, then rows of one.
4. Of a run of which a span was deleted no texts go into the store any more: neither in its own
   spans, nor as one that is open. The spans of its calls do.
5. All together have at most :data:`MAX_WAITING_BYTES`, what is kept of open runs included: each
   call of a run brings the whole of it. Past that the oldest are dropped (R5).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from telemetry.facts import DERIVED_KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from telemetry.observing.source import Receipt
    from telemetry.store.rows import SpanRow

MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Spans and open runs in memory while the store is unavailable: a few thousand long chats."""

BATCH_BYTES = 8 * 1024 * 1024
"""Spans that are committed together. Where more wait, a commit is due at once: a backlog of frames
does not become a backlog of spans."""


class Waiting(NamedTuple):
    """What is committed together.

    Attributes:
        rows: of a call, and of other spans that it brings.
        open_runs: what changed of open runs, by number; ``None`` for one that is over.
        receipt: of the call's frames, ``None`` where none is wanted.
    """

    rows: tuple[SpanRow, ...]
    open_runs: Mapping[int, bytes | None]
    receipt: Receipt | None

    @property
    def size_bytes(self) -> int:
        """The bytes of the spans and of the runs."""
        size_bytes = sum([len(row.span) for row in self.rows])
        if self.open_runs:
            size_bytes += sum([len(data) for data in self.open_runs.values() if data is not None])
        return size_bytes

    def settle(self) -> None:
        """Report the frames as settled: nothing can lose the spans any more, or they are lost."""
        if self.receipt is not None:
            self.receipt.settle()


class WaitingRows:
    """A queue of what waits.

    Attributes:
        spans: how many wait; any thread may ask.
        size_bytes: theirs together.
    """

    def __init__(self) -> None:
        self._entries: deque[Waiting] = deque()
        self.spans = 0
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def is_due(self) -> bool:
        """Whether a commit is due, for more waits than goes into a batch."""
        return self.size_bytes > BATCH_BYTES

    def add(self, entry: Waiting) -> None:
        """Append an entry."""
        self._entries.append(entry)
        self.spans += len(entry.rows)
        self.size_bytes += entry.size_bytes

    def forget_runs(self, numbers: Collection[int]) -> None:
        """Let nothing go into the store of what runs took from their calls (rule 4)."""
        entries, self._entries = self._entries, deque()
        self.spans = self.size_bytes = 0
        for entry in entries:
            rows = [row for row in entry.rows if not _is_of(row, numbers)]
            runs = {run: None if run in numbers else kept for run, kept in entry.open_runs.items()}
            self.add(entry._replace(rows=tuple(rows), open_runs=runs))

    def drop_surplus(self) -> int:
        """Drop the oldest until no more wait than may (rule 5); return how many spans went."""
        dropped = 0
        while self.size_bytes > MAX_WAITING_BYTES:
            oldest = self._pop()
            dropped += len(oldest.rows)
            oldest.settle()
        return dropped

    def choose_batch(self) -> list[Waiting]:
        """Choose what is committed next (rule 2); it stays until it is settled."""
        if not self.is_due:  # usual
            return [*self._entries]
        batch: list[Waiting] = []
        size_bytes = 0
        for entry in self._entries:
            if batch and size_bytes + entry.size_bytes > BATCH_BYTES:
                break
            batch.append(entry)
            size_bytes += entry.size_bytes
        return batch

    def settle(self, batch: Sequence[Waiting]) -> None:
        """Remove what was chosen, for it is committed."""
        for _ in batch:
            self._pop().settle()

    def _pop(self) -> Waiting:
        entry = self._entries.popleft()
        self.spans -= len(entry.rows)
        self.size_bytes -= entry.size_bytes
        return entry


def _is_of(row: SpanRow, runs: Collection[int]) -> bool:
    return row.columns.run in runs and row.columns.kind in DERIVED_KINDS


def split_batch(batch: Sequence[Waiting]) -> list[Waiting]:
    """Split a batch into its entries, and one that is alone into its rows (rule 3)."""
    if len(batch) > 1:
        return [*batch]
    return [entry._replace(rows=(row,)) for entry in batch for row in entry.rows]


def join_open_runs(batch: Sequence[Waiting]) -> dict[int, bytes | None]:
    """Join the changes of open runs: of one run the last one counts."""
    joined: dict[int, bytes | None] = {}
    for entry in batch:
        if entry.open_runs:
            joined |= entry.open_runs
    return joined
