"""``/api/rankings``: the most expensive and the longest conversations and runs, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from telemetry.store.store import Store
from tests.proxy.page.serving import serve_api
from tests.telemetry.run_rows import Run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def keep(path: Path) -> None:
    """A long run, a dear one of the same conversation, and a lone call of another."""
    long = Run(812, conversation=7)
    long.call(0, 1_000, "bash", cost_usd=0.5, input_usd=0.25, saved_usd=0.5, preview="Test it")
    long.tool("bash", 1_000, 8_000)
    long.call(9_000, 1_000)
    dear = Run(815, conversation=7, begin_ms=20_000)
    dear.call(0, 1_000, cost_usd=3.0, input_usd=2.7)
    lone = Run(819, conversation=9, begin_ms=40_000)
    rows = [*long.rows, *dear.rows, lone.call(0, 500)]
    with Store.open(path, delivers=False) as store:
        store.add([replace(row, recorded_ns=row.end_ns) for row in rows])


async def test_runs_and_conversations_are_ranked_by_cost_and_by_time(tmp_path: Path) -> None:
    """The dearest first, the longest first; a lone call is no conversation."""
    keep(tmp_path / "t.db")
    async with serve_api(tmp_path / "t.db") as api:
        runs = await api.get("rankings", by="run")
        talks = await api.get("rankings")
        cheap = await api.get("rankings", by="run", filter="cost<1")
    assert [one["key"] for one in runs["dearest"]] == [815, 812, 819]
    assert [one["key"] for one in runs["longest"]] == [812, 815, 819]
    assert (runs["left_out"], runs["searched_to"]) == (False, None)
    assert [one["key"] for one in cheap["dearest"]] == [812, 819]
    (talk,) = talks["dearest"]
    assert (talk["key"], talk["title"], talk["calls"]) == (7, "Test it", 3)
    assert talk["cost_usd"] == 3.75


async def test_a_conversation_and_a_run_have_the_name_of_their_launch(tmp_path: Path) -> None:
    """Where there is one; also if no question is recorded."""
    named, other = Run(812, conversation=7), Run(815, conversation=8)
    named.call(0, 1_000)
    named.call(2_000, 1_000)
    other.call(0, 1_000)
    rows = [*(replace(row, launch="bergen~~4f2a") for row in named.rows), *other.rows]
    with Store.open(tmp_path / "t.db", delivers=False) as store:
        store.add(rows)
    async with serve_api(tmp_path / "t.db") as api:
        runs = await api.get("rankings", by="run")
        listed = await api.get("conversations", lone="true")
        talk = await api.get("conversations/7")
    launches = {one["key"]: (one["launch"], one["title"]) for one in runs["dearest"]}
    assert launches == {812: ("bergen", None), 815: (None, None)}
    assert [one["launch"] for one in listed["conversations"]] == [None, "bergen"]
    assert talk["conversation"]["launch"] == talk["runs"][0]["launch"] == "bergen"


async def test_a_cost_and_a_time_have_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of a cost is input; what models and tools took, if there was time to look.

    Of calls that a filter chose, only what is between them counts.
    """
    keep(tmp_path / "t.db")
    async with serve_api(tmp_path / "t.db") as api:
        told = await api.get("rankings", by="run")
        chosen = await api.get("rankings", by="run", filter="cost>0.3 cost<1")
        monkeypatch.setattr("proxy.page.api.rankings.TIMES_SECONDS", -1)
        none = await api.get("rankings", by="run")
    assert [one["input_share"] for one in told["dearest"]] == [0.9, None, None]
    first = told["longest"][0]
    assert (first["took_ms"], first["model_ms"], first["tools_ms"]) == (10_000, 2_000, 8_000)
    (part,) = chosen["longest"]
    assert (part["took_ms"], part["model_ms"], part["tools_ms"]) == (1_000, 1_000, 0)
    assert {one["model_ms"] for one in none["longest"]} == {None}


async def test_words_are_not_looked_for(tmp_path: Path) -> None:
    """Sums take conditions alone."""
    keep(tmp_path / "t.db")
    async with serve_api(tmp_path / "t.db") as api:
        told = await api.ask("rankings", filter="word")
    assert (told.status, told.json["error"]["code"]) == (400, "filter")
