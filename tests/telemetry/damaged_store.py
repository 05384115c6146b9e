"""A store that has something in every table, and one column of it as a failing disk leaves it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from itertools import cycle
from typing import TYPE_CHECKING, Final

from telemetry.raw_answer import RawAnswer, pack_raw_answer
from telemetry.store.pictures import insert_pictures
from telemetry.store.raw_answers import RawRoom, insert_raw_answers
from telemetry.store.rows import CallPicture
from tests.telemetry.conversations.agents import Agents
from tests.telemetry.conversations.talks import answer, calls, result, user

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = (
    "CHAT",
    "COLUMNS",
    "DAMAGED_ROWS",
    "SPARED",
    "SPARED_ROWS",
    "damage_column",
    "list_turns",
    "make_store_with_all",
)

_LONG = "".join(f"line {n}: all that was said before.\n" for n in range(1_000))
"""A text so long that what calls repeat of it is stored once."""

_TOOLS = ("call_Aa1bB2cC3dD4eE5fF6gG7hH8", "call_Zz9yY8xX7wW6vV5uU4tT3sS2")

_AGENT = (
    user(_LONG),
    calls(_TOOLS[0], name="grep"),
    result(_TOOLS[0], "found it"),
    answer("There it is, in the third line of the second file of the folder."),
    user("Thanks, and what of the other one that we talked about yesterday?"),
    calls(_TOOLS[1], name="read_file"),
)
"""A run that is over, and one that waits for the result of its tool."""

CHAT: Final = (
    user("What is there to be seen in the old town on a rainy day?"),
    answer("The cathedral, both museums, and the covered market behind the town hall."),
    user("And for children?"),
    answer("The museum of toys, which has a railway that they may drive themselves."),
    user("How do we get there?"),
)
"""A conversation that no damage is in, and which goes on with its last message."""

DAMAGED_ROWS: Final = 6
"""Rows from the first on that are damaged: a lone call, and those of the agent."""

SPARED: Final = ("0000000000000005", "0000000000000006")
"""The spans of the chat."""

SPARED_ROWS: Final = 3
"""Theirs, and the mark of the first."""

VALUES: Final = (
    "'x'",
    "CAST(x'67ff80' AS TEXT)",
    "NULL",
    "x'00ff'",
    "9e999",
    "-5",
    "1 << 62",
    "''",
)
"""What turned bits make of a value: another type, another length, another size, no UTF-8."""


_LONG_TABLES: Final = frozenset({"spans", "span_bytes", "links"})
"""Tables with a row for each span."""


def list_turns(table: str) -> Sequence[int]:
    """List the values to begin with, so that each of them stands in some row of a table."""
    if table in {*_LONG_TABLES, "minutes"}:
        return (0, 2)
    return range(0, len(VALUES), 2 if table == "parts" else 1)


def make_store_with_all(path: Path) -> None:
    """Make a store with something in each table.

    Each call has its own minute, so that as many minutes as calls can be damaged.
    """
    with Agents(path) as agents:
        agents.call(user("A lone question"), said=answer("A lone answer"), at=0)
        for at in (1, 3, 5):
            agents.call(*_AGENT[:at], said=_AGENT[at], at=60 * at)
        for at in (1, 3):
            agents.call(*CHAT[:at], said=CHAT[at], at=60 * (5 + at))
        agents._store.keep_unobserved(agents.now_ns, {"/v1/files": 3}, agents.now_ns)
    pictures = [
        CallPicture(is_answer=bool(at % 2), message=0, part=at, type="image/gif", data=b"GIF89a")
        for at in range(2)
    ]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        seqs = connection.execute("SELECT seq FROM spans").fetchall()
        insert_pictures(connection, [(seq, pictures) for (seq,) in seqs], 1 << 20)
        raw = pack_raw_answer(
            RawAnswer(
                content_type="text/event-stream",
                content_encoding="",
                first_ns=1,
                waits_ns=(0, 5),
                sizes_bytes=(4, 6),
                left_bytes=0,
                body=b"data: 1\n\n\n",
            )
        )
        insert_raw_answers(connection, [(seq, raw) for (seq,) in seqs], 1 << 20, RawRoom())
    with closing(sqlite3.connect(path)) as connection, connection:
        # A disk knows of no NOT NULL.
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE type = 'table'"
        )


def _list_columns() -> list[tuple[str, str]]:
    """List the columns of each table of a store, but for the numbers that rows lie by.

    Of those that are 0 in every row, and which nothing reads, the first stands for all.
    """
    from telemetry.store.schema import migrate  # noqa: PLC0415 - for this alone

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, 0)
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall()
        return [
            (table, name)
            for (table,) in tables
            if not table.startswith("sqlite_")
            for _, name, kind, _, _, key in connection.execute(f"PRAGMA table_info({table})")
            if not (key and kind == "INTEGER" and table != "minutes")
            and (not name.startswith("took_") or name == "took_0")
        ]


COLUMNS: Final = _list_columns()


def damage_column(whole: Path, path: Path, table: str, column: str, *, turn: int = 0) -> None:
    """Copy a store, and damage a column of it, in each row by another value.

    Args:
        whole: the store.
        path: of the copy.
        table: which.
        column: likewise.
        turn: with which of the values it begins.
    """
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    shutil.copyfile(whole, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        key = {"minutes": "minute", "call_pictures": "seq"}.get(table, "rowid")
        last = DAMAGED_ROWS if table in _LONG_TABLES else 1 << 60
        rows = connection.execute(f"SELECT {key} FROM {table} WHERE {key} <= {last}").fetchall()
        values = cycle((*VALUES[turn:], *VALUES[:turn]))
        for (row,), value in zip(rows, values, strict=False):
            connection.execute(
                f"UPDATE OR IGNORE {table} SET {column} = {value} WHERE {key} = ?", (row,)
            )
