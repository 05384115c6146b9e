"""How spans are written into a store, and what became of them.

Functions on an open connection; :class:`telemetry.store.store.Store` calls them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from telemetry.store.checksum import checksum
from telemetry.store.schema import transaction
from telemetry.store.tally import count_added, count_moved

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from telemetry.store.rows import SpanRow, SpanState

__all__ = ("as_storable", "as_text", "insert", "settle")

_INSERT = """
INSERT INTO spans (
    seq, span_id, trace_id, name, start_ns, end_ns, model, status, outcome,
    prompt_tokens, completion_tokens, total_tokens, size_bytes, state, recorded_ns, checksum
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (span_id) DO NOTHING
"""

_INSERT_BYTES = "INSERT INTO span_bytes (seq, span) VALUES (?, ?)"


def insert(
    connection: sqlite3.Connection, rows: Sequence[SpanRow], first_seq: int, state: SpanState
) -> tuple[list[tuple[int, SpanRow]], int]:
    """Record `rows` from number `first_seq` on, in one transaction.

    Returns:
        Those that were new, with their numbers; and how many spans were ever recorded.

    Raises:
        OverflowError, UnicodeEncodeError: SQLite cannot hold what is in one; none is recorded.
    """
    numbered = list(enumerate(rows, first_seq))
    values = [
        (
            seq,
            row.span_id,
            row.trace_id,
            row.name,
            row.start_ns,
            row.end_ns,
            row.model,
            row.status,
            row.outcome,
            row.prompt_tokens,
            row.completion_tokens,
            row.total_tokens,
            len(row.span),
            state.value,
            row.recorded_ns,
            checksum(row.span),
        )
        for seq, row in numbered
    ]
    with transaction(connection):
        if connection.executemany(_INSERT, values).rowcount < len(rows):  # some are known
            given = connection.execute("SELECT seq FROM spans WHERE seq >= ?", (first_seq,))
            new = {seq for (seq,) in given}
            numbered = [pair for pair in numbered if pair[0] in new]
        connection.executemany(_INSERT_BYTES, [(seq, row.span) for seq, row in numbered])
        recorded = count_added(connection, {state.value: len(numbered)})
    return numbered, recorded


def settle(
    connection: sqlite3.Connection,
    seqs: Iterable[int],
    change: str,
    values: tuple[str | int, ...],
    state: SpanState | None = None,
) -> int:
    """Change pending spans, in one transaction; how many of `seqs` were pending.

    Args:
        connection: to the store.
        seqs: the numbers of the spans.
        change: what to set; its parameters are `values`.
        values: see there.
        state: what they are from now on; pending where not given.
    """
    if state is not None:
        change = f"state = '{state.value}', {change}"
    with transaction(connection):
        changed = connection.executemany(
            f"UPDATE spans SET {change} WHERE seq BETWEEN ? AND ? AND state = 'pending'",  # noqa: S608 - constants
            [(*values, *run) for run in _runs(seqs)],
        ).rowcount
        if state is not None:
            count_moved(connection, changed, state)
    return changed


def as_storable(row: SpanRow) -> SpanRow:
    """A row as SQLite can hold it."""
    return replace(
        row,
        name=as_text(row.name),
        model=None if row.model is None else as_text(row.model),
        outcome=as_text(row.outcome),
        prompt_tokens=_int64(row.prompt_tokens),
        completion_tokens=_int64(row.completion_tokens),
        total_tokens=_int64(row.total_tokens),
    )


def as_text(value: str) -> str:
    """`value` as SQLite takes it: JSON can spell lone surrogates, UTF-8 cannot."""
    return value.encode("utf-8", "replace").decode()


def _int64(value: int | None) -> int | None:
    """`value` where SQLite can hold it: a larger one is no count, and would cost all the rows."""
    return value if value is not None and -(1 << 63) <= value < 1 << 63 else None


def _runs(seqs: Iterable[int]) -> list[tuple[int, int]]:
    """Numbers as ranges (first, last): a statement for each, usually one for them all."""
    runs: list[tuple[int, int]] = []
    first = last = 0
    for seq in sorted(seqs):
        if runs and seq <= last + 1:
            runs[-1] = (first, seq)
        else:
            first = seq
            runs.append((first, first))
        last = seq
    return runs
