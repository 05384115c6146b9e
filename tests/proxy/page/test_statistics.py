"""``/api/stats``: sums over time and by model, of minutes and of rows, and calls worth a look."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from proxy.page.api import statistics
from telemetry.facts import CallColumns
from telemetry.reading.sqlite import statistics as sums_of_rows
from telemetry.reading.sqlite.statistics import Sums
from telemetry.store.store import Store
from tests.proxy.page.serving import serve_api
from tests.telemetry.span_rows import make_row

if TYPE_CHECKING:
    from pathlib import Path

BEGIN_NS = 1_763_647_440_000_000_000
"""2025-11-20 14:04:00 UTC."""
SECOND_NS = 1_000_000_000
HOUR = {"from_": "2025-11-20T14:00:00Z", "to": "2025-11-20T15:00:00Z"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Twelve calls, one each half minute, of two models; the last one failed."""
    rows = []
    for number in range(12):
        start_ns = BEGIN_NS + number * 30 * SECOND_NS
        failed = number == 11
        columns = CallColumns(
            kind="LLM",
            upstream="openai",
            cost_usd=None if failed else number / 8,
            cached_tokens=1,
            error_type="429" if failed else None,
            ttft_ns=0,
        )
        rows.append(
            replace(
                make_row(number + 1),
                start_ns=start_ns,
                end_ns=start_ns + (number + 1) * SECOND_NS,
                recorded_ns=start_ns + 60 * SECOND_NS,
                model="gpt-5" if number % 3 else "gpt-5-mini",
                status="ERROR" if failed else "OK",
                prompt_tokens=10,
                completion_tokens=None if failed else 2 * (number + 1),
                columns=columns,
            )
        )
    with Store.open(tmp_path / "t.db", delivers=False) as owner:
        owner.add(rows)
    return tmp_path / "t.db"


async def test_sums_are_told_over_time_and_by_model(store: Path) -> None:
    """Every call is in one bucket and in one group, and in the total."""
    async with serve_api(store) as api:
        told = await api.get("stats", **HOUR)
    assert (told["step_seconds"], len(told["buckets"])) == (60, 60)
    assert [one["calls"] for one in told["buckets"]][3:11] == [0, 2, 2, 2, 2, 2, 2, 0]
    assert sum(one["errors"] for one in told["buckets"]) == 1
    groups = {one["model"]: one for one in told["groups"]}
    assert (groups["gpt-5"]["calls"], groups["gpt-5-mini"]["calls"]) == (8, 4)
    assert {one["upstream"] for one in told["groups"]} == {"openai"}
    total = told["totals"]
    assert (total["calls"], total["errors"], total["prompt_tokens"]) == (12, 1, 120)
    assert (total["cost_usd"], total["priced"]) == (sum(range(11)) / 8, 11)
    assert total["output_tokens_per_second"] == 2.0
    assert told["complete"] is True


async def test_calls_worth_a_look_are_told_with_their_rows(store: Path) -> None:
    """Five of each: the slowest and the dearest, and how calls failed with the newest one."""
    async with serve_api(store) as api:
        told = await api.get("stats", **HOUR)
        none = await api.get("stats", to="2025-11-20T14:04:00Z", from_="2025-11-20T14:03:00Z")
    assert [one["seq"] for one in told["slowest"]] == [12, 11, 10, 9, 8]
    assert [one["seq"] for one in told["dearest"]] == [11, 10, 9, 8, 7]
    (failed,) = told["failed"]
    assert (failed["error_type"], failed["calls"], failed["last"]["seq"]) == ("429", 1, 12)
    assert (none["slowest"], none["failed"], none["totals"]["calls"]) == ([], [], 0)
    assert none["totals"]["cost_usd"] is None
    assert none["totals"]["duration_ms"] == {"p50": None, "p95": None}


async def test_no_estimate_is_longer_than_the_slowest_call(store: Path) -> None:
    """Rule 4: 12 s are in the bucket from 10.24 to 20.48 s, of which the estimate is in the middle.

    Where the slowest call is not known it stays as it is.
    """
    async with serve_api(store) as api:
        known = await api.get("stats", **HOUR)
        with closing(sqlite3.connect(store)) as connection, connection:
            connection.execute("UPDATE spans SET end_ns = start_ns")
        shorter = await api.get("stats", **HOUR)
    assert known["slowest"][0]["duration_ms"] == 12_000
    assert 10_240 < known["totals"]["duration_ms"]["p95"] <= 12_000
    assert {one["duration_ms"]["p95"] for one in shorter["groups"]} == {0}, "of sums by minute"


async def test_classes_of_errors_that_are_counted_are_bounded(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each call fails in a way of its own, one class more than there may be is left out."""
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE spans SET status = 'ERROR', error_type = 'E' || seq")
    monkeypatch.setattr(sums_of_rows, "MAX_ERROR_TYPES", 3)
    async with serve_api(store) as api:
        told = await api.get("stats", **HOUR)
    assert len(told["failed"]) == 3


@pytest.mark.parametrize("filter_", ["model:gpt-5*", "-status:unset", "in>=10"])
async def test_rows_come_to_the_same_as_minutes(store: Path, filter_: str) -> None:
    """Rule 1: with a filter that holds for all, nothing changes but how it is found."""
    async with serve_api(store) as api:
        assert await api.get("stats", filter=filter_, **HOUR) == await api.get("stats", **HOUR)


async def test_a_filter_and_times_leave_calls_out(store: Path) -> None:
    """What does not fit is in no sum, no bucket and no list."""
    async with serve_api(store) as api:
        told = await api.get("stats", filter="model:gpt-5-mini", **HOUR)
        assert (told["totals"]["calls"], [one["seq"] for one in told["slowest"]]) == (
            4,
            [10, 7, 4, 1],
        )
        part = await api.get("stats", from_="2025-11-20T14:06:10Z", to="2025-11-20T14:08:00Z")
        assert (part["from"][11:16], part["to"][11:16]) == ("14:06", "14:08")
        assert part["totals"]["calls"] == 4
        for wrong in ({"filter": "word"}, {"from_": HOUR["to"], "to": HOUR["from_"]}):
            assert (await api.ask("stats", **wrong)).status == 400


async def test_rows_that_are_in_no_minute_are_summed_up_too(store: Path) -> None:
    """Of a store that was older when they were recorded."""
    async with serve_api(store) as api:
        before = await api.get("stats", **HOUR)
        with closing(sqlite3.connect(store)) as connection, connection:
            connection.execute("DELETE FROM minutes")
            connection.execute("UPDATE tally SET minutes_after = 12")
        assert await api.get("stats", **HOUR) == before
        assert (await api.get("status"))["calls"] == 12


async def test_there_are_200_buckets_at_most(store: Path) -> None:
    """Whatever the range: their length is that of a minute, an hour, a day or more."""
    async with serve_api(store) as api:
        for since in ("2025-11-20T14:00:00Z", "2025-11-01", "2020-01-01", "1700-01-01"):
            told = await api.get("stats", from_=since, to="2025-11-20T17:20:00Z")
            assert len(told["buckets"]) <= statistics.MAX_BUCKETS
            assert sum(one["calls"] for one in told["buckets"]) == 12
        assert (await api.get("stats"))["totals"]["calls"] == 12


@pytest.mark.parametrize(("filter_", "found"), [("model:gpt-5", 4), ("model:nobody's", 0)])
async def test_who_looks_for_calls_worth_a_look_ends_in_time(
    store: Path, monkeypatch: pytest.MonkeyPatch, filter_: str, found: int
) -> None:
    """Rule 2: also where none fits; the newest rows are looked at in any case."""
    monkeypatch.setattr(sums_of_rows, "_FIRST_STEP", 6)
    monkeypatch.setattr(statistics, "LIST_SECONDS", 0.0)
    async with serve_api(store) as api:
        told = await api.get("stats", **HOUR, filter=filter_)
    assert len(told["slowest"]) == found
    assert told["complete"] is False


def test_a_share_of_durations_is_estimated_within_its_bucket() -> None:
    """Of 10 calls from 160 to 320 ms half took 240 ms at most; of none nothing is known."""
    sums = Sums()
    assert sums.duration_ns(0.5) is None
    amounts: list[Any] = [0] * len(sums.amounts)
    amounts[-16 + 5] = 10
    sums.add(amounts)
    assert sums.duration_ns(0.5) == 240_000_000
    assert sums.duration_ns(0.95) == 312_000_000


@pytest.mark.parametrize("since", ["0001-01-01", "1970-01-01", ""])
@pytest.mark.parametrize("until", ["9999-12-31", "9999-12-31T23:59:59Z", "2262-04-11T23:47:17Z"])
@pytest.mark.parametrize("filter_", ["", "status:ok"])
async def test_times_beyond_those_of_the_store_are_its_last(
    store: Path, since: str, until: str, filter_: str
) -> None:
    """All of time, and more than 64 bits of nanoseconds, is no defect."""
    async with serve_api(store) as api:
        told = await api.get("stats", from_=since, to=until, filter=filter_)
    assert told["totals"]["calls"] == (11 if filter_ else 12)
    assert len(told["buckets"]) <= statistics.MAX_BUCKETS
