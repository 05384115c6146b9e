"""``/api/groups``: sums of each session and of each user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry.reading import groups as groups_module
from telemetry.store.store import Store
from tests.proxy.page.serving import serve_api
from tests.telemetry.conversations.agents import Agents
from tests.telemetry.conversations.talks import answer, user
from tests.telemetry.run_rows import Run
from tests.telemetry.test_canary import rules_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def keep(path: Path) -> None:
    """Record three sessions of two users, oldest first, and calls that nobody named."""
    rows = []
    for number, (session, name) in enumerate(
        [("s-1", "ann"), ("s-2", "bob"), (None, None), ("s-3", "ann"), (None, None)]
    ):
        run = Run(number + 1, begin_ms=number * 60_000, session=session, user=name)
        run.call(0, 500, status="ERROR" if number == 3 else "OK", preview=f"question {number}")
        run.call(1_000, 500, preview=f"question {number} again")
        rows += run.rows
    with Store.open(path, delivers=False) as store:
        store.add(rows)


async def test_sessions_and_users_have_the_sums_of_their_calls(tmp_path: Path) -> None:
    """The one with the newest call comes first, with what that call was asked."""
    keep(tmp_path / "t.db")
    async with serve_api(tmp_path / "t.db") as api:
        sessions = await api.get("groups")
        users = await api.get("groups", by="user")
    told = [(one["value"], one["calls"], one["errors"]) for one in sessions["groups"]]
    assert told == [("s-3", 2, 1), ("s-2", 2, 0), ("s-1", 2, 0)]
    assert [(one["value"], one["calls"]) for one in users["groups"]] == [("ann", 4), ("bob", 2)]
    assert users["groups"][0]["preview"] == "question 3 again"
    assert users["groups"][0]["cost_usd"] == 1.0
    assert (users["unnamed"], users["left_out"], users["next"]) == (4, False, None)


async def test_a_filter_and_a_time_choose_the_calls(tmp_path: Path) -> None:
    """A text is refused, because it would have to be looked for in every call."""
    keep(tmp_path / "t.db")
    async with serve_api(tmp_path / "t.db") as api:
        failed = await api.get("groups", by="user", filter="status:error")
        older = await api.get("groups", to="2025-11-20T14:05:30Z")
        one = await api.get("groups", limit=1)
        refused = await api.ask("groups", filter='"any text"')
    assert [(one["value"], one["calls"]) for one in failed["groups"]] == [("ann", 1)]
    assert [one["value"] for one in older["groups"]] == ["s-2", "s-1"]
    assert (len(one["groups"]), one["left_out"]) == (1, True)
    assert (refused.status, refused.json["error"]["code"]) == (400, "filter")


async def test_what_was_not_read_in_time_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says from when on the calls were read."""
    monkeypatch.setattr(groups_module, "STEP_NUMBERS", 4)
    monkeypatch.setattr("proxy.page.api.groups.GROUP_SECONDS", 0.0)
    keep(tmp_path / "t.db")
    async with serve_api(tmp_path / "t.db") as api:
        newest = await api.get("groups")
        older = await api.get("groups", before=newest["next"])
    assert [one["value"] for one in newest["groups"]] == ["s-3"]
    assert newest["searched_to"] == "2025-11-20T14:07:05.000000000Z"
    assert [one["value"] for one in older["groups"]] == ["s-2"]


async def test_what_inputs_hide_is_in_no_list(tmp_path: Path) -> None:
    """A session is listed without what was asked in it."""
    for hidden in (False, True):
        path = tmp_path / f"{hidden}.db"
        with Agents(path, rules_of(*["HIDE_INPUTS"] * hidden)) as agents:
            agents.call(user("ann's secret"), said=answer("ok"), headers=(("x-session-id", "s-1"),))
        async with serve_api(path) as api:
            told = await api.ask("groups")
        assert [one["value"] for one in told.json["groups"]] == ["s-1"]
        assert ("secret" in told.body.decode()) == (not hidden)
