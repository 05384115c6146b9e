"""Reading a store while its owner writes it: what ``spantap traces`` shows.

Rules:

1. No read is long: it would keep the owner's WAL from being folded in (``design.md`` section 3).
   Many spans are read in pages of :data:`MAX_LISTED`, their bytes one by one.
2. The next read goes on from a number (``seq``), so that spans added or pruned in between are
   neither shown twice nor skipped.
3. The cost of a listed span does not depend on how many there are: it is found by its number.
4. Bytes that are not what was recorded are not shown (:mod:`telemetry.store.checksum`); the last
   error says so.
5. The spans of a launch are found by an index (:mod:`telemetry.launch_labels`). A store that no
   owner has migrated yet has neither launches, columns of calls nor sums by minute.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Self

from telemetry.call_columns import COLUMN_NAMES
from telemetry.launch_labels import build_label, find_range
from telemetry.store.checksum import DAMAGED_WORDS, is_whole
from telemetry.store.minutes import read_minutes
from telemetry.store.opening import connect_reader, explain_sqlite_errors
from telemetry.store.rows import CallColumns, SpanState, SpanSummary, StoredSpan
from telemetry.store.unobserved_calls import read_unobserved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from telemetry.store.minutes import MinuteSums
    from telemetry.store.unobserved_calls import UnobservedCalls

__all__ = ("MAX_LISTED", "StoreReader")

MAX_LISTED = 1000
"""Summaries per read: some 400 KB, a read of milliseconds."""

_SPAN_ID_DIGITS = 16

_OWN_COLUMNS = tuple(field.name for field in dataclasses.fields(SpanSummary))[:-1]
"""The columns that are fields of a summary; those of its last one come behind them."""

_COLUMNS = (*_OWN_COLUMNS, *COLUMN_NAMES)

_SPAN_BYTES = """
SELECT CAST(span AS BLOB), {checksum} FROM span_bytes JOIN spans USING (seq) WHERE seq = ?
"""

_COLUMN_NAMES = "SELECT name FROM pragma_table_info('spans')"

_OF_NAME = "launch >= ? AND launch < ? AND (launch = ? OR launch >= ?) AND "
"""By the index, from the label without a number to the end of those that have one, and none of
those that merely begin alike."""

_LAST_SEQ = (1 << 63) - 1

_HEXADECIMAL = frozenset("0123456789abcdef")


class StoreReader:
    """A read-only view of a store; use it as a context manager, or :meth:`close` it.

    It is for one thread. It sees what its owner has committed when a method is called, which raises
    :exc:`~telemetry.errors.StoreError` if the store cannot be read.
    """

    def __init__(self, path: Path) -> None:
        """Open the store at `path`.

        Raises:
            StoreError: one of its children says why it cannot be read.
        """
        self.path = path
        self._connection = connect_reader(path)
        with explain_sqlite_errors(path):
            # A store that no owner has migrated yet lacks some.
            columns = {name for (name,) in self._connection.execute(_COLUMN_NAMES)}
        self._has_launches = "launch" in columns
        self._columns = ", ".join(
            name if name in columns else f"NULL AS {name}" for name in _COLUMNS
        )
        checksum = "checksum" if "checksum" in columns else "NULL"
        self._span_bytes = _SPAN_BYTES.format(checksum=checksum)
        self._of_launch: tuple[str, tuple[str, ...]] = ("", ())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def choose_launch(self, name: str, number: str = "") -> None:
        """List the spans of the launches of that name alone from now on, or of one of them."""
        if not self._has_launches:
            self._of_launch = ("0 AND ", ())
        elif number:
            self._of_launch = ("launch = ? AND ", (build_label(name, number),))
        else:
            bare, (first, end) = build_label(name), find_range(name)
            self._of_launch = (_OF_NAME, (bare, end, bare, first))

    def count(self) -> int:
        """Count the spans that are listed: all, or those of the launches that were chosen."""
        condition, values = self._of_launch
        with explain_sqlite_errors(self.path):
            (count,) = self._connection.execute(
                f"SELECT count(*) FROM spans WHERE {condition} 1",  # noqa: S608 - constants
                values,
            ).fetchone()
        return int(count)

    def newest(self, limit: int) -> Iterator[StoredSpan]:
        """Yield up to `limit` of the newest spans, the oldest first, each read when needed."""
        page = self.latest(limit)
        if not page:
            return
        newest = page[0].seq
        oldest = page[-1].seq
        limit -= len(page)
        while page := self.latest(limit, before=oldest):
            oldest = page[-1].seq
            limit -= len(page)
        for stored in self.since(oldest - 1):
            if stored.summary.seq > newest:
                return
            yield stored

    def since(self, seq: int) -> Iterator[StoredSpan]:
        """Yield the spans recorded after number `seq`, oldest first, each read when needed."""
        while page := self.after(seq):
            seq = page[-1].seq
            yield from self._with_bytes(page)

    def latest(self, limit: int, before: int = _LAST_SEQ) -> list[SpanSummary]:
        """Read up to `limit` (:data:`MAX_LISTED`) spans, newest first, without their bytes.

        `before`: only spans with a smaller ``seq``, the last of the page before.
        """
        condition, values = self._of_launch
        return self._summaries(f"{condition}seq < ? ORDER BY seq DESC", (*values, before), limit)

    def after(self, seq: int, limit: int = MAX_LISTED) -> list[SpanSummary]:
        """Read the spans recorded after number `seq`, oldest first, without their bytes."""
        condition, values = self._of_launch
        return self._summaries(f"{condition}seq > ? ORDER BY seq", (*values, seq), limit)

    def find(self, id_prefix: str, limit: int = 10) -> list[StoredSpan]:
        """Find the spans whose span id or trace id begins with `id_prefix`, newest first.

        A whole span id finds its span alone, and at once. Anything else reads all rows: of 100,000
        spans in some 20 ms, once. What is not hexadecimal, of either case, finds nothing.
        """
        prefix = id_prefix.lower()
        if not prefix or not _HEXADECIMAL.issuperset(prefix):
            return []
        if len(prefix) == _SPAN_ID_DIGITS and (
            exact := self._summaries("span_id = ?", (prefix,), 1)
        ):
            return list(self._with_bytes(exact))
        # "g" sorts right after the last hexadecimal digit.
        ids = (prefix, f"{prefix}g")
        summaries = self._summaries(
            "span_id >= ? AND span_id < ? OR trace_id >= ? AND trace_id < ? ORDER BY seq DESC",
            (*ids, *ids),
            limit,
        )
        return list(self._with_bytes(summaries))

    def _with_bytes(self, summaries: Iterable[SpanSummary]) -> Iterator[StoredSpan]:
        """Read the bytes of spans; one that was pruned meanwhile is left out."""
        for summary in summaries:
            with explain_sqlite_errors(self.path):
                row = self._connection.execute(self._span_bytes, (summary.seq,)).fetchone()
            if row is None:
                continue
            if is_whole(*row):
                yield StoredSpan(summary=summary, span=row[0])
            else:
                damaged = dataclasses.replace(summary, last_error=DAMAGED_WORDS)
                yield StoredSpan(summary=damaged, span=b"")

    def unobserved(self, since_ns: int = 0) -> list[UnobservedCalls]:
        """Read the calls that were relayed and not observed, the most frequent path first.

        `since_ns`: only those of proxies that began later.
        """
        with explain_sqlite_errors(self.path):
            return read_unobserved(self._connection, since_ns)

    def minutes(self, since: int, until: int) -> list[MinuteSums]:
        """Read the sums of some minutes (:func:`telemetry.store.minutes.read_minutes`)."""
        with explain_sqlite_errors(self.path):
            return read_minutes(self._connection, since, until)

    def _summaries(
        self, where: str, values: tuple[int | str, ...], limit: int
    ) -> list[SpanSummary]:
        with explain_sqlite_errors(self.path):
            rows = self._connection.execute(
                f"SELECT {self._columns} FROM spans WHERE {where} LIMIT ?",  # noqa: S608 - constants
                (*values, max(0, min(limit, MAX_LISTED))),
            ).fetchall()
        return [_summary(row) for row in rows]


def _summary(row: tuple[Any, ...]) -> SpanSummary:
    own = dict(zip(_OWN_COLUMNS, row, strict=False))
    own["state"] = SpanState(own["state"])
    told = dict(zip(COLUMN_NAMES, row[len(_OWN_COLUMNS) :], strict=True))
    return SpanSummary(**own, columns=CallColumns(**told))
