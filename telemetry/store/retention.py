"""Retention: what a store removes by age, by size, and when the disk is full.

Functions on an open connection; :class:`telemetry.store.store.Store` calls them.

Spans that wait for nobody (delivered, rejected, kept) are removed by age; pending spans never are.
If the store is too large, delivered spans are removed first, then rejected ones, then kept ones,
then raw answers, then pictures, and pending spans only when nothing else is left; the oldest of
each go first. On a full disk delivered, rejected and kept spans are removed in that order, then raw
answers and pictures, never pending spans, and no more than the next commits need.

A step of pruning is bounded: a transaction that removes, and one that gives room back to the disk.
Only the folding of a WAL that grew during a long read cannot be divided.

Removing a span also removes its share of the sums by minute (:mod:`telemetry.store.minutes`), what
is kept beside it (:mod:`telemetry.store.kept_calls`, :mod:`telemetry.store.raw_answers`), and its
pictures and parts, unless another span has them, too (:mod:`telemetry.store.pictures`,
:mod:`telemetry.store.parts`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from telemetry.store.kept_calls import remove_kept_calls
from telemetry.store.minutes import sum_removed
from telemetry.store.opening import fold_wal, wal_path
from telemetry.store.parts.sweeping import Sweeping, sweep
from telemetry.store.pictures import (
    find_oldest_contents,
    measure_pictures,
    remove_contents,
    remove_pictures,
)
from telemetry.store.raw_answers import find_oldest, measure_raw_answer, remove_raw_answers
from telemetry.store.rows import SpanState
from telemetry.store.schema import transaction
from telemetry.store.tally import count_removed

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from telemetry.store.rows import Retention

MAX_PRUNE_ROWS = 500
"""Spans that one step of pruning removes: 5 ms for spans of 4 KB."""

MAX_PRUNE_BYTES = 64 << 20
"""Bytes that a step removes, but always one span: 10 ms, because it visits each page of a span."""

MAX_VACUUM_BYTES = 1 << 20
"""Bytes that a step gives back to the disk: 10 ms, and the WAL holds them until it is folded."""

ROOM_BYTES = 8 << 20
"""Free room in the file that a full disk requires: one commit of spans fits into it."""

_FULL_SHARE = 0.9
"""Share of the size limit above which spans are removed. The rest is for the WAL, and for spans
that are added between two prunings. So room is made before it is needed, and new spans take the
place of removed ones: a file at its limit needs no vacuuming."""

_ROW = """
seq, state, max(coalesce(CAST(size_bytes AS INTEGER), 0), 0),
CASE typeof(part) WHEN 'integer' THEN part END
"""
"""In a damaged row a number may be text, which must not keep any row from being removed."""

_EXPIRED = f"""
SELECT {_ROW} FROM spans
WHERE state IN ('delivered', 'kept', 'rejected') AND recorded_ns < ? LIMIT ?
"""  # noqa: S608 - constants

_OLDEST = f"""
SELECT {_ROW} FROM spans WHERE state = ? ORDER BY recorded_ns, seq LIMIT ?
"""  # noqa: S608 - constants

_UNAWAITED = (SpanState.DELIVERED, SpanState.REJECTED, SpanState.KEPT)
"""States of spans that wait for nobody, in the order in which they go."""

_Row: TypeAlias = "tuple[int, str, int, int | None]"
"""Number, state, bytes and part of a span."""


class Surplus(NamedTuple):
    """Spans, or what is kept beside them, for one step to remove.

    Attributes:
        rows: number, state, bytes and part of each span.
        raw_answers: numbers of the spans whose raw answers go; none if there are spans.
        contents: numbers of contents of pictures; none if there are spans or raw answers.
        lost: how many of the spans are still to be sent.
        more: whether further ones are to go.
    """

    rows: Sequence[_Row] = ()
    raw_answers: Sequence[int] = ()
    contents: Sequence[int] = ()
    lost: int = 0
    more: bool = False


def find_surplus(connection: sqlite3.Connection, retention: Retention, now_ns: int) -> Surplus:
    """Find up to :data:`MAX_PRUNE_ROWS` spans, :data:`MAX_PRUNE_BYTES`, beyond the limits."""
    expired = connection.execute(
        _EXPIRED, (now_ns - retention.max_age_ns, MAX_PRUNE_ROWS)
    ).fetchall()
    if expired:
        chosen, _ = _choose(connection, MAX_PRUNE_BYTES, expired)
        return Surplus(rows=chosen, more=True)
    excess_bytes = _used_bytes(connection) - int(retention.max_bytes * _FULL_SHARE)
    if excess_bytes <= 0:
        return Surplus()
    step_bytes = min(excess_bytes, MAX_PRUNE_BYTES)
    oldest = _oldest(connection, _UNAWAITED)
    if not oldest:  # the next step counts what they freed
        if raw_answers := find_oldest(connection, step_bytes):
            return Surplus(raw_answers=raw_answers, more=True)
        if contents := find_oldest_contents(connection, step_bytes):
            return Surplus(contents=contents, more=True)
        oldest = _oldest(connection, (SpanState.PENDING,))
    chosen, stored_bytes = _choose(connection, step_bytes, oldest)
    # Each span of a conversation counts with the bytes stored for it, but mostly frees less,
    # because others share its parts and its pictures: the next step frees the rest.
    frees_less = any(
        part is not None or measure_pictures(connection, seq) for seq, *_, part in chosen
    )
    return Surplus(
        rows=chosen,
        lost=sum(state == SpanState.PENDING for _, state, _, _ in chosen),
        more=bool(chosen) and (stored_bytes < excess_bytes or frees_less),
    )


def remove(connection: sqlite3.Connection, rows: Sequence[_Row]) -> None:
    """Remove these spans, in one transaction."""
    with transaction(connection):
        sum_removed(connection, [seq for seq, *_ in rows])
        remove_kept_calls(connection, [seq for seq, *_ in rows])
        remove_pictures(connection, [seq for seq, *_ in rows])
        remove_raw_answers(connection, [seq for seq, *_ in rows])
        for table in ("spans", "span_bytes"):
            connection.executemany(
                f"DELETE FROM {table} WHERE seq = ?",  # noqa: S608 - constants
                [(seq,) for seq, *_ in rows],
            )
        sweep(connection, [part for *_, part in rows if part is not None])
        count_removed(connection, Counter(state for _, state, *_ in rows))


def remove_beside(
    connection: sqlite3.Connection, raw_answers: Sequence[int], contents: Sequence[int]
) -> None:
    """Remove the raw answers of these spans and these contents of pictures; their calls stay."""
    with transaction(connection):
        remove_raw_answers(connection, raw_answers)
        remove_contents(connection, contents)


def shrink(connection: sqlite3.Connection, path: Path, limit_bytes: int) -> bool:
    """Give some room back if file and WAL are over the limit; true if there is more to give.

    This works only if the WAL can be folded in: otherwise vacuuming would add pages to the WAL, and
    give nothing back to the disk.
    """
    if measure_disk_bytes(path) <= limit_bytes:
        return False
    if not fold_wal(connection) or measure_disk_bytes(path) <= limit_bytes:
        return False
    # As a script: `execute` would stop at the first empty row, after one page.
    pages = MAX_VACUUM_BYTES // _pragma(connection, "page_size")
    connection.executescript(f"PRAGMA incremental_vacuum({pages})")
    fold_wal(connection)
    return _pragma(connection, "freelist_count") > 0 and measure_disk_bytes(path) > limit_bytes


def make_room(connection: sqlite3.Connection) -> None:
    """Make room in the files, so that the next commits need none on a full disk.

    The WAL is folded in, so that it is written from its beginning again, in the blocks that it has.
    It is not cut, because another program would get the blocks.
    """
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    free_bytes = _pragma(connection, "freelist_count") * _pragma(connection, "page_size")
    if free_bytes >= ROOM_BYTES:
        return
    oldest = _oldest(connection, _UNAWAITED)
    chosen, stored_bytes = _choose(connection, ROOM_BYTES - free_bytes, oldest)
    if chosen:
        remove(connection, chosen)
    wanted_bytes = ROOM_BYTES - free_bytes - stored_bytes
    raw_answers = find_oldest(connection, wanted_bytes)
    wanted_bytes -= sum(measure_raw_answer(connection, seq) for seq in raw_answers)
    contents = find_oldest_contents(connection, wanted_bytes)
    if raw_answers or contents:
        remove_beside(connection, raw_answers, contents)
    if chosen or raw_answers or contents:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def measure_disk_bytes(path: Path) -> int:
    """Measure the store at `path`, its write-ahead log included."""
    return _size_bytes(path) + _size_bytes(wal_path(path))


def _used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes in use in the main file. The WAL is not counted: deleting rows does not shrink it."""
    pages = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
    return pages * _pragma(connection, "page_size")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _oldest(connection: sqlite3.Connection, states: Iterable[SpanState]) -> list[_Row]:
    """Find the oldest spans of the first of `states` that has any."""
    for state in states:
        if rows := connection.execute(_OLDEST, (state, MAX_PRUNE_ROWS)).fetchall():
            return rows
    return []


def _choose(
    connection: sqlite3.Connection, limit_bytes: int, rows: Sequence[_Row]
) -> tuple[list[_Row], int]:
    """Choose the first of `rows` for one step; return their stored bytes as well.

    They have up to `limit_bytes` together. Some are left out so that fewer families are swept.
    """
    chosen: list[_Row] = []
    stored_bytes = 0
    sweeping = Sweeping(connection)
    for row in rows:
        if stored_bytes >= limit_bytes:
            break
        seq, _, size_bytes, part = row
        if sweeping.admits(part):
            chosen.append(row)
            stored_bytes += sweeping.measure(seq, part, size_bytes)
            stored_bytes += measure_pictures(connection, seq) + measure_raw_answer(connection, seq)
    return chosen, stored_bytes


def _size_bytes(path: Path) -> int:
    """Return the size of a file, 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
