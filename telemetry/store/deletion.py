"""Deletion of spans that somebody names, and of all traces of them in the files.

Functions on an open connection; :class:`telemetry.store.store.Store` calls them.

What is deleted is overwritten with zeros where it lies, in the pages that stay and in those that
become free (SQLite, ``secure_delete``). The write-ahead log still has it until :func:`compact`
folds the log in and cuts it to nothing, which a reader prevents. If SQLite once moved a row to
another page, a copy may be left in an unused part of the old one: that is gone once :func:`rewrite`
has written the whole file again, and nobody can record meanwhile.

The same transaction removes the span's share of the sums by minute and of the tally, what is kept
beside it (:mod:`telemetry.store.kept_calls`, :mod:`telemetry.store.raw_answers`), and its pictures
and parts, unless another span has them, too (:mod:`telemetry.store.pictures`,
:mod:`telemetry.store.parts`). Content that other spans repeat is theirs, and stays.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry.errors import StoreFull
from telemetry.store.kept_calls import zeroing
from telemetry.store.opening import fold_wal
from telemetry.store.parts.sweeping import Sweeping
from telemetry.store.pictures import measure_pictures
from telemetry.store.ranges import group_ranges
from telemetry.store.raw_answers import measure_raw_answer
from telemetry.store.retention import measure_disk_bytes, remove
from telemetry.store.rows import CompactStep, DeleteStep, SpanState

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

MAX_DELETE_ROWS = 100
"""Spans that one step handles: some milliseconds for spans of 4 KB. A step is short, because the
owner records nothing meanwhile."""

MAX_DELETE_BYTES = 2 << 20
"""Stored bytes that a step deletes, but always one span. The step writes as many, and folds the
write-ahead log in once."""

MAX_COMPACT_BYTES = 1 << 20
"""Bytes that a step gives back to the disk: each page may be moved, and is then written twice.
Content that retention removed is still there until then, or until it is overwritten."""

_NAMED = """
SELECT seq, state, coalesce(CAST(size_bytes AS INTEGER), 0),
    CASE typeof(part) WHEN 'integer' THEN part END
FROM spans WHERE seq BETWEEN ? AND ?
"""


def delete(connection: sqlite3.Connection, seqs: Sequence[int]) -> DeleteStep:
    """Delete the first of the spans with these numbers, whatever their state.

    That is one step, which also sweeps only few conversations. Call it again for the rest.
    """
    looked_at = seqs[:MAX_DELETE_ROWS]
    known: dict[int, tuple[int, str, int, int | None]] = {}
    for ends in group_ranges(looked_at):
        known |= {row[0]: row for row in connection.execute(_NAMED, ends)}
    chosen: dict[int, tuple[int, str, int, int | None]] = {}
    sweeping = Sweeping(connection)
    done = stored_bytes = 0
    for seq in looked_at:
        row = known.get(seq)
        if row is not None:
            _, _, size_bytes, part = row
            own_bytes = sweeping.measure(seq, part, size_bytes)
            own_bytes += measure_pictures(connection, seq) + measure_raw_answer(connection, seq)
            if chosen and stored_bytes + own_bytes > MAX_DELETE_BYTES:
                break
            if not sweeping.admits(part):
                break
            chosen[seq] = row
            stored_bytes += own_bytes
        done += 1
    if chosen:
        with zeroing(connection):
            remove(connection, [*chosen.values()])
    return DeleteStep(
        looked_at=done,
        deleted=len(chosen),
        unsent=sum(state == SpanState.PENDING for _, state, *_ in chosen.values()),
    )


def compact(connection: sqlite3.Connection, path: Path, *, gives_back: bool) -> CompactStep:
    """Fold the write-ahead log in and cut it; give some free pages back if asked."""
    is_folded = fold_wal(connection)
    # If the log cannot be cut, the pages that are moved would only make it longer.
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
    """Write the file again, without free pages and old copies: some seconds for each gigabyte.

    Raises:
        StoreFull: there is no room for two more copies in its folder and one in the folder for
            temporary files; nothing was changed.
    """
    used_bytes = measure_disk_bytes(path) - measure_free_bytes(connection)
    for folder, copies in ((path.resolve().parent, 2), (_find_temporary_folder(), 1)):
        if shutil.disk_usage(folder).free < copies * used_bytes:
            raise StoreFull(
                f"to write the store {path} again takes {copies * used_bytes >> 20} MiB of free"
                f" room in {folder}; make room there"
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
    """Measure the empty pages of the file."""
    (pages,) = connection.execute("PRAGMA freelist_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(page_bytes)
