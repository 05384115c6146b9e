"""A column that a disk damaged, in each row by another value: every command shows the others."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json
from proxy import __main__ as program
from telemetry.facts import COLUMN_NAMES
from telemetry.store.checksum import DAMAGED_WORDS
from tests.proxy.page.serving import serve_api
from tests.telemetry.damaged_store import (
    COLUMNS,
    DAMAGED_ROWS,
    SPARED,
    damage_column,
    list_turns,
    make_store_with_all,
)

if TYPE_CHECKING:
    from pathlib import Path

LISTS = (
    ("traces", "--limit", "100"),
    ("traces", "--runs"),
    ("traces", "--runs", "--json"),
    ("traces", "--sort", "slow"),
    ("traces", "--sort", "cost", "dur:>1ms"),
    ("traces", "--sort", "tokens", "--since", "2000-01-01"),
    ("traces", "third line"),
    ("traces", "show", "last"),
    ("traces", "show", SPARED[0]),
    ("stats", "--json", "--by", "model"),
    ("stats", "--by", "upstream", "--since", "2000-01-01"),
    ("stats", "--by", "client", "status:ok"),
    ("stats", "--by", "session"),
    ("stats", "--by", "tool"),
    ("stats", "--by", "hour"),
    ("stats", "--by", "conversation"),
    ("stats", "--by", "conversation", "--json"),
    ("stats", "--by", "run", "status:ok"),
    ("stats", "--by", "run", "--json", "--since", "2000-01-01"),
    ("traces", "--runs", "--sort", "slow"),
    ("traces", "--runs", "--sort", "cost"),
    ("traces", "--runs", "--sort", "tokens"),
    ("stats", "--price-as", "gpt-5"),
    ("store", "info"),
    ("store", "export", "--format", "jsonl"),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with something in each table."""
    path = tmp_path_factory.mktemp("whole") / "whole.db"
    make_store_with_all(path)
    return path


@pytest.fixture
def _one_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build the parser of the command line once, and not for each of many commands."""
    monkeypatch.setattr(program, "build_parser", cache(program.build_parser))


def _list_places(path: Path) -> list[tuple[str, ...]]:
    """The commands that show the conversations and the runs whose numbers are whole."""
    with closing(sqlite3.connect(path)) as store:
        return [
            ("traces", "show", f"{name}:{number}", *more)
            for name in ("conversation", "run")
            for (number,) in store.execute(
                f"SELECT DISTINCT {name} FROM spans"
                f" WHERE typeof({name}) = 'integer' AND {name} BETWEEN 1 AND 1000"
            )
            for more in ((), ("--json",))
        ]


@pytest.mark.usefixtures("_one_parser")
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_no_column_keeps_a_command_from_its_work(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str, column: str
) -> None:
    """Lists, sums, searches: exit status 0, and the other calls are there.

    An export that leaves calls out says so, and ends with 1.
    """
    path = tmp_path / "t.db"
    for turn in list_turns(table):
        damage_column(whole, path, table, column, turn=turn)
        for arguments in (*LISTS, *_list_places(path)):
            status = program.main([*arguments, "--store", str(path)])
            said = capsys.readouterr().err
            assert status == int("left out, for damage" in said), said
        assert program.main(["traces", "--json", "--full", "--store", str(path)]) == 0
        records: list[Any] = [decode_json(line) for line in capsys.readouterr().out.splitlines()]
        assert set(SPARED) <= {record["span_id"] for record in records}
        spared = [record for record in records if record["span_id"] in SPARED]
        assert {record["last_error"] for record in spared} == {None} or table == "parts"
        if table == "spans" and column in COLUMN_NAMES and turn == 0:
            told = [record["last_error"] for record in records]
            assert 0 < told.count(DAMAGED_WORDS) <= DAMAGED_ROWS


@pytest.mark.parametrize(("table", "column"), COLUMNS)
async def test_no_column_keeps_the_page_from_its_answers(
    whole: Path, tmp_path: Path, table: str, column: str
) -> None:
    """Lists, sums, conversations and the other calls are there, as the schema has them."""
    path = tmp_path / "t.db"
    for turn in list_turns(table):
        damage_column(whole, path, table, column, turn=turn)
        async with serve_api(path) as api:
            await api.get("status")
            await api.get("stats")
            await api.get("stats", filter="status:ok")
            await api.get("stats", from_="2000-01-01T00:00:00Z", to="2100-01-01T00:00:00Z")
            for by in ("conversation", "run"):
                await api.get("rankings", by=by)
            await api.get("failures")
            listed = await api.get("calls")
            assert set(SPARED) <= {call["span_id"] for call in listed["calls"]}
            for lone in ("false", "true"):
                for one in (await api.get("conversations", lone=lone))["conversations"]:
                    for place in ("", "/transcript", "/context"):
                        await api.get(f"conversations/{one['number']}{place}")
            for call in listed["calls"]:
                await api.ask(f"calls/{call['span_id']}")
            for span_id in SPARED:
                await api.get(f"calls/{span_id}")
                await api.get(f"calls/{span_id}/copy", as_="json")
                await api.get(f"calls/{span_id}/raw", part="span")
