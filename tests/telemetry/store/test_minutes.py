"""``telemetry.store.minutes``: the sums of a store are those of its spans."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry.errors import StoreUnavailable
from telemetry.facts import CallColumns
from telemetry.reading.stored_calls import open_calls
from telemetry.store import minutes as store_minutes
from telemetry.store.minutes import (
    MAX_COST_USD,
    MAX_TOKENS,
    MINUTE_NS,
)
from telemetry.store.opening import connect_owner, connect_reader
from telemetry.store.rescue import carry_over, set_aside
from telemetry.store.retention import make_room
from telemetry.store.store import Store
from tests.telemetry.damage import make_older
from tests.telemetry.due_spans import FOREVER_NS
from tests.telemetry.span_rows import make_row, make_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from telemetry.store.rows import SpanRow, SpanStatus

COUNTED = f"""
SELECT start_ns / {MINUTE_NS}, coalesce(model, ''), coalesce(upstream, ''), count(*),
    count(*) FILTER (WHERE status = 'ERROR'), total(prompt_tokens), total(completion_tokens),
    total(cost_usd), count(cost_usd), total(cached_tokens),
    total((end_ns - start_ns - coalesce(ttft_ns, 0)) / 1000000)
        FILTER (WHERE completion_tokens > 0),
    total(saved_usd), total(cost_usd) FILTER (WHERE cost_basis = 'list'), count(cost_gap),
    total(input_usd) FILTER (WHERE cost_usd IS NOT NULL)
FROM spans WHERE seq > (SELECT minutes_after FROM tally) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""


class MinuteSums(NamedTuple):
    """The sums of calls of one model and one upstream that began in one minute."""

    minute: int
    model: str
    upstream: str
    calls: int
    errors: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    priced: int
    cached_tokens: int
    output_ms: int
    saved_usd: float
    list_usd: float
    unpriced: int
    input_usd: float


SUMMED = f"SELECT {', '.join(MinuteSums._fields)} FROM minutes ORDER BY minute, model, upstream"


def read_minutes(path: Path) -> list[MinuteSums]:
    """All sums of a store."""
    with closing(connect_reader(path)) as reader:
        return [MinuteSums._make(row) for row in reader.execute(SUMMED)]


def about(amount: float | None) -> Any:
    """A sum of floats, in whichever order they were added and subtracted."""
    return pytest.approx(amount or 0.0)


def check(path: Path) -> list[MinuteSums]:
    """The sums are those that SQLite makes of the spans; return them."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        counted = [
            MinuteSums._make((*row[:7], pytest.approx(row[7]), *row[8:11], *map(about, row[11:])))
            for row in connection.execute(COUNTED)
        ]
    summed = read_minutes(path)
    assert summed == counted
    return summed


def call(number: int, *, took_ns: int = 0, **members: object) -> SpanRow:
    """A call of an upstream at a dollar's quarter, ten seconds behind the one before."""
    start_ns = number * 10_000_000_000
    columns = CallColumns(upstream=f"up-{number % 2}", cost_usd=0.25)
    row = replace(make_row(number), start_ns=start_ns, end_ns=start_ns + took_ns, columns=columns)
    return replace(row, **members)


CALLS = st.builds(
    call,
    st.integers(1, 40),
    took_ns=st.integers(0, 1 << 39),
    model=st.sampled_from([None, "a", "b"]),
    status=st.sampled_from(["OK", "ERROR", "UNSET"]),
    prompt_tokens=st.none() | st.integers(0, 9),
    completion_tokens=st.none() | st.integers(0, 9),
    columns=st.builds(
        CallColumns,
        upstream=st.sampled_from([None, "up-0"]),
        cost_usd=st.sampled_from([None, 0.0, 0.25]),
        cached_tokens=st.none() | st.integers(0, 9),
        saved_usd=st.sampled_from([None, 0.125]),
        cost_basis=st.sampled_from([None, "list"]),
        cost_gap=st.sampled_from([None, "unknown_model"]),
        input_usd=st.sampled_from([None, 0.125]),
    ),
)

ACTIONS: dict[str, Callable[[Store, Sequence[SpanRow]], object]] = {
    "add": lambda store, rows: store.add(rows),
    "deliver": lambda store, rows: store.mark_delivered(range(len(rows))),
    "prune": lambda store, _: store.prune(FOREVER_NS),
    "make room": lambda store, _: store._file.run(make_room),
}


@given(
    st.lists(st.tuples(st.sampled_from(sorted(ACTIONS)), st.lists(CALLS, max_size=6)), max_size=10)
)
@settings(deadline=None, max_examples=40)
def test_sums_are_those_of_the_spans(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, list[SpanRow]]]
) -> None:
    """Whatever is added, again too, and whatever goes by age or for want of room."""
    path = tmp_path_factory.mktemp("store") / "s.db"
    with Store.open(path) as store:
        for action, rows in actions:
            ACTIONS[action](store, rows)
            check(path)


def test_a_commit_writes_each_minute_model_and_upstream_once(path: Path) -> None:
    """However many calls are in it."""
    with Store.open(path) as store:
        with store._file.use() as connection:
            asked: list[str] = []
            connection.set_trace_callback(asked.append)
        store.add([replace(call(0), span_id=f"{number:016x}") for number in range(100)])
        store.add([call(number) for number in (150, 151)])
    assert sum("INSERT INTO minutes" in statement for statement in asked) == 1 + 2


def test_nothing_is_left_of_minutes_whose_spans_are_gone(path: Path) -> None:
    """No row of zeros either, of costs that no float adds up exactly."""
    with Store.open(path, delivers=False) as store:
        rows = [call(number) for number in range(30)]
        store.add([replace(r, columns=replace(r.columns, cost_usd=0.1)) for r in rows])
        assert len(check(path)) == 10
        store.prune(FOREVER_NS)
        assert check(path) == []


def test_a_commit_that_fails_changes_no_sum(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither spans nor sums, wherever it fails."""
    with Store.open(path) as store:
        store.add([call(1)])
        before = check(path)
        monkeypatch.setattr(store_minutes, "_ADD", store_minutes._ADD + ", unknown = 1")
        with pytest.raises(StoreUnavailable, match="no such column"):
            store.add([call(2)])
        assert check(path) == before
        monkeypatch.undo()
        store.add([call(2)])
    assert sum(sums.calls for sums in check(path)) == 2


KILLED = """
import sys, itertools
from pathlib import Path
from telemetry.store.rows import Retention
from telemetry.store.store import Store
from tests.telemetry.store.test_minutes import call
with Store.open(Path(sys.argv[1]), delivers=False, retention=Retention(max_age_ns=0)) as store:
    for first in itertools.count(0, 7):
        store.add([call(number) for number in range(first, first + 7)])
        if first % 3 == 0:
            store.prune(call(first).recorded_ns)
        if first == 700:
            print("far enough", flush=True)
"""


def test_a_kill_parts_neither_from_the_other(path: Path) -> None:
    """In the midst of adding and removing."""
    command = [sys.executable, "-c", KILLED, str(path)]
    folder = Path(__file__).parents[3]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = process.stdout.readline()
        process.kill()
    assert told == b"far enough\n"
    assert sum(sums.calls for sums in check(path)) > 0


def test_spans_of_an_older_store_are_in_no_sum(path: Path) -> None:
    """Nor are they subtracted when they go."""
    with Store.open(path, delivers=False) as store:
        store.add([call(number) for number in (1, 2, 3)])
    make_older(path)
    with closing(connect_reader(path)) as reader:
        assert store_minutes.find_first_minute(reader) is None
    with Store.open(path, delivers=False) as store:
        store.add([call(4)])
        assert [sums.calls for sums in check(path)] == [1]
        store.prune(call(3).recorded_ns + store._retention.max_age_ns + 1)
        assert [sums.calls for sums in check(path)] == [1]


def test_in_a_minute_from_before_all_calls_without_a_cost_are_without_a_price(path: Path) -> None:
    """The minute stays so; in a newer one only those count that lack a price."""
    gap, none = CallColumns(cost_gap="unknown_model"), CallColumns()
    with Store.open(path, delivers=False) as store:
        store.add([call(1), call(2, columns=none), call(3, columns=gap)])
        with store._file.use() as connection:
            connection.execute("UPDATE minutes SET unpriced = NULL")
        store.add([call(4, columns=none), call(7), call(8, columns=none), call(9, columns=gap)])
    assert {sums.unpriced for sums in read_minutes(path) if sums.minute == 0} == {None}
    with open_calls(path) as reader:
        groups = reader.aggregate(60).groups
    assert [(one.calls, one.priced, one.unpriced) for one in groups] == [(4, 1, 3), (3, 1, 1)]


def test_spans_that_were_carried_over_are_in_no_sum(path: Path, tmp_path: Path) -> None:
    """Of a damaged store nobody knows what else is wrong."""
    with Store.open(path) as store:
        store.add([call(number) for number in (1, 2, 3)])
    new = tmp_path / "new.db"
    with contextlib.closing(connect_owner(new, fsync_each_commit=False)) as connection:
        assert carry_over(set_aside(path), connection, last_seq=7).spans == 3
    assert check(new) == []
    with Store.open(new) as store:
        store.add([call(4)])
        assert store.counts().pending == 4
    assert [sums.calls for sums in check(new)] == [1]


def test_a_call_belongs_to_the_minute_of_its_beginning(path: Path) -> None:
    """However long it took."""
    with Store.open(path) as store:
        store.add(
            [call(5, took_ns=MINUTE_NS), call(6), call(12, model=None, columns=CallColumns())]
        )
    assert [sums[:4] for sums in read_minutes(path)] == [
        (0, "gpt-4o-mini", "up-1", 1),
        (1, "gpt-4o-mini", "up-0", 1),
        (2, "", "", 1),
    ]


def test_no_count_breaks_a_sum(path: Path) -> None:
    """Counts and costs that no provider means, as many as there may be."""
    worst = {"prompt_tokens": (1 << 63) - 1, "completion_tokens": (1 << 63) - 1}
    costs = (1e308, float("inf"), float("nan"), -1.0, 2e6)
    with Store.open(path, delivers=False) as store:
        rows = [
            replace(call(0), span_id=f"{n:016x}", columns=CallColumns(cost_usd=cost), **worst)
            for n, cost in enumerate(costs)
        ]
        assert store.add(rows) == len(rows)
        (sums,) = read_minutes(path)
        assert sums.prompt_tokens == sums.completion_tokens == len(rows) * MAX_TOKENS
        assert sums.cost_usd == 3 * MAX_COST_USD
        store.prune(FOREVER_NS)
        assert check(path) == []


def test_a_damaged_row_can_be_removed(path: Path) -> None:
    """Text in the place of its numbers keeps nothing from going."""
    with Store.open(path, delivers=False) as store:
        store.add([call(number) for number in (1, 2, 3)])
        with store._file.use() as connection:
            connection.execute(
                "UPDATE spans SET start_ns = 'x', cost_usd = x'ff', prompt_tokens = 'many'"
                " WHERE seq = 2"
            )
            connection.execute("UPDATE spans SET prompt_tokens = x'00' WHERE seq = 3")
        assert store.prune(FOREVER_NS).removed == 3


def test_an_older_spantap_shares_the_sums(path: Path) -> None:
    """It counts durations in columns that are still there, and 0 for what this one added."""
    count = "SET calls = calls + 1, took_15 = took_15 + 1"
    with Store.open(path) as store:
        store.add([call(0, took_ns=1 << 39)])
        with store._file.use() as connection:
            found = connection.execute("SELECT took_0, took_15 FROM minutes").fetchall()
            assert found == [(0, 0)]
            assert connection.execute(f"UPDATE minutes {count}").rowcount == 1
        store.add([call(2, took_ns=1 << 39)])
        with store._file.use() as connection:
            found = connection.execute("SELECT calls, took_15 FROM minutes").fetchall()
    assert found == [(3, 1)]


def test_the_status_tells_errors(path: Path) -> None:
    """A call that its client left is none."""
    states: tuple[SpanStatus, ...] = ("OK", "ERROR", "UNSET")
    with Store.open(path) as store:
        store.add(
            [replace(row, status=s) for row, s in zip(make_rows([1, 2, 3]), states, strict=True)]
        )
    (sums,) = check(path)
    assert (sums.calls, sums.errors) == (3, 1)
