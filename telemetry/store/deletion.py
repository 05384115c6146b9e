"""Deletion of spans that somebody names, and of what is left of them in the files.

Functions on an open connection; :class:`telemetry.store.store.Store` calls them.

Rules:

1. A step is short, for its owner records nothing meanwhile: it looks at :data:`MAX_DELETE_ROWS`
   spans and deletes :data:`MAX_DELETE_BYTES` of them at most, as they are stored, but always one;
   few enough conversations are swept. Who deletes more asks again.
2. What is deleted is overwritten with zeros where it lies, in the pages that stay as well as in
   those that become free (SQLite, ``secure_delete``). The write-ahead log has it until that is
   folded in and cut to nothing, by :func:`compact`; no reader may be in the way. Where SQLite once
   moved a row to another page, a copy may be left in an unused part of the old one: that is gone
   once :func:`rewrite` has written the whole file anew, which nobody can record beside.
3. A span goes with its share of the sums by minute and of the tally, with what is kept beside it
   (:mod:`telemetry.store.links`), and with what no other span has of the parts that it is made of
   (:mod:`telemetry.store.parts`), in one transaction. What others repeat of it is theirs, and
   stays.
4. Compacting gives free pages back to the disk, :data:`MAX_COMPACT_BYTES` a step. What retention
   removed lies there as it was until then, or until it is written over.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry.errors import StoreFull
from telemetry.store.links import zeroing
from telemetry.store.opening import fold_wal
from telemetry.store.parts.sweeping import Sweeping
from telemetry.store.retention import measure_disk_bytes, remove
from telemetry.store.rows import CompactStep, DeleteStep, SpanState
from telemetry.store.runs import group_runs

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

MAX_DELETE_ROWS = 100
"""Spans that one step looks at: some milliseconds for spans of 4 KB."""

MAX_DELETE_BYTES = 2 << 20
"""Bytes that a step deletes: as many are written, and the write-ahead log is folded in once."""

MAX_COMPACT_BYTES = 1 << 20
"""Bytes that a step gives back: each page of them may be moved, and is written twice then."""

_NAMED = """
SELECT seq, state, coalesce(CAST(size_bytes AS INTEGER), 0),
    CASE typeof(part) WHEN 'integer' THEN part END
FROM spans WHERE seq BETWEEN ? AND ?
"""


def delete(connection: sqlite3.Connection, seqs: Sequence[int]) -> DeleteStep:
    """Delete the first of the spans with these numbers, whatever their state (rule 1)."""
    looked_at = seqs[:MAX_DELETE_ROWS]
    known: dict[int, tuple[int, str, int, int | None]] = {}
    for run in group_runs(looked_at):
        known |= {row[0]: row for row in connection.execute(_NAMED, run)}
    chosen: dict[int, tuple[int, str, int, int | None]] = {}
    sweeping = Sweeping(connection)
    done = stored_bytes = 0
    for seq in looked_at:
        row = known.get(seq)
        if row is not None:
            _, _, size_bytes, part = row
            own_bytes = sweeping.measure(seq, part, size_bytes)
            if chosen and stored_bytes + own_bytes > MAX_DELETE_BYTES:
                break
            if not sweeping.admits(part):
                break
            chosen[seq] = row
            stored_bytes += own_bytes
        done += 1
    if chosen:
        with zeroing(connection):  # rule 2
            remove(connection, [*chosen.values()])
    return DeleteStep(
        looked_at=done,
        deleted=len(chosen),
        unsent=sum(state == SpanState.PENDING for _, state, *_ in chosen.values()),
    )


def compact(connection: sqlite3.Connection, path: Path, *, gives_back: bool) -> CompactStep:
    """Fold the write-ahead log in and cut it; give some free pages back if asked (rule 4)."""
    is_folded = fold_wal(connection)
    # To a log that cannot be cut the pages that are moved would only be added.
    if is_folded and gives_back and measure_free_bytes(connection):
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        # As a script: `execute` would stop at the first empty row, after one page.
        connection.executescript(f"PRAGMA incremental_vacuum({MAX_COMPACT_BYTES // page_bytes})")
        is_folded = fold_wal(connection)
    return CompactStep(
        is_folded=is_folded,
        free_bytes=measure_free_bytes(connection),
        size_bytes=measure_disk_bytes(path),
    )


def rewrite(connection: sqlite3.Connection, path: Path) -> CompactStep:
    """Write the file anew, without free pages and old copies: some seconds for each gigabyte.

    Raises:
        StoreFull: there is no room for another two copies in its folder, and one in that for
            temporary files; nothing was changed.
    """
    used_bytes = measure_disk_bytes(path) - measure_free_bytes(connection)
    for folder, copies in ((path.resolve().parent, 2), (_find_temporary_folder(), 1)):
        if shutil.disk_usage(folder).free < copies * used_bytes:
            raise StoreFull(
                f"to write the store {path} anew takes {copies * used_bytes >> 20} MiB of free room"
                f" in {folder}; make room there"
            )
    connection.execute("VACUUM")
    return compact(connection, path, gives_back=False)


def _find_temporary_folder() -> Path:
    """Find where SQLite puts temporary files (sqlite.org/tempfiles.html, section 5)."""
    named = (os.environ.get("SQLITE_TMPDIR"), os.environ.get("TMPDIR"))
    for folder in (*named, "/var/tmp", "/usr/tmp", "/tmp"):  # noqa: S108 - its order
        if folder and Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK):
            return Path(folder)
    return Path()


def measure_free_bytes(connection: sqlite3.Connection) -> int:
    """Measure the pages of the file that nothing is in."""
    (pages,) = connection.execute("PRAGMA freelist_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(page_bytes)
