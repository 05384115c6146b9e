"""What the store remembers of calls that were relayed and not observed."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest

from telemetry.errors import StoreUnavailable
from telemetry.metrics.instruments import REQUESTS_UNOBSERVED, UPGRADES_REFUSED
from telemetry.metrics.registry import MetricsRegistry
from telemetry.reading.stored_calls import open_calls
from telemetry.store.rows import Retention
from telemetry.store.store import Store
from telemetry.store.unobserved_calls import MAX_ROWS, UnobservedCalls
from telemetry.store.unobserved_keeper import UnobservedKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from telemetry.metrics.snapshot import Snapshot

DAY_NS = 24 * 3600 * 1_000_000_000


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path, retention=Retention(max_age_ns=DAY_NS)) as store:
        yield store


def numbers(run_ns: int, **counts: int) -> Snapshot:
    """What the workers of a run have counted, by path without its slash."""
    registry = MetricsRegistry(now_ns=lambda: run_ns)
    for name, count in counts.items():
        registry.add(REQUESTS_UNOBSERVED, count, (f"/{name}",))
    return registry.snapshot()


def read(path: Path) -> list[UnobservedCalls]:
    with open_calls(path) as reader:
        return reader.unobserved()


def test_counts_of_runs_add_up_and_what_is_told_again_does_not(store: Store, path: Path) -> None:
    """A new telemetry process is told all that its predecessor was told."""
    first = UnobservedKeeper(store, lambda: 5)
    first.keep(None)
    first.keep(numbers(1, a=2, b=1))
    UnobservedKeeper(store, lambda: 6).keep(numbers(1, a=2, b=2))
    assert read(path) == [("/a", 2, 5), ("/b", 2, 6)]
    UnobservedKeeper(store, lambda: 7).keep(numbers(2, b=3))
    assert read(path) == [("/b", 5, 7), ("/a", 2, 5)]


def test_websockets_that_were_refused_are_told_from_calls(store: Store, path: Path) -> None:
    """The same path may have both."""
    registry = MetricsRegistry(now_ns=lambda: 1)
    registry.add(REQUESTS_UNOBSERVED, 1, ("/a",))
    registry.add(UPGRADES_REFUSED, 2, ("/a",))
    UnobservedKeeper(store, lambda: 5).keep(registry.snapshot())
    calls = read(path)
    assert calls == [("GET /a", 2, 5), ("/a", 1, 5)]
    assert [one.is_upgrade for one in calls] == [True, False]


def test_what_is_old_or_too_much_goes(store: Store, path: Path) -> None:
    """Old ones go, also where nothing new is counted."""
    for run in range(MAX_ROWS + 1):
        UnobservedKeeper(store, lambda run=run: run).keep(numbers(run, a=1))  # type: ignore[misc]
    assert read(path) == [("/a", MAX_ROWS, MAX_ROWS)]
    UnobservedKeeper(store, lambda: MAX_ROWS + DAY_NS).keep(numbers(MAX_ROWS + 1))
    assert read(path) == [("/a", 1, MAX_ROWS)]


def test_a_store_that_fails_is_told_the_next_time(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the telemetry process does not notice (R2)."""

    def fail(*_: object) -> None:
        raise StoreUnavailable("no disk")

    keeper = UnobservedKeeper(store, lambda: 5)
    with monkeypatch.context() as broken:
        broken.setattr(store, "keep_unobserved", fail)
        keeper.keep(numbers(1, a=1))
    assert read(path) == []
    keeper.keep(numbers(1, a=1))
    assert read(path) == [("/a", 1, 5)]


def test_a_store_of_an_older_version_has_none(store: Store, path: Path) -> None:
    """A reader does not migrate."""
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE unobserved")
    assert read(path) == []
