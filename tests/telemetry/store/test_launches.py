"""Spans of a launch are found by its label, and keep it through damage and migration."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from telemetry.finding.where import ALL_CALLS, ask_launch
from telemetry.launch_labels import build_label
from telemetry.reading.calls import ROWS_OF_A_READ
from telemetry.reading.stored_calls import open_calls
from telemetry.store.opening import connect_owner
from telemetry.store.rescue import carry_over, set_aside
from telemetry.store.store import Store
from tests.telemetry.damage import fold, make_older
from tests.telemetry.span_rows import make_row, span_id

if TYPE_CHECKING:
    from pathlib import Path

LABELS = ("", "app", "app~~1", "app~~2", "app.py~~1", "app~20x~~1", "ap", "App~~1", "zz~~1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a span for each label, numbered from 1."""
    with Store.open(tmp_path / "spans.db", delivers=False) as store:
        rows = [replace(make_row(n), launch=label or None) for n, label in enumerate(LABELS, 1)]
        store.add(rows)
        fold(store)
    return tmp_path / "spans.db"


def find(path: Path, *launch: str) -> list[str | None]:
    """The labels of the spans that are listed, oldest first."""
    with open_calls(path) as reader:
        if launch:
            reader = reader.that(ALL_CALLS.also(ask_launch(*launch)))  # noqa: PLW2901 - a part of it
        found = [stored.summary.launch for stored in reader.newest(100)]
        assert [row.launch for row in reader.since(0)] == found
        assert reader.count() == len(found)
        return found


def test_a_name_finds_all_launches_that_have_it(path: Path) -> None:
    """With and without a number; none that merely begins alike, and none of another case."""
    assert find(path, "app") == ["app", "app~~1", "app~~2"]
    assert find(path, "app.py") == ["app.py~~1"]
    assert find(path, "app x") == ["app~20x~~1"]
    assert find(path, "nobody") == []
    assert find(path) == [label or None for label in LABELS]


def test_a_number_finds_one_launch(path: Path) -> None:
    """Two commands of one name that run at once are told apart."""
    assert find(path, "app", "1") == ["app~~1"]


def test_a_long_launch_is_listed_in_pages_among_others(tmp_path: Path) -> None:
    """Each of its spans once, in order, though others lie between them."""
    label = build_label("app", "1")
    with Store.open(tmp_path / "spans.db") as store:
        rows = [make_row(number) for number in range(2 * ROWS_OF_A_READ + 200)]
        store.add([replace(row, launch=label if n % 2 else None) for n, row in enumerate(rows)])
    with open_calls(tmp_path / "spans.db") as reader:
        of_app = reader.that(ALL_CALLS.also(ask_launch("app")))
        listed = [stored.summary.span_id for stored in of_app.newest(10_000)]
    assert listed == [span_id(number) for number in range(1, 2 * ROWS_OF_A_READ + 200, 2)]


def test_the_index_is_used(path: Path) -> None:
    """A list of a launch does not read the spans of others."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT count(*) FROM spans "
            "WHERE launch >= 'app' AND launch < 'app~~\x7f' "
            "AND (launch = 'app' OR launch >= 'app~~') AND 1"
        ).fetchall()
    assert "spans_by_launch" in str(plan)


def test_a_store_of_an_earlier_version_has_no_launches(path: Path) -> None:
    """It is listed all the same; when its owner has migrated it, new spans have theirs."""
    make_older(path)
    assert find(path, "app") == []
    assert find(path) == [None] * len(LABELS)
    with Store.open(path, delivers=False) as store:
        store.add([replace(make_row(100), launch="app~~7")])
    assert find(path, "app") == ["app~~7"]


def test_launches_are_carried_over_from_a_damaged_store(path: Path, tmp_path: Path) -> None:
    """And from an older one, which has none."""
    older = tmp_path / "older.db"
    older.write_bytes(path.read_bytes())
    make_older(older)
    for source, wanted in ((path, [label or None for label in LABELS]), (older, [None] * 9)):
        new = tmp_path / f"new-{source.name}"
        with contextlib.closing(connect_owner(new, fsync_each_commit=False)) as connection:
            carried = carry_over(set_aside(source), connection, last_seq=0)
        assert carried.spans == len(LABELS)
        assert find(new) == wanted
