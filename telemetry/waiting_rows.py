"""Rows that wait for the store, and what goes into one commit.

What a call brings is committed together: its row, the rows of other spans, and what changed of open
runs (R8).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from telemetry.facts import DERIVED_KINDS
from telemetry.store.rows import LeftOut

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from telemetry.observing.source import Receipt
    from telemetry.store.rows import SpanRow

MAX_WAITING_BYTES = 64 * 1024 * 1024
"""The most bytes of spans and open runs that wait while the store is unavailable: a few thousand
long chats. Each call of a run brings everything that is kept of the run."""

BATCH_BYTES = 8 * 1024 * 1024
"""The most bytes of spans that are committed together, so that a batch fits a disk with little
room. If more wait, a commit is due at once: a backlog of frames does not become a backlog of spans.
"""

MAX_WAITING_BESIDE_BYTES = 32 * 1024 * 1024
"""The most bytes of pictures and raw answers that wait while the store is unavailable. For more,
the oldest are given up, and their spans are not."""


class Waiting(NamedTuple):
    """What is committed together.

    Attributes:
        rows: the row of a call, and those of other spans that it brings.
        open_runs: what changed of open runs, by number; ``None`` for a run that is over.
        receipt: the receipt of the call's frames; ``None`` if none is wanted.
    """

    rows: tuple[SpanRow, ...]
    open_runs: Mapping[int, bytes | None]
    receipt: Receipt | None

    @property
    def size_bytes(self) -> int:
        """The bytes of the spans and of the open runs."""
        size_bytes = sum([len(row.span) for row in self.rows])
        if self.open_runs:
            size_bytes += sum([len(data) for data in self.open_runs.values() if data is not None])
        return size_bytes

    @property
    def beside_bytes(self) -> int:
        """The bytes of the pictures and the raw answers."""
        size_bytes = 0
        for row in self.rows:
            if row.raw is not None:
                size_bytes += len(row.raw)
            for picture in row.pictures:
                if picture.data is not None:
                    size_bytes += len(picture.data)
        return size_bytes

    def settle(self) -> None:
        """Report the frames as settled: the spans are safe, or given up."""
        if self.receipt is not None:
            self.receipt.settle()


class WaitingRows:
    """A queue of what waits.

    Attributes:
        spans: how many spans wait; any thread may ask.
        size_bytes: the bytes of all entries, without what is kept beside their spans.
        beside_bytes: the bytes of that: pictures and raw answers.
    """

    def __init__(self) -> None:
        self._entries: deque[Waiting] = deque()
        self.spans = self.size_bytes = self.beside_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def is_due(self) -> bool:
        """Whether a commit is due, because more waits than goes into a batch."""
        return self.size_bytes + self.beside_bytes > BATCH_BYTES

    def add(self, entry: Waiting) -> None:
        """Append an entry."""
        self._entries.append(entry)
        self.spans += len(entry.rows)
        self.size_bytes += entry.size_bytes
        self.beside_bytes += entry.beside_bytes

    def forget_runs(self, numbers: Collection[int]) -> None:
        """Drop what runs took from their calls, because somebody deleted a span of them.

        Neither the spans of these runs nor their open state go into the store. The spans of their
        calls do.
        """
        entries, self._entries = self._entries, deque()
        self.spans = self.size_bytes = self.beside_bytes = 0
        for entry in entries:
            rows = [row for row in entry.rows if not _is_of(row, numbers)]
            runs = {run: None if run in numbers else kept for run, kept in entry.open_runs.items()}
            self.add(entry._replace(rows=tuple(rows), open_runs=runs))

    def drop_surplus(self) -> int:
        """Drop the oldest until the limit is kept (R5); return how many spans were dropped."""
        dropped = 0
        if self.beside_bytes > MAX_WAITING_BESIDE_BYTES:
            self._drop_beside()
        while self.size_bytes > MAX_WAITING_BYTES:
            oldest = self._pop()
            dropped += len(oldest.rows)
            oldest.settle()
        return dropped

    def _drop_beside(self) -> None:
        """Drop the oldest pictures and raw answers until their limit is kept; pictures say so."""
        for at, entry in enumerate(self._entries):
            if self.beside_bytes <= MAX_WAITING_BESIDE_BYTES:
                break
            if gone_bytes := entry.beside_bytes:
                rows = tuple(map(_without_beside, entry.rows))
                self._entries[at] = entry._replace(rows=rows)
                self.beside_bytes -= gone_bytes

    def choose_batch(self) -> list[Waiting]:
        """Choose the oldest entries for the next commit, at least one. They stay until settled."""
        if not self.is_due:  # as most of the time
            return [*self._entries]
        batch: list[Waiting] = []
        size_bytes = 0
        for entry in self._entries:
            entry_bytes = entry.size_bytes + entry.beside_bytes
            if batch and size_bytes + entry_bytes > BATCH_BYTES:
                break
            batch.append(entry)
            size_bytes += entry_bytes
        return batch

    def settle(self, batch: Sequence[Waiting]) -> None:
        """Remove what was chosen, because it is committed."""
        for _ in batch:
            self._pop().settle()

    def _pop(self) -> Waiting:
        entry = self._entries.popleft()
        self.spans -= len(entry.rows)
        self.size_bytes -= entry.size_bytes
        self.beside_bytes -= entry.beside_bytes
        return entry


def _is_of(row: SpanRow, runs: Collection[int]) -> bool:
    return row.columns.run in runs and row.columns.kind in DERIVED_KINDS


def _without_beside(row: SpanRow) -> SpanRow:
    pictures = (
        replace(picture, data=None, left_out=picture.left_out or LeftOut.NO_MEMORY)
        for picture in row.pictures
    )
    return replace(row, pictures=tuple(pictures), raw=None)


def split_batch(batch: Sequence[Waiting]) -> list[Waiting]:
    """Split a batch into its entries, or a single entry into its rows.

    So what makes the store fail can be given up alone.
    """
    if len(batch) > 1:
        return [*batch]
    return [entry._replace(rows=(row,)) for entry in batch for row in entry.rows]


def join_open_runs(batch: Sequence[Waiting]) -> dict[int, bytes | None]:
    """Join the changes of open runs. The last change of a run counts."""
    joined: dict[int, bytes | None] = {}
    for entry in batch:
        if entry.open_runs:
            joined |= entry.open_runs
    return joined
