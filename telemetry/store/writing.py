"""Writes spans into a store, and notes what became of them.

Functions on an open connection; :class:`telemetry.store.store.Store` calls them.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec.structs import asdict, astuple, replace

from telemetry.facts import COLUMN_NAMES
from telemetry.store.checksum import checksum
from telemetry.store.kept_calls import insert_kept_calls, write_open_runs, zeroing
from telemetry.store.minutes import sum_added
from telemetry.store.parts.families import is_for_family
from telemetry.store.ranges import group_ranges
from telemetry.store.rows import SpanRow
from telemetry.store.schema import transaction
from telemetry.store.tally import count_added, count_moved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from telemetry.store.parts.families import Families
    from telemetry.store.rows import SpanState

_REFUSING: Final = frozenset({sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT_NOTNULL})
"""Result codes of errors that a row causes. A value whose type SQLite does not know is such an
error, too."""

_UNKNOWN_TYPE: Final = "Error binding parameter"

NO_RUNS: Final[Mapping[int, bytes | None]] = MappingProxyType({})
"""No run changed."""


class RefusedRow(ValueError):  # noqa: N818 - names the condition, as those of stores do
    """SQLite takes no such row, now or later; others may be taken."""


@contextmanager
def _judging_rows() -> Iterator[None]:
    """Separate the errors of rows from those of the store, which may pass."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) in _REFUSING or str(error).startswith(
            _UNKNOWN_TYPE
        ):
            raise RefusedRow(type(error).__name__) from None  # its words may hold content
        raise


_APART = 5
"""Fields at the end of a row that are not columns: kept call, pictures, raw answer, columns, bytes.
"""

_COLUMNS = (
    *SpanRow.__struct_fields__[:-_APART],
    *COLUMN_NAMES,
    "seq",
    "size_bytes",
    "state",
    "checksum",
)
"""The values of a span in one table; its bytes and what is kept of its call are in other tables."""

MAX_STATEMENTS = 64
"""Statements that are kept, by the columns that the spans of a commit have: a service needs a few,
and SQLite keeps 128 ready (``sqlite3``, ``cached_statements``)."""

_INSERT_BYTES = "INSERT INTO span_bytes (seq, span) VALUES (?, ?)"


def insert(
    connection: sqlite3.Connection,
    rows: Sequence[SpanRow],
    first_seq: int,
    state: SpanState,
    *,
    families: Families,
    open_runs: Mapping[int, bytes | None] = NO_RUNS,
) -> tuple[list[tuple[int, SpanRow]], int]:
    """Record `rows` from number `first_seq` on, and changes of runs, in one transaction.

    Returns:
        The new rows with their numbers, and how many spans were ever recorded.

    Raises:
        OverflowError, UnicodeEncodeError, RefusedRow: SQLite cannot hold a value; nothing is
            recorded.
    """
    numbered = list(enumerate(rows, first_seq))
    values = [
        (
            *astuple(row)[:-_APART],
            *astuple(row.columns),
            seq,
            len(row.span),
            state.value,
            checksum(row.span),
        )
        for seq, row in numbered
    ]
    statement, parameters = _leave_out_nulls(values)
    zeros = zeroing(connection) if open_runs else nullcontext()
    with zeros, _judging_rows(), transaction(connection):
        if connection.executemany(statement, parameters).rowcount < len(rows):  # some are known
            given = connection.execute("SELECT seq FROM spans WHERE seq >= ?", (first_seq,))
            new = {seq for (seq,) in given}
            numbered = [pair for pair in numbered if pair[0] in new]
        _insert_bytes(connection, numbered, families)
        kept_calls = [(seq, row.kept_call) for seq, row in numbered if row.kept_call is not None]
        if kept_calls:
            insert_kept_calls(connection, kept_calls)
        write_open_runs(connection, open_runs)
        sum_added(connection, [row for _, row in numbered])
        recorded = count_added(connection, {state.value: len(numbered)})
    return numbered, recorded


def _insert_bytes(
    connection: sqlite3.Connection, numbered: Sequence[tuple[int, SpanRow]], families: Families
) -> None:
    """Write the bytes of spans: of most spans whole, of some in parts."""
    whole = []
    for seq, row in numbered:
        conversation = row.columns.conversation
        if conversation is not None and is_for_family(row):
            families.add(connection, seq, conversation, row.span)
        else:
            whole.append((seq, row.span))
    connection.executemany(_INSERT_BYTES, whole)


def _leave_out_nulls(
    values: Sequence[tuple[object, ...]],
) -> tuple[str, Iterable[tuple[object, ...]]]:
    """Make the statement that inserts values of :data:`_COLUMNS`, and its parameters.

    Columns that are NULL in all rows are left out, a third of them: ``sqlite3`` takes longer for
    one NULL than for three texts, because it first searches for an adapter.
    """
    if not values:
        return _write_insert(()), ()
    by_column = [*zip(*values, strict=True)]
    none = (None,) * len(values)
    places = [at for at, column in enumerate(by_column) if column[0] is not None or column != none]
    chosen = [by_column[at] for at in places]
    return _write_insert(tuple(places)), zip(*chosen, strict=True)


@lru_cache(maxsize=MAX_STATEMENTS)
def _write_insert(places: tuple[int, ...]) -> str:
    names = [_COLUMNS[at] for at in places] or _COLUMNS
    return (
        f"INSERT INTO spans ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 - constants
        " ON CONFLICT (span_id) DO NOTHING"
    )


def settle(
    connection: sqlite3.Connection,
    seqs: Iterable[int],
    change: str,
    values: tuple[str | int, ...],
    state: SpanState | None = None,
) -> int:
    """Change pending spans, in one transaction; return how many of `seqs` were pending.

    The `change` is SQL that sets columns, with parameters for `values`.
    """
    if state is not None:
        change = f"state = '{state.value}', {change}"
    with transaction(connection):
        changed = connection.executemany(
            f"UPDATE spans SET {change} WHERE seq BETWEEN ? AND ? AND state = 'pending'",  # noqa: S608 - constants
            [(*values, *ends) for ends in group_ranges(seqs)],
        ).rowcount
        if state is not None:
            count_moved(connection, changed, state)
    return changed


def as_storable(row: SpanRow) -> SpanRow:
    """Change a row so that SQLite can hold it."""
    columns = {name: _as_value(value) for name, value in asdict(row.columns).items()}
    return replace(
        row,
        name=as_text(row.name),
        model=None if row.model is None else as_text(row.model),
        outcome=as_text(row.outcome),
        prompt_tokens=_int64(row.prompt_tokens),
        completion_tokens=_int64(row.completion_tokens),
        total_tokens=_int64(row.total_tokens),
        columns=replace(row.columns, **columns),
    )


def as_text(value: str) -> str:
    """Replace lone surrogates, which JSON can write but UTF-8 cannot."""
    return value.encode("utf-8", "replace").decode()


def _as_value(value: object) -> object:
    if isinstance(value, str):
        return as_text(value)
    if isinstance(value, int):
        return _int64(value)
    return value if isinstance(value, float) else None


def _int64(value: int | None) -> int | None:
    """Leave out a value that SQLite cannot hold: it is not a count, and all rows would fail."""
    return value if value is not None and -(1 << 63) <= value < 1 << 63 else None
