"""``/api/stats``: sums over time and by model, of minutes and of rows, and calls worth a look."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from codec.text.jsontext import decode_json_object
from proxy.commands.stats import StatsOptions, run_stats
from proxy.page.api import statistics
from telemetry.facts import CallColumns
from telemetry.pricing.price_table import PriceTable
from telemetry.reading import sums as reading_sums
from telemetry.reading.sqlite import notable, ranking
from telemetry.store.store import Store
from tests.proxy.page.serving import serve_api
from tests.telemetry.span_rows import make_row

if TYPE_CHECKING:
    from pathlib import Path

    from codec.text.jsontext import JsonObject

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
    assert none["totals"]["duration_ms"] == dict.fromkeys(("p50", "p90", "p95", "p99"))


def ask_stats(store: Path, *words: str, by: str = "") -> list[JsonObject]:
    """What ``spantap stats`` says: the groups, and all calls as the last."""
    out = io.StringIO()
    options = StatsOptions(words=words, by=by, as_json=True)
    assert not run_stats(store, options, prices=PriceTable, out=out, err=io.StringIO())
    return [decode_json_object(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("filter_", ["", "status:ok", "model:gpt-5"])
async def test_calls_that_all_took_392_ms_have_that_percentile(store: Path, filter_: str) -> None:
    """To the digit, here and in ``spantap stats``; of no call nothing is known."""
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE spans SET end_ns = start_ns + 392000000")
    async with serve_api(store) as api:
        told = await api.get("stats", filter=filter_, **HOUR)
        none = await api.get("stats", filter="model:nobody's", **HOUR)
    for one in (told["totals"], *told["groups"]):
        assert one["duration_ms"] == dict.fromkeys(("p50", "p90", "p95", "p99"), 392.0)
    assert none["totals"]["duration_ms"] == dict.fromkeys(("p50", "p90", "p95", "p99"))
    assert ask_stats(store, filter_)[-1]["duration_ms"]["p50"] == 392.0


@pytest.mark.parametrize("filter_", ["", "-status:unset", "model:gpt-5*"])
@pytest.mark.parametrize("ranked", [1, 3, 5, 11, 12])
@pytest.mark.parametrize("is_in_minutes", [True, False])
async def test_the_page_and_the_command_say_the_same(
    store: Path, monkeypatch: pytest.MonkeyPatch, filter_: str, ranked: int, *, is_in_minutes: bool
) -> None:
    """Of all calls, and of some of them where they are many: of each model and of all."""
    monkeypatch.setattr(reading_sums, "MAX_RANKED", ranked)
    if not is_in_minutes:
        with closing(sqlite3.connect(store)) as connection, connection:
            connection.execute("DELETE FROM minutes")
            connection.execute("UPDATE tally SET minutes_after = 12")
    async with serve_api(store) as api:
        told = await api.get("stats", filter=filter_, **HOUR)
    *models, total = ask_stats(store, filter_, by="model")
    p50_of = {one["model"]: one["duration_ms"]["p50"] for one in told["groups"]}
    assert p50_of == {one["key"]: one["duration_ms"]["p50"] for one in models}
    assert told["totals"]["duration_ms"]["p50"] == total["duration_ms"]["p50"]
    assert total["duration_ms"]["calls"] == ranked
    assert told["complete"] is True


async def test_of_a_part_of_the_time_those_calls_are_ranked(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether all of them are, or some."""
    times = {"from_": "2025-11-20T14:05:00Z", "to": "2025-11-20T14:07:00Z"}
    async with serve_api(store) as api:
        for ranked in (20, 2):
            monkeypatch.setattr(reading_sums, "MAX_RANKED", ranked)
            told = await api.get("stats", **times)
            assert told["totals"]["calls"] == 4
            assert 3_000 <= told["totals"]["duration_ms"]["p50"] <= 5_000
            assert told["totals"]["duration_ms"]["p95"] in {5_000, 6_000}


@pytest.mark.parametrize("filter_", ["", "status:ok"])
async def test_ranks_that_are_late_say_so(
    store: Path, monkeypatch: pytest.MonkeyPatch, filter_: str
) -> None:
    """Some calls are ranked then, from first to last, and ``complete`` is false."""
    monkeypatch.setattr(ranking, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(statistics, "SUM_SECONDS", 0.0)
    async with serve_api(store) as api:
        told = await api.get("stats", filter=filter_, **HOUR)
    assert told["complete"] is False
    times = told["totals"]["duration_ms"]
    assert (times["p50"], times["p95"], times["p99"]) == (1_000, 7_000, 7_000)


async def test_classes_of_errors_that_are_counted_are_bounded(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each call fails in a way of its own, one class more than there may be is left out."""
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE spans SET status = 'ERROR', error_type = 'E' || seq")
    monkeypatch.setattr(notable, "MAX_ERROR_TYPES", 3)
    async with serve_api(store) as api:
        told = await api.get("stats", **HOUR)
    assert len(told["failed"]) == 3


@pytest.mark.parametrize("filter_", ["model:gpt-5*", "-status:unset", "in>=10"])
async def test_rows_come_to_the_same_as_minutes(store: Path, filter_: str) -> None:
    """With a filter that holds for all, nothing changes but how it is found."""
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
    """Also where none fits; the newest rows are looked at in any case."""
    monkeypatch.setattr(notable, "_FIRST_STEP", 6)
    monkeypatch.setattr(statistics, "LIST_SECONDS", 0.0)
    async with serve_api(store) as api:
        told = await api.get("stats", **HOUR, filter=filter_)
    assert len(told["slowest"]) == found
    assert told["complete"] is False


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
