"""Rescues a damaged store: it is set aside whole, and whatever can be read is kept.

Nothing is overwritten: the file and its companions are renamed to ``<store>.damaged-<UTC>``, where
``sqlite3 <file> .recover`` may find more than we do.

Spans that exist only here (pending, then rejected, then kept) are carried over to the new store
under their numbers, as far as they can be read and are what was recorded. Content that they repeat
is stored once there, too. What is kept beside them is carried over as well, as far as it can be
read (:mod:`telemetry.store.kept_calls`, :mod:`telemetry.store.pictures`,
:mod:`telemetry.store.raw_answers`). Sums by minute (:mod:`telemetry.store.minutes`) begin again
after them. No number is given twice, not even that of a span that was not carried over: in the new
store a number means the same span, or none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from telemetry.facts import COLUMN_NAMES
from telemetry.store.checksum import is_whole
from telemetry.store.kept_calls import copy_kept_calls
from telemetry.store.minutes import begin_anew
from telemetry.store.opening import explain_os_errors, open_file
from telemetry.store.parts.families import Families
from telemetry.store.parts.part_reader import PartReader
from telemetry.store.parts.recipe import FAMILY_BITS
from telemetry.store.pictures import copy_pictures
from telemetry.store.raw_answers import copy_raw_answers
from telemetry.store.rows import SpanState, SpanStatus, SpanSummary
from telemetry.store.schema import APPLICATION_ID, transaction
from telemetry.store.tally import count_added, read_tally

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from telemetry.store.tally import Tally

MAX_DAMAGED_KEPT = 2
"""The newest damaged stores that stay; the oldest is removed. Each may be as large as the store's
limit."""

MAX_CARRY_SECONDS = 10.0
"""How long recording waits while spans are carried over: long enough for some 900 MB of small
spans. Frames queue meanwhile."""

_COMMIT_ROWS = 200
"""Spans per transaction while carrying over: if the disk fills, earlier ones stay."""

_MAX_SEQ = 1 << 53
"""A greater number is damage: after one near 2**63 no span could be added."""

_MAGIC = b"SQLite format 3\0"
_APPLICATION_ID_AT = 68
"""The place of a database's ``application_id`` (SQLite, "Database File Format", 1.3)."""

_COMPANIONS = ("-shm", "-wal")

_STAMP = re.compile(r"\d{8}T\d{6}Z(-\d+)?")

_COLUMNS = tuple(
    field.name
    for field in dataclasses.fields(SpanSummary)
    if field.name not in {"next_try_ns", "launch", "columns"}
)
"""Columns that every schema has, except for the time of the next try: that wait is over."""

_LATER_COLUMNS = ("launch", *COLUMN_NAMES)
"""Further columns that are carried over if the schema has them; checksum and bytes are read
separately."""

# No index is used, because it may be damaged ("+" keeps the planner from it as well). In this order
# of the tables a span whose bytes cannot be read does not hide those after it.
_READ = f"""
SELECT {{part}}, {", ".join(_COLUMNS)}, {{later}}, {{checksum}}, span
FROM spans NOT INDEXED CROSS JOIN span_bytes USING (seq)
WHERE seq BETWEEN ? AND ? AND +state = ? ORDER BY seq
"""  # noqa: S608 - constants

_STATUSES = get_args(SpanStatus)

_COLUMN_NAMES = "SELECT name FROM pragma_table_info('spans')"

_HAS_TALLY = "SELECT 1 FROM sqlite_master WHERE name = 'tally'"

_CARRIED = (SpanState.PENDING, SpanState.REJECTED, SpanState.KEPT)
"""States of spans that exist only here, the most valuable first."""

# A row that breaks the new store's constraints is damaged, and only it is left out.
_WRITE = f"""
INSERT OR IGNORE INTO spans ({", ".join((*_COLUMNS, *_LATER_COLUMNS, "checksum"))})
VALUES ({", ".join("?" * len((*_COLUMNS, *_LATER_COLUMNS, "checksum")))})
"""  # noqa: S608 - constants


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOver:
    """The spans that could be saved from a damaged store.

    Attributes:
        spans: how many.
        complete: everything that was there was read and written.
        missing: how many more spans the store had by its tally, if the tally can be read.
        tally: that tally.
    """

    spans: int
    complete: bool
    missing: int = 0
    tally: Tally | None = dataclasses.field(default=None, compare=False)


def is_marked_as_store(path: Path) -> bool:
    """Tell whether the file at `path` says in its head that it is a store, even if damaged."""
    try:
        with path.open("rb") as file:
            head = file.read(_APPLICATION_ID_AT + 4)
    except OSError:
        return False
    return head.startswith(_MAGIC) and head[_APPLICATION_ID_AT:] == APPLICATION_ID.to_bytes(
        4, "big"
    )


def set_aside(path: Path) -> Path:
    """Rename the store at `path`, to which nobody writes; return its new path.

    If `path` is a symbolic link, its target is renamed, and the link stays.

    Raises:
        StoreUnavailable: the folder cannot be written.
    """
    target = path.resolve()
    with explain_os_errors(path):
        damaged = _free_name(target)
        # The file comes last, because SQLite would remove a WAL that it finds beside a new file.
        for suffix in (*_COMPANIONS, ""):
            with contextlib.suppress(FileNotFoundError):
                moved = Path(f"{target}{suffix}").rename(f"{damaged}{suffix}")
                moved.chmod(0o600)
        _forget_oldest(target, damaged)
    return damaged


def carry_over(damaged: Path, connection: sqlite3.Connection, last_seq: int) -> CarriedOver:
    """Copy spans from a store that was set aside into a new one.

    `last_seq` is the greatest number of a span, as far as is known.

    Raises:
        sqlite3.Error: the new store cannot be written at all.
    """
    source = _open_damaged(damaged)
    try:
        return copy_spans(source, connection, last_seq)
    finally:
        if source is not None:
            source.close()


def _open_damaged(damaged: Path) -> sqlite3.Connection | None:
    """Open what was set aside; ``None`` if nothing of it can be read."""
    with contextlib.suppress(sqlite3.Error), open_file(damaged, "ro") as source:
        source.execute("SELECT 1 FROM sqlite_master").fetchall()
        return source
    return None


def copy_spans(
    source: sqlite3.Connection | None, connection: sqlite3.Connection, last_seq: int
) -> CarriedOver:
    """Copy spans from an open store, if any, into another."""
    reading = _Reading(source, last_seq, time.monotonic() + MAX_CARRY_SECONDS)
    with transaction(connection):
        connection.execute("DELETE FROM sqlite_sequence WHERE name = 'spans'")
        connection.execute(
            "INSERT INTO sqlite_sequence (name, seq) VALUES ('spans', ?)", (reading.last_seq,)
        )
        begin_anew(connection, reading.last_seq)
    spans = 0
    families = Families()
    rows = reading.rows()
    try:
        while batch := list(itertools.islice(rows, _COMMIT_ROWS)):
            with transaction(connection):
                written = _write(connection, batch, families)
                count_added(connection, written)
            spans += written.total()
        if source is not None:
            copy_kept_calls(source, connection)
            copy_pictures(source, connection)
            copy_raw_answers(source, connection)
    except sqlite3.Error:
        reading.complete = False
    missing = max(0, reading.expected - spans)
    return CarriedOver(spans=spans, complete=reading.complete, missing=missing, tally=reading.tally)


class _Reading:
    """Reads around damage: if a range of numbers fails, its halves are tried.

    Numbers have gaps of any length, so trying single numbers might take for ever, and skipping some
    would lose spans that are whole.
    """

    def __init__(self, source: sqlite3.Connection | None, last_seq: int, deadline: float) -> None:
        self._source = source
        self._deadline = deadline
        self.last_seq = last_seq
        self.complete = source is not None
        self.expected = 0
        self.tally: Tally | None = None
        self._read = _read_later((), "NULL")
        self._parts = None if source is None else PartReader(source)
        if source is not None:
            source.text_factory = _decode
            source.set_progress_handler(self._is_late, 10_000)
            self.last_seq = max((last_seq, *self._greatest_seqs(source)))
            # An older schema has neither checksums nor counts, nor all columns.
            with contextlib.suppress(sqlite3.Error, TypeError):  # it may be damaged, too
                if source.execute(_HAS_TALLY).fetchone() is not None:
                    names = [name for (name,) in source.execute(_COLUMN_NAMES)]
                    self._read = _read_later(names, "checksum")
                    self.tally = read_tally(source)
                    self.expected = sum(self.tally.counts[state] for state in _CARRIED)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield rows that are whole, each after its part, the most valuable states first."""
        if self._source is None:
            return
        for state in _CARRIED:
            ranges = [(1, self.last_seq)]
            while ranges and not self._is_late():
                low, high = ranges.pop()
                try:
                    for part, *row in self._source.execute(self._read, (low, high, state)):
                        low = row[0] + 1
                        row[-1] = self._put_together(part, row[-1])
                        if _is_whole(row):
                            yield (part, *row)
                        else:
                            self.complete = False
                except sqlite3.Error:
                    self.complete = False
                    if low < high:
                        middle = (low + high) // 2
                        ranges += [(middle + 1, high), (low, middle)]
            self.complete = self.complete and not ranges

    def _put_together(self, part: object, stored: object) -> object:
        """Return the bytes of a span; a part that cannot be read costs only this span."""
        with contextlib.suppress(sqlite3.Error):
            return self._parts.read(part, stored) if self._parts is not None else stored
        return None

    def _greatest_seqs(self, source: sqlite3.Connection) -> Iterator[int]:
        """Yield the last number from each table that knows it, as far as they can be read."""
        for table in ("sqlite_sequence", "spans"):
            try:
                (found,) = source.execute(f"SELECT max(seq) FROM {table}").fetchone()  # noqa: S608 - constants
            except sqlite3.Error:
                self.complete = False
                continue
            if isinstance(found, int) and found < _MAX_SEQ:
                yield found

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline


def _read_later(names: Collection[str], checksum: str) -> str:
    """The statement that reads spans of a table with these names."""
    part, *later = (name if name in names else "NULL" for name in ("part", *_LATER_COLUMNS))
    return _READ.format(part=part, later=", ".join(later), checksum=checksum)


def _write(
    connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]], families: Families
) -> Counter[str]:
    """Write rows that were read; count those that were new, by state."""
    written = Counter[str]()
    state_at = _COLUMNS.index("state")
    for part, *row in rows:
        if connection.execute(_WRITE, row[:-1]).rowcount:
            if isinstance(part, int):
                families.add(connection, row[0], part >> FAMILY_BITS, row[-1])
            else:
                bytes_row = (row[0], row[-1])
                connection.execute("INSERT INTO span_bytes (seq, span) VALUES (?, ?)", bytes_row)
            written[row[state_at]] += 1
    return written


def _is_whole(row: Sequence[object]) -> bool:
    """Tell whether the values of a row that can be checked fit together."""
    *values, recorded, span = row
    known = dict(zip(_COLUMNS, values, strict=False))
    return (
        known["status"] in _STATUSES
        and isinstance(span_id := known["span_id"], str)
        and len(span_id) == 16
        and isinstance(span, bytes)
        and len(span) == known["size_bytes"]
        and is_whole(span, recorded)
    )


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _free_name(target: Path) -> Path:
    """Find a name beside `target` that neither a file nor a companion has."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for number in itertools.count(1):
        name = Path(f"{target}.damaged-{stamp}" + (f"-{number}" if number > 1 else ""))
        if not any(Path(f"{name}{suffix}").exists() for suffix in ("", *_COMPANIONS)):
            return name
    raise AssertionError


def _forget_oldest(target: Path, newest: Path) -> None:
    """Remove all except :data:`MAX_DAMAGED_KEPT`; their names have the time."""
    prefix = f"{target.name}.damaged-"
    older = sorted(
        file
        for file in target.parent.iterdir()
        if file != newest
        and file.name.startswith(prefix)
        and _STAMP.fullmatch(file.name.removeprefix(prefix))
    )
    for file in older[: max(0, len(older) + 1 - MAX_DAMAGED_KEPT)]:
        for suffix in (*_COMPANIONS, ""):
            Path(f"{file}{suffix}").unlink(missing_ok=True)
