"""The tables of the store, and what a file with them says of itself.

Rules:

1. A store has the ``application_id`` :data:`APPLICATION_ID`, and its ``user_version`` counts the
   migrations it has had. Any other database is refused, never altered.
2. A migration runs whole or not at all. Once released it keeps its number and its statements,
   because a store that has run it never runs it again. A new one takes the next free number, one
   more than :data:`MIGRATIONS` has. Migrations that only add a column for a fact are not written
   here: the fact names its migration (:class:`telemetry.fact.Fact`, ``schema``).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from telemetry.errors import StoreForeign, StoreTooNew
from telemetry.facts import COLUMN_FACTS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from telemetry.fact import Fact

APPLICATION_ID = 0x5370_5470
"""``SpTp``: tells a store from any other SQLite file."""

_WRITTEN: Final[Mapping[int, tuple[str, ...]]] = {
    1: (
        # One row per span. AUTOINCREMENT: a number is never given twice, so that a reader that
        # follows the store by number misses nothing when the newest rows are pruned.
        """
        CREATE TABLE spans (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            span_id TEXT NOT NULL UNIQUE,
            trace_id TEXT NOT NULL,
            name TEXT NOT NULL,
            start_ns INTEGER NOT NULL,
            end_ns INTEGER NOT NULL,
            model TEXT,
            status TEXT NOT NULL,
            outcome TEXT NOT NULL,
            prompt_tokens INTEGER,
            completion_tokens INTEGER,
            total_tokens INTEGER,
            size_bytes INTEGER NOT NULL,
            state TEXT NOT NULL,
            attempts INTEGER NOT NULL DEFAULT 0,
            next_try_ns INTEGER NOT NULL DEFAULT 0,
            last_error TEXT,
            recorded_ns INTEGER NOT NULL
        )
        """,
        # The bytes lie apart: a change of state would write them again (a third more CPU and twice
        # the WAL at 200 KB a span), and lists and counts would read them.
        "CREATE TABLE span_bytes (seq INTEGER PRIMARY KEY, span BLOB NOT NULL)",
        "CREATE INDEX spans_by_state ON spans (state, recorded_ns)",
        "CREATE INDEX spans_by_trace ON spans (trace_id)",
    ),
    2: (
        # How often a span failed by itself while the backend accepted others: such a span is tried
        # alone (telemetry.export.suspicion). Few do, so the index holds only them.
        "ALTER TABLE spans ADD COLUMN failed_alone INTEGER NOT NULL DEFAULT 0",
        """
        CREATE INDEX spans_alone ON spans (next_try_ns)
        WHERE failed_alone > 0 AND state = 'pending'
        """,
    ),
    3: (
        # Trace ids are random: in a large store every span wrote another page of this index,
        # a third of the cost of recording it. To find a trace, all rows are read in some 0.1 s.
        "DROP INDEX spans_by_trace",
    ),
    4: (
        # Of the bytes as recorded (telemetry.store.checksum); older spans have none.
        "ALTER TABLE spans ADD COLUMN checksum INTEGER",
        # One row (telemetry.store.tally).
        """
        CREATE TABLE tally (
            store_id TEXT NOT NULL,
            recorded INTEGER NOT NULL,
            pending INTEGER NOT NULL,
            delivered INTEGER NOT NULL,
            rejected INTEGER NOT NULL,
            kept INTEGER NOT NULL
        )
        """,
        """
        INSERT INTO tally SELECT
            lower(hex(randomblob(8))),
            count(*),
            count(*) FILTER (WHERE state = 'pending'),
            count(*) FILTER (WHERE state = 'delivered'),
            count(*) FILTER (WHERE state = 'rejected'),
            count(*) FILTER (WHERE state = 'kept')
        FROM spans
        """,
    ),
    5: (
        # By run of the proxy and path (telemetry.store.unobserved_calls).
        """
        CREATE TABLE unobserved (
            run_ns INTEGER NOT NULL,
            path TEXT NOT NULL,
            calls INTEGER NOT NULL,
            last_ns INTEGER NOT NULL,
            UNIQUE (run_ns, path)
        )
        """,
    ),
    6: (
        # The label of the launch (telemetry.launch_labels). Most spans have none, and so are not
        # in the index.
        "ALTER TABLE spans ADD COLUMN launch TEXT",
        "CREATE INDEX spans_by_launch ON spans (launch, seq) WHERE launch IS NOT NULL",
    ),
    7: (
        # Columns of a call (telemetry.facts). No row is touched, however many there are: in
        # older ones they are NULL.
        "ALTER TABLE spans ADD COLUMN kind TEXT",
        "ALTER TABLE spans ADD COLUMN parent_span_id TEXT",
        "ALTER TABLE spans ADD COLUMN conversation INTEGER",
        "ALTER TABLE spans ADD COLUMN run INTEGER",
        "ALTER TABLE spans ADD COLUMN turn INTEGER",
        "ALTER TABLE spans ADD COLUMN link_rule TEXT",
        "ALTER TABLE spans ADD COLUMN ttft_ns INTEGER",
        "ALTER TABLE spans ADD COLUMN cost_usd REAL",
        "ALTER TABLE spans ADD COLUMN cached_tokens INTEGER",
        "ALTER TABLE spans ADD COLUMN finish_reason TEXT",
        "ALTER TABLE spans ADD COLUMN error_type TEXT",
        "ALTER TABLE spans ADD COLUMN http_status INTEGER",
        "ALTER TABLE spans ADD COLUMN api TEXT",
        "ALTER TABLE spans ADD COLUMN upstream TEXT",
        "ALTER TABLE spans ADD COLUMN client TEXT",
        "ALTER TABLE spans ADD COLUMN session TEXT",
        "ALTER TABLE spans ADD COLUMN user TEXT",
        "ALTER TABLE spans ADD COLUMN request_id TEXT",
        "ALTER TABLE spans ADD COLUMN retry INTEGER",
        "ALTER TABLE spans ADD COLUMN streamed INTEGER",
        "ALTER TABLE spans ADD COLUMN anomalies TEXT",
        "ALTER TABLE spans ADD COLUMN tools TEXT",
        "ALTER TABLE spans ADD COLUMN tool_calls INTEGER",
        "ALTER TABLE spans ADD COLUMN new_messages INTEGER",
        "ALTER TABLE spans ADD COLUMN preview TEXT",
        # Sums by minute, model and upstream (telemetry.store.minutes), of later spans alone.
        # Nothing counts durations in `took_0` and the others any more.
        """
        CREATE TABLE minutes (
            minute INTEGER NOT NULL,
            model TEXT NOT NULL,
            upstream TEXT NOT NULL,
            calls INTEGER NOT NULL,
            errors INTEGER NOT NULL,
            prompt_tokens INTEGER NOT NULL,
            completion_tokens INTEGER NOT NULL,
            cost_usd REAL NOT NULL,
            took_0 INTEGER NOT NULL,
            took_1 INTEGER NOT NULL,
            took_2 INTEGER NOT NULL,
            took_3 INTEGER NOT NULL,
            took_4 INTEGER NOT NULL,
            took_5 INTEGER NOT NULL,
            took_6 INTEGER NOT NULL,
            took_7 INTEGER NOT NULL,
            took_8 INTEGER NOT NULL,
            took_9 INTEGER NOT NULL,
            took_10 INTEGER NOT NULL,
            took_11 INTEGER NOT NULL,
            took_12 INTEGER NOT NULL,
            took_13 INTEGER NOT NULL,
            took_14 INTEGER NOT NULL,
            took_15 INTEGER NOT NULL,
            PRIMARY KEY (minute, model, upstream)
        ) WITHOUT ROWID
        """,
        "ALTER TABLE tally ADD COLUMN minutes_after INTEGER NOT NULL DEFAULT 0",
        "UPDATE tally SET minutes_after = coalesce((SELECT max(seq) FROM spans), 0)",
    ),
    8: (
        # Further sums (telemetry.store.minutes). Those that are there lack them, and begin anew.
        "DELETE FROM minutes",
        "ALTER TABLE minutes ADD COLUMN priced INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE minutes ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE minutes ADD COLUMN output_ms INTEGER NOT NULL DEFAULT 0",
        "UPDATE tally SET minutes_after = coalesce((SELECT max(seq) FROM spans), 0)",
    ),
    9: (
        # What is kept beside spans, so that conversations continue after a restart
        # (telemetry.store.kept_calls), and the key of digests in it.
        "CREATE TABLE links (seq INTEGER PRIMARY KEY, data BLOB NOT NULL)",
        "CREATE TABLE open_runs (run INTEGER PRIMARY KEY, data BLOB NOT NULL)",
        "CREATE TABLE digest_key (key BLOB NOT NULL)",
        # By the run of an agent (telemetry.reading.runs). Numbers of runs rise with
        # those of rows, so that what is added lies together. Calls of no run are not in it.
        "CREATE INDEX spans_by_run ON spans (run, seq) WHERE run IS NOT NULL",
        # What spans of a conversation repeat (telemetry.store.parts). Those that are there stay as
        # they are. The sizes come first: they are read without the bytes behind them.
        """
        CREATE TABLE parts (
            id INTEGER PRIMARY KEY,
            seq INTEGER NOT NULL,
            sizes BLOB NOT NULL,
            data BLOB NOT NULL
        )
        """,
        "ALTER TABLE spans ADD COLUMN part INTEGER",
    ),
    10: (
        # By conversation (telemetry.reading.conversations). A conversation has the
        # number of its first call, so that these rise with the rows', and what is added lies
        # together.
        """
        CREATE INDEX spans_by_conversation ON spans (conversation, seq)
        WHERE conversation IS NOT NULL
        """,
    ),
    12: (
        # Further sums (telemetry.store.minutes). Calls from before have neither, which is 0.
        "ALTER TABLE minutes ADD COLUMN saved_usd REAL NOT NULL DEFAULT 0",
        "ALTER TABLE minutes ADD COLUMN list_usd REAL NOT NULL DEFAULT 0",
    ),
    13: (
        # Pictures of calls (telemetry.store.pictures). Sizes and digests are read from the index,
        # without the pages that hold the contents.
        """
        CREATE TABLE pictures (
            id INTEGER PRIMARY KEY,
            digest BLOB NOT NULL,
            size_bytes INTEGER NOT NULL,
            data BLOB NOT NULL
        )
        """,
        "CREATE UNIQUE INDEX pictures_by_digest ON pictures (digest, size_bytes)",
        """
        CREATE TABLE call_pictures (
            seq INTEGER NOT NULL,
            is_answer INTEGER NOT NULL,
            message INTEGER NOT NULL,
            part INTEGER NOT NULL,
            type TEXT,
            size_bytes INTEGER NOT NULL,
            digest BLOB,
            left_out TEXT,
            PRIMARY KEY (seq, is_answer, message, part)
        ) WITHOUT ROWID
        """,
        """
        CREATE INDEX call_pictures_by_digest ON call_pictures (digest, seq)
        WHERE digest IS NOT NULL
        """,
    ),
    14: (
        # True bytes of answers (telemetry.store.raw_answers). Sizes are summed from the index,
        # without the pages that hold the bytes.
        """
        CREATE TABLE raw_answers (
            seq INTEGER PRIMARY KEY,
            size_bytes INTEGER NOT NULL,
            data BLOB NOT NULL
        )
        """,
        "CREATE INDEX raw_answers_by_size ON raw_answers (size_bytes)",
    ),
    15: (
        # A further sum (telemetry.store.minutes). It is NULL in the minutes that are there.
        "ALTER TABLE minutes ADD COLUMN unpriced INTEGER",
    ),
    17: (
        # A further sum. Calls from before have no such part of their cost, which is 0.
        "ALTER TABLE minutes ADD COLUMN input_usd REAL NOT NULL DEFAULT 0",
    ),
}
"""By their numbers, the statements of the migrations that do more than add columns of facts."""


def list_migrations(
    written: Mapping[int, tuple[str, ...]], facts: Iterable[Fact]
) -> tuple[tuple[str, ...], ...]:
    """List all migrations by their numbers, from 1.

    Args:
        written: the statements of those that are written out.
        facts: each may name the number of the migration that adds its column. Several may share it.

    Raises:
        ValueError: a number is left out, or a fact names one that is written out.
    """
    added: dict[int, list[str]] = {}
    for fact in facts:
        if fact.schema:
            added.setdefault(fact.schema, []).append(
                f"ALTER TABLE spans ADD COLUMN {fact.column_sql}"
            )
    if both := sorted(added.keys() & written.keys()):
        raise ValueError(f"facts name the migrations {both}, which are written out")
    migrations = {**written, **{number: tuple(added[number]) for number in added}}
    if missing := sorted({*range(1, max(migrations) + 1)} - migrations.keys()):
        raise ValueError(f"no migration has the number {missing[0]}")
    return tuple(migrations[number] for number in sorted(migrations))


MIGRATIONS: tuple[tuple[str, ...], ...] = list_migrations(_WRITTEN, COLUMN_FACTS)
"""The statements of each migration; the file's ``user_version`` counts those it has had."""


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Make all writes inside one: committed at the end, or undone on any error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # Some errors (disk full) have rolled back already; the first error is what is raised.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return how many migrations the file has had; 0 for an empty one.

    Raises:
        StoreForeign: it is not a store (rule 1).
        StoreTooNew: its schema is newer than :data:`MIGRATIONS`.
    """
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        return 0
    if application_id != APPLICATION_ID:
        raise StoreForeign(f"{path} is another program's database; name another file")
    if version > len(MIGRATIONS):
        raise StoreTooNew(
            f"the store {path} was written by a newer spantap (schema {version}, this one knows"
            f" {len(MIGRATIONS)}); use that version, or name another file"
        )
    return int(version)


def migrate(connection: sqlite3.Connection, version: int) -> bool:
    """Run the migrations after the first `version`, each whole (rule 2); true if there were any."""
    for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
        with transaction(connection):
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number}")
    return version < len(MIGRATIONS)
