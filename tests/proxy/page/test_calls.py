"""``/api/status`` and ``/api/calls``: pages, filters, times, and what is wrong in a request."""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from proxy.reading.record import build_summary_record, format_time
from telemetry.reading.stored_calls import open_calls
from tests.proxy.page.serving import serve_api
from tests.proxy.recorded_calls import (
    START_NS,
    make_exchange,
    make_failed_exchange,
    make_store,
    span_id_of,
)

if TYPE_CHECKING:
    from pathlib import Path


def numbers(told: Any) -> list[int]:
    """The numbers of the calls that were told."""
    return [row["seq"] for row in told["calls"]]


async def test_rows_are_those_of_the_terminal_newest_first(tmp_path: Path) -> None:
    """A row of the API is the record that ``spantap traces --json`` prints."""
    store = make_store(tmp_path / "t.db", make_exchange(1), make_failed_exchange(2))
    async with serve_api(store) as api:
        told = await api.get("calls")
    with open_calls(store) as reader:
        assert told["calls"] == [build_summary_record(row) for row in reader.page(10).rows]
    assert (told["next"], told["searched_to"], told["complete"]) == (None, None, True)


async def test_the_status_counts_what_there_is(tmp_path: Path) -> None:
    """Calls, the newest number, and what waits for the backend; nobody knows of anything lost."""
    store = make_store(tmp_path / "t.db", *map(make_exchange, (1, 2, 3)), delivers=True)
    async with serve_api(store) as api:
        told = await api.get("status")
    assert (told["calls"], told["newest_seq"], told["pending"], told["rejected"]) == (3, 3, 3, 0)
    assert (told["live"], told["live_text"], told["lost"]) == (False, False, None)
    assert told["store"] == str(store)
    assert (told["proxy_url"], told["asks_for_key"]) == (None, False)


@pytest.mark.parametrize("source", ["default", "variable"])
async def test_the_status_says_what_a_command_needs_to_find_the_store(
    tmp_path: Path, source: str
) -> None:
    """The option is quoted for a shell; there is none if the store is that of the defaults."""
    folder = tmp_path / "it's here"
    folder.mkdir()
    store = make_store(folder / "t.db", make_exchange(1))
    async with serve_api(store, shown=({"name": "store", "source": source},)) as api:
        option = (await api.get("status"))["store_option"]
    assert shlex.split(option) == ([] if source == "default" else ["--store", str(store)])


async def test_the_columns_show_members_of_a_row(tmp_path: Path) -> None:
    """By the formats that the page knows; a parameter is an error, as anywhere."""
    store = make_store(tmp_path / "t.db", make_exchange(1))
    async with serve_api(store) as api:
        (row,) = (await api.get("calls"))["calls"]
        columns = (await api.get("columns"))["columns"]
        wrong = await api.ask("columns", limit=3)
    names = ["state", "time", "model", "client", "what", "in", "out", "ttft", "took", "cost"]
    assert [column["name"] for column in columns if column["name"] in names] == names
    assert {column["member"] for column in columns} - {None} <= row.keys()
    assert (wrong.status, wrong.json["error"]["code"]) == (400, "parameter")


async def test_pages_follow_one_another_without_a_gap(tmp_path: Path) -> None:
    """``next`` goes on where a page ends, and is null on the last one."""
    store = make_store(tmp_path / "t.db", *map(make_exchange, range(1, 8)))
    async with serve_api(store) as api:
        first = await api.get("calls", limit=3)
        second = await api.get("calls", limit=3, before=first["next"])
        third = await api.get("calls", limit=3, before=second["next"])
        assert numbers(first) + numbers(second) + numbers(third) == [7, 6, 5, 4, 3, 2, 1]
        assert third["next"] is None
        exact = await api.get("calls", limit=7)
        assert (numbers(exact)[-1], exact["next"]) == (1, None)
        assert numbers(await api.get("calls", after=5)) == [7, 6]
        newest = await api.get("calls", after=3, limit=2)
        older = await api.get("calls", after=3, before=newest["next"])
        assert (numbers(newest), numbers(older), older["next"]) == ([7, 6], [5, 4], None)


async def test_a_filter_asks_columns_and_content(tmp_path: Path) -> None:
    """Conditions and texts hold together; a search says how far back it has come."""
    asked = {"model": "m", "messages": [{"role": "user", "content": "the needle"}]}
    other = make_exchange(1, request_json=asked)
    store = make_store(tmp_path / "t.db", other, make_failed_exchange(2), make_exchange(3))
    async with serve_api(store) as api:
        assert numbers(await api.get("calls", filter="status:error")) == [2]
        told = await api.get("calls", filter="needle")
        assert (numbers(told), told["next"], told["complete"]) == ([1], None, True)
        assert told["searched_to"] == format_time(START_NS + 1_000_000_000)
        assert numbers(await api.get("calls", filter="needle status:error")) == []


async def test_a_search_that_is_limited_goes_on_where_it_was(tmp_path: Path) -> None:
    """Hits beyond the limit are those of the next page."""
    store = make_store(tmp_path / "t.db", *map(make_exchange, range(1, 6)))
    async with serve_api(store) as api:
        found: list[int] = []
        before: int | None = 100
        for _ in range(3):
            told = await api.get("calls", filter="Hello", limit=2, before=before or 0)
            found += numbers(told)
            before = told["next"]
    assert (found, before) == ([5, 4, 3, 2, 1], None)


async def test_times_bound_the_list(tmp_path: Path) -> None:
    """From a time on, and before another, to the nanosecond."""
    store = make_store(tmp_path / "t.db", *map(make_exchange, range(1, 6)))
    second, fourth = (format_time(START_NS + n * 1_000_000_000) for n in (2, 4))
    async with serve_api(store) as api:
        assert numbers(await api.get("calls", from_=second, to=fourth)) == [3, 2]
        assert numbers(await api.get("calls", from_="2025-11-20T15:04:07+01:00")) == [5, 4, 3, 2]
        assert numbers(await api.get("calls", to="1969-01-01T00:00:00Z")) == []


@pytest.mark.parametrize(
    ("parameters", "code", "words"),
    [
        ({"limit": "0"}, "parameter", "limit is a whole number from 1 to 300"),
        ({"limit": "x"}, "parameter", "limit"),
        ({"before": str(1 << 63)}, "parameter", "before"),
        ({"from_": "yesterday"}, "parameter", "from is a time"),
        ({"tail": "1"}, "parameter", "no parameter 'tail' here: filter, from"),
        ({"filter": "nosuch:1"}, "filter", "nosuch"),
    ],
)
async def test_what_is_wrong_is_named(
    tmp_path: Path, parameters: dict[str, str], code: str, words: str
) -> None:
    """An error has a code, and says which parameter and what would be right."""
    store = make_store(tmp_path / "t.db", make_exchange(1))
    async with serve_api(store) as api:
        told = await api.ask("calls", **parameters)
    assert (told.status, told.json["error"]["code"]) == (400, code)
    assert words in told.json["error"]["message"]
    assert ("position" in told.json["error"]) is (code == "filter")


async def test_without_a_store_the_api_says_so(tmp_path: Path) -> None:
    """503, in words, until there is one."""
    async with serve_api(tmp_path / "none.db") as api:
        told = await api.ask("status")
        assert (told.status, told.json["error"]["code"]) == (503, "store")
        make_store(tmp_path / "none.db", make_exchange(1))
        assert (await api.get("status"))["calls"] == 1


@pytest.mark.parametrize(
    "damage",
    [
        "start_ns = 'soon'",
        "start_ns = 1 << 62",
        "end_ns = x'00ff'",
        "ttft_ns = 'x'",
        "tools = 5",
        "state = 'elsewhere'",
        "cost_usd = 9e999",
        "launch = 5",
        "preview = x'ff'",
        "preview = CAST(x'ff' AS TEXT)",
    ],
)
async def test_a_damaged_row_hides_no_other(tmp_path: Path, damage: str) -> None:
    """A row with a value of the wrong type is told as damaged at worst, beside whole ones."""
    store = make_store(tmp_path / "t.db", make_exchange(1), make_exchange(2))
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute(f"UPDATE spans SET {damage} WHERE seq = 1")
    async with serve_api(store) as api:
        told = await api.get("calls")
        assert [row["span_id"] for row in told["calls"]] == [span_id_of(2), span_id_of(1)]
