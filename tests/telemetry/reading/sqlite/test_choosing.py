"""``telemetry.reading.calls``: spans chosen by a condition, in an order, and by texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry.errors import StoreUnavailable
from telemetry.facts import ORDERS, CallColumns
from telemetry.finding.where import ask_launch
from telemetry.reading.sqlite import walking
from telemetry.reading.stored_calls import open_calls
from telemetry.store.store import Store
from tests.telemetry.damage import make_older
from tests.telemetry.reading.asking import connection_of, where
from tests.telemetry.span_rows import make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from telemetry.reading.calls import Calls


@pytest.fixture
def reader(store: Store) -> Iterator[Calls]:
    """A reader of that store."""
    with open_calls(store.path) as opened:
        yield opened


def find(path: Path, words: str, limit: int = 100) -> list[int]:
    """Numbers of the spans that fit a filter, newest first."""
    with open_calls(path) as reader:
        chosen = reader.that(where(words))
        found = list(chosen.numbers(limit))
        assert chosen.count() == len(found) or limit < 100
        return found


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 5), st.integers(0, 13))
def test_rule_1_whatever_the_steps_are_the_same_is_found(
    tmp_path_factory: pytest.TempPathFactory, fits: list[bool], step: int, limit: int
) -> None:
    """The newest that fit, as many as asked for, newest first."""
    path = tmp_path_factory.mktemp("store") / "spans.db"
    with Store.open(path) as store:
        rows = make_rows(range(1, len(fits) + 1))
        store.add([replace(row, model=f"m-{fit}") for row, fit in zip(rows, fits, strict=True)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walking, "STEP_NUMBERS", step)
        found = find(path, "model:m-True", limit)
    expected = [number for number in range(len(fits), 0, -1) if fits[number - 1]]
    assert found == expected[:limit]


def test_gaps_are_stepped_over(
    store: Store, reader: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long: what was pruned leaves no steps behind."""
    monkeypatch.setattr(walking, "STEP_NUMBERS", 2)
    store.add(make_rows([1, 2, 3]))
    with store._file.use() as connection:
        connection.execute("UPDATE spans SET seq = 1000000 WHERE seq = 3")
    steps = list(walking.walk_back(connection_of(reader)))
    assert steps == [(999_999, 1_000_000), (1, 2)]
    assert list(reader.numbers(9)) == [1_000_000, 2, 1]


@pytest.mark.parametrize(
    ("order", "numbers"), [("slow", [2, 3, 1]), ("cost", [1, 3, 2]), ("tokens", [3, 1, 2])]
)
def test_an_order(order: str, numbers: list[int], store: Store, reader: Calls) -> None:
    """The largest first, as many as asked for, and unknown ones last."""
    first, second, third = make_rows([1, 2, 3])
    store.add(
        [
            replace(first, columns=CallColumns(cost_usd=0.5)),
            replace(second, end_ns=second.end_ns + 9, total_tokens=None),
            replace(third, end_ns=third.end_ns + 5, total_tokens=99),
        ]
    )
    assert list(reader.numbers(10, ORDERS[order])) == numbers
    assert list(reader.numbers(2, ORDERS[order])) == numbers[:2]
    others = reader.that(where(f"-id:{span_id(numbers[0])}"))
    assert list(others.numbers(10, ORDERS[order])) == numbers[1:]


@pytest.mark.parametrize("limit", [-1, 0, 10**30])
def test_any_limit_is_taken(limit: int, store: Store, reader: Calls) -> None:
    """A larger one than SQLite knows, too; a negative one is none at all."""
    store.add(make_rows([1, 2]))
    assert list(reader.numbers(limit)) == ([2, 1] if limit > 0 else [])
    assert list(reader.numbers(limit, ORDERS["slow"])) == ([2, 1] if limit > 0 else [])


def test_conditions_add_up(store: Store, reader: Calls) -> None:
    """A launch and a filter, in whichever order, hold for all that is read."""
    rows = make_rows([1, 2, 3, 4])
    store.add(
        [replace(row, launch="app~~1" if row.span_id != span_id(2) else None) for row in rows]
    )
    chosen = reader.that(
        where("model:gpt-4o-mini").also(ask_launch("app"), since_ns=rows[1].start_ns)
    )
    assert list(chosen.numbers(10)) == [4, 3]
    assert chosen.count() == 2
    assert [row.seq for row in chosen.since(0)] == [3, 4]
    assert [row.seq for row in chosen.page(10).rows] == [4, 3]
    assert [seq for step in chosen.search() for seq in step.hits] == [4, 3]
    assert chosen.last_seq() == 4, "of all"


def test_an_empty_store_has_no_numbers(reader: Calls) -> None:
    """And none is the last."""
    assert list(reader.numbers(10)) == []
    assert reader.last_seq() == 0


def test_columns_that_an_older_store_lacks_are_unknown(path: Path) -> None:
    """They can be asked for; nothing fits but what asks for none."""
    with Store.open(path) as store:
        store.add([replace(make_row(1), columns=CallColumns(client="codex", cost_usd=1.0))])
    assert find(path, "client:codex") == [1]
    make_older(path)
    assert find(path, "client:codex") == []
    assert find(path, "-client:codex") == [1]
    assert find(path, "run:app") == []
    assert find(path, "status:ok") == [1]
    with open_calls(path) as reader:
        assert list(reader.numbers(5, ORDERS["cost"])) == [1]
        unknown = reader.that(where("-client:*"))
        assert [seq for step in unknown.search() for seq in step.hits] == [1]


def test_rule_6_nothing_is_sorted(store: Store, reader: Calls) -> None:
    """Of a condition that an index fits, neither newest first nor as they come."""
    store.add(make_rows(range(1, 31)))
    reader = reader.that(where("state:pending"))
    statements: list[str] = []
    connection = connection_of(reader)
    connection.set_trace_callback(statements.append)
    assert len(reader.numbers(20)) == 20
    assert len(list(reader.since(20))) == 10
    connection.set_trace_callback(None)
    for statement in statements:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        assert all(detail.startswith("SEARCH") for *_, detail in plan), (statement, plan)


def test_rows_are_read_when_they_are_needed(store: Store, reader: Calls) -> None:
    """Rule 2: one that is gone by then is left out, the others are not."""
    store.add(make_rows([1, 2, 3]))
    rows = reader.rows([3, 1, 2])
    assert next(rows).span_id == span_id(3)
    with store._file.use() as connection:
        connection.execute("DELETE FROM spans WHERE seq = 1")
    assert [row.span_id for row in rows] == [span_id(2)]


def test_an_error_of_sqlite_is_told(store: Store, reader: Calls) -> None:
    """As any other error of the store's."""
    store.add(make_rows([1]))
    with store._file.use() as connection:
        connection.execute("ALTER TABLE spans RENAME COLUMN client TO customer")
        connection.execute("DROP TABLE span_bytes")
    unknown = reader.that(where("client:x x"))
    with pytest.raises(StoreUnavailable):
        unknown.numbers(1)
    with pytest.raises(StoreUnavailable):
        list(unknown.search())
