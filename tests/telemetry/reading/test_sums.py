"""``telemetry.reading.sums``: what calls come to, beside a count of them one by one."""

from __future__ import annotations

import math
import tracemalloc
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry.facts import CallColumns
from telemetry.finding.where import ALL_CALLS
from telemetry.reading import sums as reading_sums
from telemetry.reading.stored_calls import open_calls
from telemetry.reading.sums import GROUPS, HOUR_SECONDS, CallSums, Ranks
from telemetry.store.minutes import MAX_TOKENS
from telemetry.store.store import Store
from tests.telemetry.damage import make_older
from tests.telemetry.due_spans import FOREVER_NS
from tests.telemetry.reading.asking import where
from tests.telemetry.span_rows import make_row, span_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from telemetry.reading.calls import Calls
    from telemetry.store.rows import SpanRow

SECOND_NS = 1_000_000_000

KEYS: dict[str, Callable[[SpanRow], str | int]] = {
    "model": lambda row: row.model or "",
    "upstream": lambda row: row.columns.upstream or "",
    "client": lambda row: row.columns.client or "",
    "session": lambda row: row.columns.session or "",
    "user": lambda row: row.columns.user or "",
    "tool": lambda row: row.columns.tools or "",
    "hour": lambda row: row.start_ns // (HOUR_SECONDS * SECOND_NS),
    "": lambda _: "",
}


def call(number: int, start_s: int, took_ms: int, **members: Any) -> SpanRow:
    """A call."""
    start_ns = start_s * SECOND_NS
    row = make_row(number)
    return replace(row, start_ns=start_ns, end_ns=start_ns + took_ms * 1_000_000, **members)


def rank(times: Sequence[int]) -> Ranks:
    """The slow way: the smallest that as many in a hundred reach."""
    if not times:
        return Ranks()
    percentiles = (
        next(t for t in sorted(times) if sum(o <= t for o in times) >= p * len(times) / 100)
        for p in (50, 90, 95, 99)
    )
    return Ranks(len(times), *percentiles)


def about(amount: float) -> Any:
    """A sum of floats, in whichever order they were added."""
    return pytest.approx(amount)


def count(rows: Sequence[SpanRow], by: str) -> list[CallSums]:
    """The slow way: one by one."""
    groups: dict[str | int, list[SpanRow]] = defaultdict(list)
    for row in rows:
        groups[KEYS[by](row)].append(row)
    sums = [
        CallSums(
            key=key,
            calls=len(of_group),
            errors=sum(row.status == "ERROR" for row in of_group),
            priced=sum(row.columns.cost_usd is not None for row in of_group),
            unpriced=sum(row.columns.cost_gap is not None for row in of_group),
            list_usd=about(
                math.fsum(
                    row.columns.cost_usd or 0
                    for row in of_group
                    if row.columns.cost_basis == "list"
                )
            ),
            input_usd=about(
                math.fsum(
                    row.columns.input_usd or 0
                    for row in of_group
                    if row.columns.cost_usd is not None
                )
            ),
            output_ms=sum(
                (row.end_ns - row.start_ns - (row.columns.ttft_ns or 0)) // 1_000_000
                for row in of_group
                if row.completion_tokens
            ),
            totals={
                "prompt_tokens": sum(row.prompt_tokens or 0 for row in of_group),
                "completion_tokens": sum(row.completion_tokens or 0 for row in of_group),
                "cached_tokens": sum(row.columns.cached_tokens or 0 for row in of_group),
                "cost_usd": about(math.fsum(row.columns.cost_usd or 0 for row in of_group)),
                "saved_usd": about(math.fsum(row.columns.saved_usd or 0 for row in of_group)),
            },
            ranks={
                "duration_ns": rank([row.end_ns - row.start_ns for row in of_group]),
                "ttft_ns": rank(
                    [ns for row in of_group if (ns := row.columns.ttft_ns) is not None]
                ),
            },
        )
        for key, of_group in groups.items()
    ]
    return sorted(sums, key=lambda one: one.key if by == "hour" else (-one.calls, one.key))


def sum_up(reader: Calls, by: str, words: str = "") -> tuple[list[CallSums], CallSums | None]:
    """Groups and the total of the calls that fit a filter."""
    told = reader.that(where(words)).aggregate(*GROUPS[by])
    assert told.is_whole
    return [*told.groups], told.total


def count_all(rows: Sequence[SpanRow]) -> CallSums | None:
    """The slow way, whatever calls have in common."""
    return next(iter(count(rows, "")), None)


texts = st.sampled_from([None, "a", "b"])
calls = st.lists(
    st.builds(
        call,
        st.just(0),
        st.integers(0, 4 * 3600),
        st.integers(10, 9_000),
        model=texts,
        status=st.sampled_from(["OK", "ERROR"]),
        prompt_tokens=st.none() | st.integers(0, 99),
        completion_tokens=st.none() | st.integers(0, 99),
        columns=st.builds(
            CallColumns,
            upstream=texts,
            client=texts,
            session=texts,
            user=texts,
            ttft_ns=st.none() | st.integers(0, 10_000_000),
            cost_usd=st.none() | st.floats(0, 9),
            cached_tokens=st.none() | st.integers(0, 9),
            saved_usd=st.none() | st.floats(0, 9),
            cost_basis=st.sampled_from([None, "list"]),
            cost_gap=st.sampled_from([None, "unknown_model"]),
            input_usd=st.sampled_from([None, 0.125]),
        ),
    ),
    max_size=8,
).map(lambda rows: [replace(row, span_id=span_id(n)) for n, row in enumerate(rows, 1)])


@given(calls, calls, st.sampled_from(sorted(GROUPS)))
@settings(deadline=None, max_examples=60)
def test_rule_1_sums_are_those_of_the_calls_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, older: list[SpanRow], rows: list[SpanRow], by: str
) -> None:
    """In groups and all together: all, those from before there were sums by minute, and some."""
    path = tmp_path_factory.mktemp("store") / "s.db"
    with Store.open(path) as store:
        store.add(older)
        with store._file.use() as connection:
            connection.execute("DELETE FROM minutes")
            last = "coalesce((SELECT max(seq) FROM spans), 0)"
            connection.execute(f"UPDATE tally SET minutes_after = {last}")
        rows = [replace(row, span_id=f"f{row.span_id[1:]}") for row in rows]
        store.add(rows)
        with open_calls(path) as reader:
            assert sum_up(reader, by) == (count([*older, *rows], by), count_all([*older, *rows]))
            ok = [row for row in (*older, *rows) if row.status == "OK"]
            assert sum_up(reader, by, "status:ok") == (count(ok, by), count_all(ok))


def test_rule_1_of_an_older_store_all_rows_are_read(path: Path) -> None:
    """No owner has migrated it yet: it has neither sums nor columns."""
    rows = [call(number, number, 10, model="m", prompt_tokens=2) for number in (1, 2)]
    with Store.open(path) as store:
        store.add(rows)
    make_older(path)
    with open_calls(path) as reader:
        (sums,) = sum_up(reader, "model")[0]
        assert (sums.calls, sums.totals["prompt_tokens"], sums.priced) == (2, 4, 0)
        assert sums.ranks["ttft_ns"].calls == 0
        assert [one.key for one in sum_up(reader, "client")[0]] == [""]


def test_rule_1_what_was_pruned_is_in_no_sum(path: Path) -> None:
    """Neither by the sums by minute nor by rows."""
    with Store.open(path, delivers=False) as store:
        store.add([call(1, 1, 10)])
        store.prune(FOREVER_NS)
        with open_calls(path) as reader:
            assert sum_up(reader, "")[0] == []
            assert sum_up(reader, "model")[0] == sum_up(reader, "user")[0] == []


def test_rule_2_of_many_calls_some_are_ranked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there is time for, from first to last."""
    monkeypatch.setattr(reading_sums, "MAX_RANKED", 10)
    with Store.open(path) as store:
        store.add([call(number, number, number) for number in range(1, 96)])
        with open_calls(path) as reader:
            (sums,) = sum_up(reader, "")[0]
            assert (sums.calls, sums.ranks["duration_ns"].calls) == (95, 10)
            assert sums.ranks["duration_ns"].p50_ns == 39_000_000
            assert sums.ranks["duration_ns"].p99_ns == 86_000_000
            (sums,) = sum_up(reader, "", "dur>50ms")[0]
            assert (sums.calls, sums.ranks["duration_ns"].calls) == (45, 10)


def test_what_was_ranked_before_the_time_was_over_is_spread_over_all(path: Path) -> None:
    """A choice that was cut short is even, too, and says that it is not whole."""
    with Store.open(path) as store:
        store.add([call(number, number, number) for number in range(1, 2_001)])
        with open_calls(path) as reader:
            asked = iter((False, True))
            times = reader._engine.times(ALL_CALLS, (), 2_000, 2_000, lambda: next(asked))
    numbers = [took_ns // 1_000_000 for took_ns in times.of["duration_ns"][()]]
    assert not times.is_whole
    assert len(numbers) == 1_000
    assert sum(number <= 1_000 for number in numbers) == 500


@pytest.mark.parametrize("rows", [0, 50])
def test_a_count_of_calls_that_a_disk_damaged_breaks_no_ranks(
    rows: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More calls than rows: all rows are ranked, of which there may be none."""
    monkeypatch.setattr(reading_sums, "MAX_RANKED", 20)
    with Store.open(path) as store:
        store.add([call(number, number, number) for number in range(1, 51)])
        with store._file.use() as connection:
            connection.execute(f"UPDATE minutes SET calls = {1 << 53}")
            connection.execute("DELETE FROM spans WHERE seq > ?", (rows,))
        with open_calls(path) as reader:
            assert sum_up(reader, "")[0][0].ranks["duration_ns"].calls == min(rows, 20)


def test_rule_2_numbers_without_a_call_are_not_chosen(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All calls are ranked where they are few, however far apart; of many as many as are wanted."""
    with Store.open(path) as store:
        store.add([call(number, number, number) for number in range(1, 31)])
        with store._file.use() as connection:
            connection.execute("UPDATE spans SET seq = seq + 900000 WHERE seq > 15")
        with open_calls(path) as reader:
            assert sum_up(reader, "")[0][0].ranks["duration_ns"].calls == 30
            monkeypatch.setattr(reading_sums, "MAX_RANKED", 20)
            assert sum_up(reader, "")[0][0].ranks["duration_ns"].calls == 20


def test_rule_3_no_count_breaks_a_sum(path: Path) -> None:
    """Nor a cost that nobody means."""
    odd = CallColumns(cost_usd=float("inf"), cached_tokens=1 << 62)
    with Store.open(path) as store:
        store.add([call(n, n, 10, prompt_tokens=1 << 62, columns=odd) for n in (1, 2, 3)])
        with open_calls(path) as reader:
            for by in ("", "session"):
                (sums,) = sum_up(reader, by)[0]
                totals = sums.totals
                assert totals["prompt_tokens"] == totals["cached_tokens"] == 3 * MAX_TOKENS
                assert totals["cost_usd"] == 3e6


def test_usages_are_counted_by_what_calls_have_in_common(path: Path) -> None:
    """Each combination once, unknown ones too."""
    with Store.open(path) as store:
        store.add(
            [
                call(1, 1, 1, model="a", prompt_tokens=5, completion_tokens=1),
                call(2, 1, 1, model="a", prompt_tokens=5, completion_tokens=1),
                call(3, 1, 1, model="b", prompt_tokens=None, completion_tokens=1),
            ]
        )
        with open_calls(path) as reader:
            assert sorted(map(tuple, reader.usages("model"))) == [
                ("a", 5, 1, None, 2),
                ("b", None, 1, None, 1),
            ]


def test_usages_are_not_kept(path: Path) -> None:
    """There may be as many as calls (R5); SQLite's own memory is bounded."""
    with Store.open(path) as store:
        store.add([call(n, 1, 1, prompt_tokens=1_000 + n) for n in range(1, 2_001)])
        with open_calls(path) as reader:
            assert sum(1 for _ in reader.usages("model")) == 2_000
            tracemalloc.start()
            try:
                assert sum(usage.calls for usage in reader.usages("model")) == 2_000
                _, peak_bytes = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert peak_bytes < 100_000
