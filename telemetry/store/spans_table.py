"""The table ``spans``, with every column, as what a statement reads ``FROM``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telemetry.facts import COLUMN_NAMES

if TYPE_CHECKING:
    import sqlite3

NEWER_COLUMNS: Final = ("checksum", "launch", *COLUMN_NAMES, "part")
"""Columns that a store may lack because no owner has migrated it yet."""

_COLUMN_NAMES = "SELECT name FROM pragma_table_info('spans')"


def name_spans(connection: sqlite3.Connection, *, uses_indexes: bool = True) -> str:
    """Name the table of spans so that a column that it lacks is ``NULL`` in every row.

    Args:
        connection: to a store, for reading.
        uses_indexes: rows may be found by an index; otherwise they are found by number alone, and
            come in that order without being sorted.

    Raises:
        sqlite3.Error: the store cannot be read.
    """
    table = "spans" if uses_indexes else "spans NOT INDEXED"
    present = {name for (name,) in connection.execute(_COLUMN_NAMES)}
    missing = [f"NULL AS {name}" for name in NEWER_COLUMNS if name not in present]
    # SQLite reads this as the table itself: nothing is made of all its rows.
    return f"(SELECT *, {', '.join(missing)} FROM {table})" if missing else table  # noqa: S608 - constants
