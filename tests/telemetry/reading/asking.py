"""Words of the filter language as what they ask; and what is below a reading of calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from telemetry.finding.filter import parse_filter
from telemetry.reading.sqlite.conditions import write_where

if TYPE_CHECKING:
    import sqlite3

    from telemetry.finding.where import Where
    from telemetry.reading.calls import Calls
    from telemetry.reading.sqlite.engine import SqliteEngine


def where(words: str) -> Where:
    """Which rows a filter asks for."""
    return parse_filter(words, now_ns=0).where()


def write(words: str) -> tuple[str, tuple[str | int | float, ...]]:
    """The same in SQL."""
    return write_where(where(words), "spans")


def connection_of(calls: Calls) -> sqlite3.Connection:
    """The connection by which the calls of a store are read."""
    return cast("SqliteEngine", calls._engine)._connection
