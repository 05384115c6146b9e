"""The columns of a call in the store (``telemetry.facts``)."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry.facts import COLUMN_FACTS, COLUMN_NAMES, NO_COLUMNS
from telemetry.reading.stored_calls import open_calls
from telemetry.store import schema
from telemetry.store.opening import connect_owner
from telemetry.store.rescue import carry_over, set_aside
from telemetry.store.schema import MIGRATIONS
from telemetry.store.store import Store
from telemetry.store.writing import as_storable
from tests.telemetry.damage import fold, make_older
from tests.telemetry.span_rows import FULL_COLUMNS, make_row, make_rows

if TYPE_CHECKING:
    from pathlib import Path

    from telemetry.facts import CallColumns


def read(path: Path) -> list[CallColumns]:
    """The columns of all spans, oldest first."""
    with open_calls(path) as reader:
        return [summary.columns for summary in reader.after(0)]


def test_rule_1_fields_are_the_columns_of_the_table_in_their_order(path: Path) -> None:
    """Of the type that the field has, and every one may be missing."""
    with Store.open(path):
        pass
    with contextlib.closing(sqlite3.connect(path)) as connection:
        columns = connection.execute("PRAGMA table_info('spans')").fetchall()
    last = [column for column in columns if column[1] in COLUMN_NAMES]
    assert tuple(name for _, name, *_ in last) == COLUMN_NAMES
    types = {"TEXT": str, "INTEGER": int, "REAL": float}
    assert [types[kind] for _, _, kind, *_ in last] == [
        fact.form.value_type for fact in COLUMN_FACTS
    ]
    assert not any(not_null for _, _, _, not_null, *_ in last)


def test_every_column_is_read_as_it_was_recorded(path: Path) -> None:
    """Beside a span of which nothing is told (rule 2)."""
    with Store.open(path) as store:
        store.add([replace(make_row(1), columns=FULL_COLUMNS), make_row(2)])
    assert read(path) == [FULL_COLUMNS, NO_COLUMNS]


def test_rule_2_spans_of_an_older_store_have_none(path: Path) -> None:
    """Whether an owner has migrated it or not; new ones have theirs."""
    with Store.open(path) as store:
        store.add([replace(make_row(1), columns=FULL_COLUMNS)])
    make_older(path)
    assert read(path) == [NO_COLUMNS]
    with Store.open(path) as store:
        store.add([replace(make_row(2), columns=FULL_COLUMNS)])
    assert read(path) == [NO_COLUMNS, FULL_COLUMNS]


def test_columns_are_carried_over_from_a_damaged_store(path: Path, tmp_path: Path) -> None:
    """With the spans; of an older store there are none."""
    with Store.open(path) as store:
        store.add([replace(make_row(1), columns=FULL_COLUMNS)])
        fold(store)
    older = tmp_path / "older.db"
    older.write_bytes(path.read_bytes())
    make_older(older)
    for source, wanted in ((path, FULL_COLUMNS), (older, NO_COLUMNS)):
        new = tmp_path / f"new-{source.name}"
        with contextlib.closing(connect_owner(new, fsync_each_commit=False)) as connection:
            assert carry_over(set_aside(source), connection, last_seq=0).spans == 1
        assert read(new) == [wanted]


def test_the_migration_touches_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes SQLite as many steps for ten spans as for three thousand of them."""

    def count_steps(spans: int) -> int:
        path = tmp_path / f"{spans}.db"
        with monkeypatch.context() as older:
            older.setattr(schema, "MIGRATIONS", MIGRATIONS[:6])
            connect_owner(path, fsync_each_commit=False).close()
        steps = 0

        def step() -> int:
            nonlocal steps
            steps += 1
            return 0

        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.executemany(
                "INSERT INTO spans (span_id, trace_id, name, start_ns, end_ns, status, outcome,"
                " size_bytes, state, recorded_ns) VALUES (?, '', '', 0, 0, '', '', 0, 'kept', 0)",
                [(f"{number:016x}",) for number in range(spans)],
            )
            connection.set_progress_handler(step, 1)
            with monkeypatch.context() as newer:
                newer.setattr(schema, "MIGRATIONS", MIGRATIONS[:8])  # an index reads all rows
                schema.migrate(connection, 6)
        return steps

    assert count_steps(3000) == pytest.approx(count_steps(10), abs=20)


VALUES = st.none() | st.text(max_size=4) | st.sampled_from(["\ud83d", "\x00", "a\udc00b"])
NUMBERS = st.none() | st.integers() | st.just(1 << 63)


@given(preview=VALUES, session=VALUES, retry=NUMBERS, tool_calls=NUMBERS)
def test_whatever_stands_in_a_column_costs_no_span(
    tmp_path_factory: pytest.TempPathFactory,
    preview: str | None,
    session: str | None,
    retry: int | None,
    tool_calls: int | None,
) -> None:
    """What SQLite cannot hold is replaced or left out, and only that."""
    columns = replace(
        FULL_COLUMNS, preview=preview, session=session, retry=retry, tool_calls=tool_calls
    )
    row = replace(make_row(1), columns=columns)
    path = tmp_path_factory.mktemp("store") / "s.db"
    with Store.open(path) as store:
        assert store.add([row, *make_rows([2])]) == 2
    kept, _ = read(path)
    assert kept == as_storable(row).columns
    assert replace(kept, preview=preview, session=session, retry=retry, tool_calls=tool_calls) == (
        columns
    )
