"""Reading a store while its owner writes it: what ``spantap traces`` shows.

Each call is one short read: a long one would keep the owner's WAL from being folded in
(``design.md`` section 3). Numbers (``seq``) say where the next call goes on, so that spans added or
pruned in between are neither shown twice nor skipped.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, Self

from telemetry.schema import connect_reader, explain_sqlite_errors
from telemetry.store_rows import SpanState, SpanSummary, StoredSpan
from telemetry.unobserved_calls import read_unobserved

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

    from telemetry.unobserved_calls import UnobservedCalls

__all__ = ("MAX_LISTED", "StoreReader")

MAX_LISTED = 1000
"""Spans per call, however many are asked for: some 400 KB of summaries, a read of milliseconds."""

_COLUMNS = tuple(field.name for field in dataclasses.fields(SpanSummary))

_SPAN_BYTES = "SELECT span FROM span_bytes WHERE seq = ?"

_HEXADECIMAL = frozenset("0123456789abcdef")


class StoreReader:
    """A read-only view of a store; use it as a context manager, or :meth:`close` it.

    It is for one thread. It sees what its owner has committed when a method is called.
    """

    def __init__(self, path: Path) -> None:
        """Open the store at `path`.

        Raises:
            StoreError: one of its children says why it cannot be read.
        """
        self.path = path
        self._connection = connect_reader(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def latest(self, limit: int, before: int | None = None) -> list[SpanSummary]:
        """The newest spans, newest first.

        Args:
            limit: how many at most, up to :data:`MAX_LISTED`.
            before: only spans with a smaller ``seq``: the last of the page before.

        Raises:
            StoreError: the store cannot be read.
        """
        where, values = ("TRUE", ()) if before is None else ("seq < ?", (before,))
        return self._summaries(f"{where} ORDER BY seq DESC", values, limit)

    def after(self, seq: int, limit: int = MAX_LISTED) -> list[SpanSummary]:
        """The spans recorded after number `seq`, oldest first; 0 begins with the first.

        Raises:
            StoreError: the store cannot be read.
        """
        return self._summaries("seq > ? ORDER BY seq", (seq,), limit)

    def find(self, id_prefix: str, limit: int = 10) -> list[StoredSpan]:
        """The spans whose span id or trace id begins with `id_prefix`, newest first, with bytes.

        Args:
            id_prefix: hexadecimal digits of either case; anything else finds nothing.
            limit: how many at most; small, because each may be megabytes.

        Raises:
            StoreError: the store cannot be read.
        """
        prefix = id_prefix.lower()
        if not prefix or not _HEXADECIMAL.issuperset(prefix):
            return []
        # "g" sorts right after the last hexadecimal digit.
        ids = (prefix, f"{prefix}g")
        summaries = self._summaries(
            "span_id >= ? AND span_id < ? OR trace_id >= ? AND trace_id < ? ORDER BY seq DESC",
            (*ids, *ids),
            limit,
        )
        with self._use() as connection:
            spans = [
                (summary, connection.execute(_SPAN_BYTES, (summary.seq,)).fetchone())
                for summary in summaries
            ]
        # A span pruned between the two reads is gone.
        return [StoredSpan(summary=summary, span=row[0]) for summary, row in spans if row]

    def unobserved(self) -> list[UnobservedCalls]:
        """The calls that were relayed and not observed, the most frequent path first.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._use() as connection:
            return read_unobserved(connection)

    def _summaries(
        self, where: str, values: tuple[int | str, ...], limit: int
    ) -> list[SpanSummary]:
        with self._use() as connection:
            rows = connection.execute(
                f"SELECT {', '.join(_COLUMNS)} FROM spans WHERE {where} LIMIT ?",  # noqa: S608 - constants
                (*values, max(0, min(limit, MAX_LISTED))),
            ).fetchall()
        return [_summary(dict(zip(_COLUMNS, row, strict=True))) for row in rows]

    @contextlib.contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        with explain_sqlite_errors(self.path):
            yield self._connection


def _summary(columns: dict[str, Any]) -> SpanSummary:
    return SpanSummary(**{**columns, "state": SpanState(columns["state"])})
