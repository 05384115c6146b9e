"""Searching for texts in the bytes of spans, from the newest back.

Rules (``docs/contract/page.md#texts``):

1. No read is long, for it would keep the owner's write-ahead log from being folded in: a step ends
   after :data:`STEP_SPANS` spans, :data:`STEP_NUMBERS` numbers or :data:`STEP_SECONDS`, but for the
   one span that it looks at. Between two steps nothing is held open.
2. Each step tells what it found, and how far back the search has come. It goes by number: what is
   recorded meanwhile is newer than where it began, and what is pruned is gone.
3. A span is found if it fulfils the condition on its columns and holds every text
   (:mod:`telemetry.store.wanted_text`). What is stored once is searched once
   (:mod:`telemetry.store.parts.piece_search`).
4. Bytes that are not what was recorded are not found (:mod:`telemetry.store.checksum`).
5. No index is used: one that the condition fits would have the spans sorted by number, all at once.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from telemetry.reading.engine import LAST_SEQ, SearchStep
from telemetry.reading.sqlite.walking import find_newest, find_oldest
from telemetry.store.checksum import is_whole
from telemetry.store.parts.piece_search import PieceSearch
from telemetry.store.parts.recipe import RECIPE_MARK
from telemetry.store.spans_table import name_spans
from telemetry.store.wanted_text import WantedText

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence

STEP_SPANS = 200
"""Spans per step: few enough that hits come as they are found."""

STEP_SECONDS = 0.05
"""Time per step, some 25 MB of spans: soon enough for a person, and no long read."""

STEP_NUMBERS = 20_000
"""Numbers per step, whose columns are read in some milliseconds where none fits."""

# CROSS: the planner keeps this order of the tables.
_READ = """
SELECT seq, CAST(span AS BLOB), checksum
FROM {spans} CROSS JOIN span_bytes USING (seq)
WHERE seq BETWEEN ? AND ? AND ({where}) ORDER BY seq DESC LIMIT ?
"""

# Not with the rest: to find the last column of a row takes a twentieth of a search for plain texts.
_PART = """
SELECT part, CAST(size_bytes AS INTEGER) FROM {spans} WHERE seq = ? AND part IS NOT NULL
"""

_TIME_BACK_TO = "SELECT start_ns FROM spans WHERE seq >= ? ORDER BY seq LIMIT 1"


def search(
    connection: sqlite3.Connection,
    texts: Sequence[str],
    *,
    where: str = "1",
    values: Sequence[str | int | float] = (),
    before: int = LAST_SEQ,
    monotonic_ns: Callable[[], int] = time.monotonic_ns,
) -> Iterator[SearchStep]:
    """Search the spans of a store, newest first, in bounded steps.

    Args:
        connection: to a store, for reading.
        texts: a span has to hold each of them; none is empty.
        where: a condition on the columns of ``spans``, such as a filter's.
        values: of the parameters of `where`.
        before: only spans with a smaller number, such as ``back_to`` of an earlier search.
        monotonic_ns: the clock that bounds a step.

    Yields:
        Each step when it has ended; at least one.

    Raises:
        sqlite3.Error: the store cannot be read.
    """
    reading = _Search(connection, texts, where, values)
    at, is_done = before - 1, False
    while not is_done:
        oldest = find_oldest(connection) or 0
        at = find_newest(connection, at)  # over a gap, however long
        since = max(oldest, at - STEP_NUMBERS + 1)
        hits, back_to = reading.step(since, at, monotonic_ns)
        at = back_to - 1
        is_done = at < oldest
        moment = connection.execute(_TIME_BACK_TO, (back_to,)).fetchone()
        yield SearchStep(
            hits=tuple(hits),
            back_to=back_to,
            back_to_ns=moment[0] if moment and isinstance(moment[0], int) else None,
            spans=reading.spans,
            size_bytes=reading.size_bytes,
            is_done=is_done,
        )


class _Search:
    """A search under way.

    Attributes:
        spans: how many spans it has read.
        size_bytes: how many bytes.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        texts: Sequence[str],
        where: str,
        values: Sequence[str | int | float],
    ) -> None:
        self._connection = connection
        self._wanted = [WantedText(text) for text in texts]
        self._pieces = PieceSearch(connection, self._wanted)
        self._statement = _READ.format(
            spans=name_spans(connection, uses_indexes=False), where=where
        )
        self._values = values
        self._part_of = _PART.format(spans=name_spans(connection))
        self.spans = self.size_bytes = 0

    def step(
        self, since: int, until: int, monotonic_ns: Callable[[], int]
    ) -> tuple[list[int], int]:
        """Search the spans with these numbers; return the hits, and the last number read."""
        until_ns = monotonic_ns() + int(STEP_SECONDS * 1e9)
        hits: list[int] = []
        values = (since, until, *self._values, STEP_SPANS)
        cursor = self._connection.execute(self._statement, values)
        with contextlib.closing(cursor):  # the read ends here, though rows are left
            for count, (seq, span, checksum) in enumerate(cursor, 1):
                self.spans += 1
                if self._is_hit(seq, span, checksum):
                    hits.append(seq)
                if count == STEP_SPANS or monotonic_ns() >= until_ns:
                    return hits, seq
        return hits, since

    def _is_hit(self, seq: int, span: object, checksum: object) -> bool:
        if not isinstance(span, bytes):  # a disk damaged it
            return False
        if span[:1] == RECIPE_MARK and (
            row := self._connection.execute(self._part_of, (seq,)).fetchone()
        ):
            part, size_bytes = row
            self.size_bytes += size_bytes if isinstance(size_bytes, int) else 0
            return isinstance(part, int) and is_whole(self._pieces.find(part, span), checksum)
        self.size_bytes += len(span)
        lowered = span.lower()
        return all(text.is_in(lowered) for text in self._wanted) and is_whole(span, checksum)
