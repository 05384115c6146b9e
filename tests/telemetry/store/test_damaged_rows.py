"""Rows that a disk damaged: each is lost alone, and said; all others are as they were."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from telemetry.conversations.conversations import REREAD_SECONDS, Conversations
from telemetry.errors import StoreError
from telemetry.reading.stored_calls import open_calls
from telemetry.store.checksum import DAMAGED_WORDS
from telemetry.store.rows import Retention, SpanState
from telemetry.store.store import Store
from tests.telemetry.conversations.agents import Agents
from tests.telemetry.conversations.talks import answer, user
from tests.telemetry.damaged_store import (
    CHAT,
    COLUMNS,
    DAMAGED_ROWS,
    SPARED,
    SPARED_ROWS,
    damage_column,
    list_turns,
    make_store_with_all,
)
from tests.telemetry.reading.asking import where

if TYPE_CHECKING:
    from pathlib import Path

SECOND_NS = 1_000_000_000
OTHER = (user("Is this a new thing that nobody asked before?"), answer("It is, and a good one."))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with something in each table."""
    path = tmp_path_factory.mktemp("whole") / "whole.db"
    make_store_with_all(path)
    return path


def read_column(path: Path, column: str) -> dict[str, object]:
    """A column of spans by their ids, past our reader."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        return dict(connection.execute(f"SELECT span_id, {column} FROM spans").fetchall())


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_no_column_ends_linking(whole: Path, tmp_path: Path, table: str, column: str) -> None:
    """What is not damaged goes on after a restart, and so does what begins then."""
    path = tmp_path / "t.db"
    for turn in list_turns(table):
        damage_column(whole, path, table, column, turn=turn)
        for number in (20, 30):  # each a restart
            with Agents(path) as agents:
                agents._number = number
                agents.now_ns = make_now_ns(number)
                gone_on = agents.call(*CHAT, said=answer("By the second tram, and then on foot."))
                agents.call(OTHER[0], said=OTHER[1])
                last = agents.call(*OTHER, user(f"Why, number {number}?"), said=answer("So."))
            rules = read_column(path, "link_rule")
            assert rules[last] is not None
            assert rules[gone_on] is not None or number == 30 or table == "digest_key"


@pytest.mark.parametrize("value", ["NULL", "x'00ff'", "9e999", "0.5", "'x'", "-5", "1 << 62"])
def test_no_number_of_a_part_ends_a_search(whole: Path, tmp_path: Path, value: str) -> None:
    """Whatever type it has by now, the other calls are searched and found."""
    path = tmp_path / "t.db"
    shutil.copyfile(whole, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f"UPDATE spans SET part = {value} WHERE part IS NOT NULL AND seq <= {DAMAGED_ROWS}"
        )
    with open_calls(path).all_rows() as reader:
        texts = (where('"rainy day"'), where('"third line"'))
        steps = [step for text in texts for step in reader.that(text).search()]
        spans = {
            row.span_id for row in reader.page(100).rows for step in steps if row.seq in step.hits
        }
    assert set(SPARED) <= spans


@pytest.mark.parametrize("value", ["-9e999", "-1e300", "-5", "0.5", "9e999"])
def test_no_number_of_a_run_keeps_runs_from_being_listed(
    whole: Path, tmp_path: Path, value: str
) -> None:
    """The list ends, and has the other run."""
    path = tmp_path / "t.db"
    shutil.copyfile(whole, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE spans SET run = {value} WHERE seq = {DAMAGED_ROWS}")
    with open_calls(path) as reader:
        assert 2 in {run.run for run in reader.runs(100)}


def make_now_ns(number: int) -> int:
    """A time behind all calls before."""
    from tests.telemetry.tap_frames import START_NS  # noqa: PLC0415

    return START_NS + number * 60 * SECOND_NS


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_no_column_keeps_others_from_being_sent_or_removed(
    whole: Path, tmp_path: Path, table: str, column: str
) -> None:
    """Each span is sent once or set aside, and all of them go by age."""
    pending, path = tmp_path / "pending.db", tmp_path / "t.db"
    shutil.copyfile(whole, pending)
    with closing(sqlite3.connect(pending)) as connection, connection:
        connection.execute("UPDATE spans SET state = 'pending'")
        connection.execute("UPDATE tally SET pending = kept, kept = 0")
    damage_column(pending, path, table, column)
    now_ns = make_now_ns(100)
    sent: set[str] = set()
    with Store.open(path, retention=Retention(max_age_ns=SECOND_NS)) as store:
        while due := store.read_due(2, 1 << 20, now_ns):
            sent |= {span.span_id for span in due}
            store.mark_delivered([span.seq for span in due])
        while (alone := store.read_alone(now_ns)) is not None:
            sent.add(alone.span_id)
            store.mark_delivered([alone.seq])
        counts = store.counts()
        assert counts.pending == 0
        assert set(SPARED) <= sent or table == "parts"
        for _ in range(20):
            store.prune(3 << 61)  # behind any time that a row may tell
        left = store.counts()
        assert (left.delivered, left.rejected, left.kept) == (0, 0, 0)
    with closing(sqlite3.connect(path)) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM spans")
    assert not count


def test_a_row_of_no_state_is_set_aside_and_counted(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is neither sent nor forgotten, and the log says how many there are."""
    path = tmp_path / "t.db"
    damage_column(whole, path, "spans", "state")
    with Store.open(path, delivers=False) as store:
        counts = store.counts()
    assert (counts.rejected, counts.kept, counts.damaged) == (
        DAMAGED_ROWS,
        SPARED_ROWS,
        DAMAGED_ROWS,
    )
    assert f"{DAMAGED_ROWS} rows of the store" in caplog.text
    with open_calls(path).all_rows() as reader:
        rows = reader.page(100).rows
    assert {row.last_error for row in rows if row.state is SpanState.REJECTED} == {DAMAGED_WORDS}


@pytest.mark.parametrize("turn", range(6))
@pytest.mark.parametrize("column", [name for table, name in COLUMNS if table == "tally"])
def test_a_damaged_tally_is_counted_anew(
    whole: Path, tmp_path: Path, column: str, turn: int
) -> None:
    """The store opens, counts what it has, and records."""
    path = tmp_path / "t.db"
    damage_column(whole, path, "tally", column, turn=turn)
    with open_calls(path) as reader:
        assert reader.aggregate("model").total
    with Store.open(path, delivers=False) as store:
        assert store.counts().kept == DAMAGED_ROWS + SPARED_ROWS


def test_what_is_kept_is_read_again_after_a_while() -> None:
    """A read that fails delays no call: the next one comes seconds later."""
    now_ns, tries = 0, 0

    def read(**_: int) -> object:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StoreError("it is busy")
        return Conversations()._read_kept()

    conversations = Conversations(read_kept=read, steady_ns=lambda: now_ns)  # type: ignore[arg-type]
    assert [conversations.begin() for _ in range(5)] == [None] * 5
    assert (tries, conversations.remembered) == (1, 0)
    now_ns = REREAD_SECONDS * SECOND_NS
    assert conversations.begin() is not None
    assert tries == 2
