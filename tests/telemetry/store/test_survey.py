"""``telemetry.store.survey``: what is in a store, told without changing it.

What ``spantap check`` makes of it is in ``tests/proxy/test_check_store.py``.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest

from telemetry.errors import StoreError, StoreForeign, StoreTooNew, StoreUnavailable
from telemetry.store.schema import MIGRATIONS
from telemetry.store.store import Store
from telemetry.store.survey import find_damage, survey_store
from tests.telemetry.span_rows import make_rows

if TYPE_CHECKING:
    from pathlib import Path


def files(path: Path) -> dict[str, tuple[int, bytes]]:
    """What is beside the store, and when it was written."""
    return {
        file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in path.parent.iterdir()
    }


def alter(path: Path, statement: str) -> None:
    """Change a database in its file, as another program does."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def test_spans_are_counted_by_state(path: Path) -> None:
    """Delivered and kept ones together: nobody waits for them."""
    with Store.open(path, delivers=False) as store:
        store.add(make_rows([1]))
    with Store.open(path) as store:
        store.add(make_rows(range(2, 8)))
        store.mark_delivered([2])
        store.mark_rejected([3], "no")
        store.mark_rejected([4], "never")
        store.mark_retry([5], 0, "later")
    survey = survey_store(path, is_in_use=False)
    assert (survey.pending, survey.rejected, survey.others) == (3, 2, 2)
    assert survey.oldest_pending_ns == 5_000_000_000
    assert (survey.pending_error, survey.rejected_error) == ("later", "never")
    assert (survey.damage, survey.is_checked) == ("", True)


def test_a_store_that_nobody_has_open_is_not_changed(path: Path) -> None:
    """And no file is made beside it."""
    with Store.open(path) as store:
        store.add(make_rows([1]))
    before = files(path)
    survey_store(path, is_in_use=False)
    assert files(path) == before


def test_a_store_in_use_is_not_looked_through(path: Path) -> None:
    """What its owner has committed is seen."""
    with Store.open(path) as store:
        store.add(make_rows([1]))
        survey = survey_store(path, is_in_use=True)
        assert (survey.pending, survey.is_checked) == (1, False)


@pytest.mark.parametrize(
    ("statement", "error", "words"),
    [
        ("PRAGMA application_id = 7", StoreForeign, "another program's"),
        (f"PRAGMA user_version = {len(MIGRATIONS) + 1}", StoreTooNew, "newer"),
        ("DROP TABLE spans", StoreUnavailable, "cannot be used"),
    ],
)
def test_a_store_that_cannot_be_read_is_explained(
    path: Path, statement: str, error: type[StoreError], words: str
) -> None:
    """Another program's database, one of a newer version, one of which a part is missing."""
    Store.open(path).close()
    alter(path, statement)
    with pytest.raises(error, match=words):
        survey_store(path, is_in_use=False)


def test_an_error_in_the_looking_through_is_no_want_of_time(path: Path) -> None:
    """Another program has the file for itself."""
    with (
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other,
        contextlib.closing(sqlite3.connect(path, timeout=0)) as connection,
    ):
        other.execute("CREATE TABLE spans (state)")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            find_damage(connection, 1.0)
