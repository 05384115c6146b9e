"""``telemetry.store.calls``: rows that are no calls are in no list, count and sum of calls."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest

from telemetry.facts import DERIVED_KINDS
from telemetry.finding.where import Rows
from telemetry.reading import sums as reading_sums
from telemetry.reading.stored_calls import open_calls
from telemetry.store.calls import IS_CALL, is_call
from telemetry.store.deletion import delete
from telemetry.store.description import describe_store
from telemetry.store.minutes import begin_anew
from telemetry.store.store import Store
from tests.telemetry.due_spans import FOREVER_NS
from tests.telemetry.reading.asking import where
from tests.telemetry.run_rows import lone_call, make_agent_run, marker
from tests.telemetry.span_rows import make_row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from telemetry.reading.calls import Calls

RUN = make_agent_run()
CALLS = [row for row in RUN.rows if row.columns.kind == "LLM"]
LONE = make_row(1)
"""A call that an earlier version recorded: nobody knows its kind."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of a run of three calls, a lone call, and the marker in its trace."""
    path = tmp_path / "traces.db"
    with Store.open(path) as store:
        store.add([LONE, *RUN.rows, marker(1, LONE.trace_id)])
    return path


@pytest.fixture
def reader(path: Path) -> Iterator[Calls]:
    """Of that store."""
    with open_calls(path) as reader:
        yield reader


@pytest.mark.parametrize("kind", [None, "LLM", "CHAIN", "EMBEDDING", "", "tool", *DERIVED_KINDS])
def test_sql_and_predicate_say_the_same(kind: str | None) -> None:
    """A row is a call unless its kind says that it is none."""
    connection = sqlite3.connect(":memory:")
    found = connection.execute(
        f"SELECT {IS_CALL} FROM (SELECT ? AS kind, NULL AS prompt_tokens)", (kind,)
    ).fetchone()
    assert bool(found[0]) is is_call(kind) is (kind not in DERIVED_KINDS)


def test_lists_and_counts_have_calls_alone(reader: Calls) -> None:
    """However they are read; all is there where it is asked for."""
    calls = [LONE.span_id, *(row.span_id for row in CALLS)]
    assert reader.count() == reader.measure().count == len(calls)
    assert [row.span_id for row in reader.rows(reader.walk())] == calls
    assert [row.span_id for row in reader.since(0)] == calls
    assert [one.summary.span_id for one in reader.newest(9)] == calls
    assert [row.span_id for row in reader.page(9).rows] == calls[::-1]
    slow = reader.numbers(9, "duration_ns")
    assert [row.columns.kind for row in reader.rows(slow)] == ["LLM"] * 3 + [None]
    assert sum(len(step.hits) for step in reader.that(where("ChatCompletion")).search()) == len(
        calls
    )
    reader = reader.all_rows()
    told = reader.measure()
    assert (reader.count(), told.count, told.derived) == (9, 9, 5)
    assert len(reader.numbers(99)) == 9


def test_sums_have_calls_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those by minute, those of rows, and the times that are ranked."""
    for ranked, told in ((20_000, 4), (2, 3)):
        monkeypatch.setattr(reading_sums, "MAX_RANKED", ranked)
        for by in ("model", "client"):
            with open_calls(path) as reader:
                groups, total, *_ = reader.aggregate(*reading_sums.GROUPS[by])
                assert total is not None
                assert total.calls == sum(one.calls for one in groups) == 4
                assert total.totals["prompt_tokens"] == 303
                assert total.ranks["duration_ns"].calls == told
                assert sum(usage.calls for usage in reader.usages(by)) == 4
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT sum(calls) FROM minutes").fetchone() == (4,)


def test_sums_of_rows_that_are_in_no_minute_have_calls_alone(path: Path) -> None:
    """Those of an older store, and those that were carried over from a damaged one."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        begin_anew(connection, 9)
    with open_calls(path) as reader:
        groups, total, *_ = reader.aggregate("model")
    assert total is not None
    assert total.calls == sum(one.calls for one in groups) == 4


def test_a_kept_reader_counts_again_when_any_row_that_is_in_no_minute_goes(path: Path) -> None:
    """Also one that is not the oldest: somebody deleted it, or it was sent before an older one."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        begin_anew(connection, 9)
    with Store.open(path) as store, open_calls(path) as reader:
        assert reader.count() == 4
        store.delete([row.seq for row in reader.since(0)][1:3])
        assert reader.count() == reader.measure().count == 2
        store.add([make_row(2)])
        assert reader.count() == 3
        store.mark_delivered([row.seq for row in reader.since(0)][1:2])
        assert store.prune(FOREVER_NS).removed == 1
        assert reader.count() == reader.measure().count == 2


def test_sums_stay_right_when_rows_go(path: Path) -> None:
    """Rows that were never added are not subtracted, from calls without a model either."""
    with Store.open(path) as store:
        store.add([lone_call(77, begin_ms=1, model=None)])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        delete(
            connection,
            [seq for (seq,) in connection.execute("SELECT seq FROM spans WHERE seq < 5")],
        )
        assert connection.execute("SELECT sum(calls) FROM minutes").fetchone() == (3,)
        delete(connection, [8, 9])
        assert connection.execute("SELECT sum(calls) FROM minutes").fetchone() == (3,)
        delete(connection, [seq for (seq,) in connection.execute("SELECT seq FROM spans")])
        assert connection.execute("SELECT count(*) FROM minutes").fetchone() == (0,)


def test_ids_find_calls_by_their_trace_and_other_rows_by_their_own(reader: Calls) -> None:
    """A trace's id would else find every tool in it."""
    assert {one.summary.span_id for one in reader.find(RUN.trace_id)} == {
        row.span_id for row in CALLS
    }
    tool = RUN.rows[1]
    for word in (tool.span_id, tool.span_id[:-1]):
        assert tool.span_id in {one.summary.span_id for one in reader.find(word)}
    [agent] = reader.find(RUN.agent_id)
    assert agent.summary.columns.kind == "AGENT"


def test_they_go_to_the_backend_and_by_age_like_any_span(path: Path) -> None:
    """Delivery and retention know no kinds."""
    with Store.open(path) as store:
        due = store.read_due(99, 1 << 20, FOREVER_NS)
        assert len(due) == 9
        store.mark_delivered([span.seq for span in due])
        while store.prune(FOREVER_NS).more:
            pass
        assert store.counts().delivered == 0


def test_a_store_tells_how_many_of_each_there_are(path: Path) -> None:
    """States are those of all."""
    described = describe_store(path)
    assert described.derived == {"AGENT": 1, "TOOL": 3, "MARKER": 1}
    assert sum(described.counts.values()) == 9


def test_what_was_found_out_from_a_call_is_chosen_with_it(reader: Calls) -> None:
    """All of a run that has one such call; of others nothing."""
    told = reader.that(where(f"id:{CALLS[0].span_id}").also(rows=Rows.WITH_FOUND_OUT)).measure()
    assert (told.count, told.derived) == (5, 4)
