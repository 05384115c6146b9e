"""What a store is, in a few numbers, found without changing a byte of it or of its folder."""

from __future__ import annotations

import contextlib
import glob
from dataclasses import dataclass
from typing import TYPE_CHECKING

from telemetry.facts import DERIVED_KINDS
from telemetry.store.calls import IS_DERIVED
from telemetry.store.deletion import measure_free_bytes
from telemetry.store.opening import explain_sqlite_errors, wal_path
from telemetry.store.pictures import count_pictures
from telemetry.store.raw_answers import count_raw_answers
from telemetry.store.rows import SpanState
from telemetry.store.schema import MIGRATIONS
from telemetry.store.spans_table import name_spans
from telemetry.store.survey import open_untouched
from telemetry.store.tally import COUNT_STATES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_DERIVED = f"SELECT kind, count(*) FROM {{spans}} WHERE {IS_DERIVED} GROUP BY kind"  # noqa: S608 - constants

_ENDS = """
SELECT (SELECT start_ns FROM spans ORDER BY seq LIMIT 1),
    (SELECT start_ns FROM spans ORDER BY seq DESC LIMIT 1)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDescription:
    """What a store is.

    Attributes:
        schema_version: how many migrations it has had.
        newest_schema_version: how many migrations this version of spantap knows; an owner runs
            those that are missing.
        counts: spans by state, every state with its number.
        derived: spans that are not calls, by kind: every such kind with its number.
        oldest_ns: when the call began that was recorded first, among those in the store; ``None``
            if it has no spans.
        newest_ns: when the call began that was recorded last.
        pictures: how many pictures are kept beside spans, each content once.
        picture_bytes: their size.
        raw_answers: how many calls have the true bytes of their answers beside their spans.
        raw_answer_bytes: their size, compressed.
        file_bytes: the size of the file.
        wal_bytes: the size of its write-ahead log.
        free_bytes: the size of the file's empty pages.
    """

    schema_version: int
    newest_schema_version: int
    counts: Mapping[str, int]
    derived: Mapping[str, int]
    oldest_ns: int | None
    newest_ns: int | None
    pictures: int
    picture_bytes: int
    raw_answers: int
    raw_answer_bytes: int
    file_bytes: int
    wal_bytes: int
    free_bytes: int


def describe_store(path: Path) -> StoreDescription:
    """Look at the store at `path`; its owner may be writing.

    Raises:
        StoreError: it cannot be read.
    """
    with contextlib.closing(open_untouched(path)) as connection, explain_sqlite_errors(path):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        found = dict(connection.execute(COUNT_STATES).fetchall())
        statement = _DERIVED.format(spans=name_spans(connection))
        derived = dict(connection.execute(statement).fetchall())
        oldest_ns, newest_ns = connection.execute(_ENDS).fetchone()
        pictures, picture_bytes = count_pictures(connection)
        raw_answers, raw_answer_bytes = count_raw_answers(connection)
        return StoreDescription(
            schema_version=int(version),
            newest_schema_version=len(MIGRATIONS),
            counts={state.value: found.get(state.value, 0) for state in SpanState},
            derived={kind: derived.get(kind, 0) for kind in DERIVED_KINDS},
            oldest_ns=oldest_ns if isinstance(oldest_ns, int) else None,
            newest_ns=newest_ns if isinstance(newest_ns, int) else None,
            pictures=pictures,
            picture_bytes=picture_bytes,
            raw_answers=raw_answers,
            raw_answer_bytes=raw_answer_bytes,
            file_bytes=_size_bytes(path),
            wal_bytes=_size_bytes(wal_path(path)),
            free_bytes=measure_free_bytes(connection),
        )


def find_set_aside(path: Path) -> Sequence[Path]:
    """Find the files of damaged stores that were moved aside (:mod:`telemetry.store.rescue`)."""
    target = path.resolve()
    return sorted(target.parent.glob(f"{glob.escape(target.name)}.damaged-*[0-9Z]"))


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
