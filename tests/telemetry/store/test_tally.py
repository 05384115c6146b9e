"""``telemetry.store.tally``: the counts of a store are those of its spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.store import retention as store_retention
from telemetry.store.retention import make_room
from telemetry.store.rows import Retention, SpanState
from telemetry.store.store import Store
from telemetry.store.tally import read_tally
from tests.telemetry.due_spans import FOREVER_NS
from tests.telemetry.span_rows import make_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

NUMBERS = st.sets(st.integers(1, 12))

ACTIONS: dict[str, Callable[[Store, set[int]], object]] = {
    "add": lambda store, numbers: store.add(make_rows(sorted(numbers))),
    "deliver": lambda store, numbers: store.mark_delivered(numbers),
    "reject": lambda store, numbers: store.mark_rejected(numbers, "no"),
    "retry": lambda store, numbers: store.mark_retry(numbers, 1, "down"),
    "fail alone": lambda store, numbers: store.mark_failed_alone(min(numbers, default=1), 1, ""),
    "prune": lambda store, _: store.prune(FOREVER_NS),
    "make room": lambda store, _: store._file.run(make_room),
}


def check(store: Store) -> None:
    """The counts are those that SQLite counts."""
    with store._file.use() as connection:
        counted = dict(connection.execute("SELECT state, count(*) FROM spans GROUP BY state"))
        assert read_tally(connection).counts == {
            state: counted.get(state, 0) for state in SpanState
        }


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(sorted(ACTIONS)), NUMBERS), max_size=12))
@settings(deadline=None, max_examples=40)
def test_counts_are_those_of_the_spans(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[bool, str, set[int]]]
) -> None:
    """Whatever is done, replays and fates of what is settled included, by one owner or several."""
    path = tmp_path_factory.mktemp("store") / "s.db"
    store = Store.open(path)
    for delivers, action, numbers in actions:
        if not numbers:
            store.close()
            store = Store.open(path, delivers=delivers)
        ACTIONS[action](store, numbers)
        check(store)
    store.close()


def test_counts_when_pending_spans_go(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed for want of room, they are no longer counted."""
    monkeypatch.setattr(store_retention, "MAX_PRUNE_ROWS", 7)
    with Store.open(path, retention=Retention(max_bytes=1)) as store:
        store.add(make_rows(range(30)))
        assert store.prune(0).lost == 7
        check(store)
        assert store.counts().pending == 23


def test_what_a_look_costs_does_not_depend_on_how_many_there_are(store: Store) -> None:
    """As many steps of SQLite's for ten spans as for a thousand of them, give or take a few."""
    steps: list[int] = []
    store.add(make_rows(range(10)))
    for _ in range(2):
        count = 0

        def step() -> int:
            nonlocal count
            count += 1
            return 0

        with store._file.use() as connection:
            connection.set_progress_handler(step, 1)
            store.counts()
            connection.set_progress_handler(None, 0)
        steps.append(count)
        store.add(make_rows(range(10, 1000)))
        store.mark_delivered(range(1, 500))
        store.mark_rejected([500], "no")
    assert 0 < steps[1] < steps[0] + 10
