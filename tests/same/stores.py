"""Stores that versions write, that somebody damaged, and that an old version left behind."""

from __future__ import annotations

import contextlib
import itertools
import random
import sqlite3
import time
from typing import TYPE_CHECKING

from tests.same.traffic import Upstream, call

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.same.launch import Version
    from tests.same.traffic import Exchange

__all__ = ("damage", "grow", "write_store")

_DAMAGES = ("NULL", "x'00ff'", "9e999", "0.5", "'x'", "-5", "1 << 62", "'{'")
_KILLED_AFTER_SECONDS = (0.6, 0.9)
"""While a process starts, and when it has just opened its store."""

_PAUSE_SECONDS = 0.02
"""Between two calls, so that one has ended for telemetry before the next begins: only a later call
continues a conversation."""


def write_store(
    version: Version, store: Path, exchanges: list[Exchange], settings: Mapping[str, str]
) -> Iterator[tuple[bytes, bytes]]:
    """Send exchanges through a version's proxy; yield what each side got of them."""
    with (
        Upstream(exchanges).running() as upstream,
        version.serving(store, upstream.url, settings) as server,
    ):
        for exchange in exchanges:
            upstream.received.clear()
            answer = call(server.port, exchange.request)
            yield b"".join(upstream.received), answer
            if settings.get("SPANTAP_CONVERSATIONS_AS") != "off":
                time.sleep(_PAUSE_SECONDS)


def damage(store: Path) -> None:
    """Damage a few rows in each column of each table, the same ones each time."""
    dice = random.Random(46)
    values = itertools.cycle(_DAMAGES)
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            described = connection.execute(f"PRAGMA table_info({table})").fetchall()
            columns = [column for _, column, *_ in described]
            keys = [column for _, column, *_, is_key in described if is_key] or ["rowid"]
            rows = connection.execute(f"SELECT {', '.join(keys)} FROM {table}").fetchall()
            where = " AND ".join(f"{key} IS ?" for key in keys)
            for column in columns:
                for row in dice.sample(rows, min(len(rows) // 20, 3)):
                    with contextlib.suppress(sqlite3.IntegrityError):
                        connection.execute(
                            f"UPDATE {table} SET {column} = {next(values)} WHERE {where}", row
                        )


def grow(version: Version, store: Path) -> None:
    """Let a version open a store as its owner: killed twice, then to its end."""
    for seconds in _KILLED_AFTER_SECONDS:
        version.kill_soon(store, seconds)
    with version.serving(store, "http://127.0.0.1:9", {}):
        pass
