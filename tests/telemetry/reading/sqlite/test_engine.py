"""``telemetry.reading.sqlite.engine``: reading a store while its owner writes it."""

from __future__ import annotations

import dataclasses
import os
import threading
from typing import TYPE_CHECKING

import msgspec
import pytest
from msgspec.structs import replace

from telemetry.errors import StoreUnavailable
from telemetry.facts import CallColumns
from telemetry.reading import calls, conversation_family
from telemetry.reading.engine import never
from telemetry.reading.sqlite import summing, walking
from telemetry.reading.stored_calls import open_calls
from tests.telemetry.reading.asking import connection_of
from tests.telemetry.span_rows import FULL_COLUMNS, make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from telemetry.reading.calls import Calls
    from telemetry.store.store import Store


@pytest.fixture
def reader(store: Store) -> Iterator[Calls]:
    """A reader of that store."""
    with open_calls(store.path) as opened:
        yield opened


def test_summary_holds_what_was_recorded(store: Store, reader: Calls) -> None:
    """A summary is the row without its bytes, and with its fate."""
    row = replace(make_row(1), columns=FULL_COLUMNS)
    store.add([row])
    summary = dataclasses.asdict(reader.page(1).rows[0])
    recorded = msgspec.structs.asdict(row)
    span = recorded.pop("span")
    for beside in ("kept_call", "pictures", "raw"):  # which the list does not read
        del recorded[beside]
    assert {name: summary.pop(name) for name in recorded} == recorded
    assert summary == {
        "seq": 1,
        "size_bytes": len(span),
        "state": "pending",
        "attempts": 0,
        "next_try_ns": 0,
        "last_error": None,
    }


def test_pages_of_the_newest(store: Store, reader: Calls) -> None:
    """Pages go from new to old, and one begins where the last ended, whatever is added."""
    store.add(make_rows(range(1, 6)))
    first = reader.page(2).rows
    store.add([make_row(6)])
    second = reader.page(10, before=first[-1].seq).rows
    ids = [summary.span_id for summary in (*first, *second)]
    assert ids == [span_id(number) for number in (5, 4, 3, 2, 1)]


def test_following(store: Store, reader: Calls) -> None:
    """What comes after a number is what was recorded since, oldest first, pruned or not."""
    assert reader.after(0) == []
    store.add(make_rows([1, 2]))
    seen = reader.after(0)
    assert [summary.span_id for summary in seen] == [span_id(1), span_id(2)]
    store.mark_delivered([summary.seq for summary in seen])
    assert store.prune(2**62).removed == 2
    store.add([make_row(3)])
    assert [summary.span_id for summary in reader.after(seen[-1].seq)] == [span_id(3)]


@pytest.mark.parametrize("limit", [-1, 0, calls.ROWS_OF_A_READ + 1])
def test_limits_are_bounded(store: Store, reader: Calls, limit: int) -> None:
    """No limit makes a read long, a negative one neither."""
    store.add(make_rows(range(calls.ROWS_OF_A_READ + 1)))
    assert len(reader.after(0, limit)) == max(0, min(limit, calls.ROWS_OF_A_READ))


@pytest.mark.parametrize("limit", [1, 9, 10, 11, 25, 30, 99])
def test_the_newest_are_as_many_as_asked_for(
    store: Store, reader: Calls, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 1: however many steps that takes; what is added meanwhile is not among them."""
    monkeypatch.setattr(walking, "STEP_NUMBERS", 10)
    rows = make_rows(range(1, 31))
    store.add(rows)
    spans = reader.newest(limit)
    found = [next(spans)]
    store.add([make_row(31)])
    found.extend(spans)
    assert [one.span for one in found] == [row.span for row in rows[-limit:]]


def test_since_goes_on_until_nothing_is_left(
    store: Store, reader: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 2: page after page, with what is added meanwhile."""
    monkeypatch.setattr(calls, "ROWS_OF_A_READ", 2)
    store.add(make_rows(range(1, 6)))
    spans = reader.since(1)
    first = next(spans)
    store.add([make_row(6)])
    ids = [row.span_id for row in (first, *spans)]
    assert ids == [span_id(number) for number in range(2, 7)]


def test_rule_3_no_listed_span_is_searched_for(store: Store, reader: Calls) -> None:
    """Each is found by its number or by the index of span ids: nothing is scanned or sorted."""
    store.add(make_rows(range(1, 31)))
    statements: list[str] = []
    connection = connection_of(reader)
    connection.set_trace_callback(statements.append)
    assert len(list(reader.newest(20))) == 20
    assert len(list(reader.since(20))) == 10
    assert len(reader.find(span_id(7))) == 1
    assert reader.one(span_id(7)) is not None
    assert reader.one(span_id(31)) is None
    connection.set_trace_callback(None)
    assert len(statements) > 31
    for statement in set(statements):
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        assert all(detail.startswith("SEARCH") for *_, detail in plan), (statement, plan)


def test_rule_1_a_conversation_is_summed_up_in_reads_that_are_short(
    store: Store, reader: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No transaction makes one of them."""
    monkeypatch.setattr(summing, "STEP_ROWS", 2)
    store.add([replace(row, columns=CallColumns(conversation=1)) for row in make_rows(range(5))])
    statements: list[str] = []
    connection_of(reader).set_trace_callback(statements.append)
    sums = reader.of_conversation(1).sum()
    assert sums is not None
    assert sums.calls == 5
    assert not any(one.startswith("BEGIN") for one in statements), statements


def test_a_family_is_found_without_what_does_not_place_its_rows(
    store: Store, reader: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In short reads, also where a disk damaged a row."""
    monkeypatch.setattr(conversation_family, "_OWN_STEP", 2)
    columns = CallColumns(kind="LLM", conversation=1, run=1)
    store.add([replace(row, columns=columns) for row in make_rows(range(1, 6))])
    statements: list[str] = []
    connection_of(reader).set_trace_callback(statements.append)
    family = reader.of_conversation(1).family(never)
    assert [row.seq for row in family.rows] == [1, 2, 3, 4, 5]
    assert family.is_whole
    reads = [one for one in statements if "span_id" in one]
    assert len(reads) == 3 + 1, "and one for sub-agents"
    assert not any("preview" in one for one in reads)
    with store._file.use() as connection:
        connection.execute("UPDATE spans SET run = x'ff', kind = 3, trace_id = 7 WHERE seq = 2")
    assert len(reader.of_conversation(1).family(never).rows) == 5


def test_finding_by_prefix(store: Store, reader: Calls) -> None:
    """A prefix of the span id or of the trace id finds spans with their bytes, newest first."""
    row = make_row(0xAB)
    other = msgspec.structs.replace(make_row(2), span_id="ab" + "f" * 14)
    store.add([row, other, make_row(3)])
    assert [found.span for found in reader.find("00000000000000AB")] == [row.span]
    assert [found.summary.span_id for found in reader.find("abf")] == [other.span_id]
    assert [found.summary.seq for found in reader.find("0")] == [3, 2, 1]
    assert [found.summary.seq for found in reader.find("0", limit=1)] == [3]
    assert [found.summary.seq for found in reader.find(other.trace_id)] == [2]


def test_finding_by_the_provider_s_request_id(store: Store, reader: Calls) -> None:
    """A whole one finds those that have it alone, however many newer ones begin like it."""
    names = ["req_a", "req_A1", "req_a", *(f"req_a{number}" for number in range(20)), None]
    rows = [
        replace(make_row(number), columns=CallColumns(request_id=name))
        for number, name in enumerate(names, 1)
    ]
    store.add(rows)
    assert [found.summary.seq for found in reader.find("req_a")] == [3, 1]
    assert [found.summary.seq for found in reader.find("req_A")] == [2]
    assert [found.summary.seq for found in reader.find("req_", limit=2)] == [23, 22]
    assert [found.span for found in reader.find("req_a7")] == [rows[10].span]


@pytest.mark.parametrize("prefix", ["", "xyz", "%", "0' OR 1", "\ud800"])
def test_what_is_no_id_finds_nothing(store: Store, reader: Calls, prefix: str) -> None:
    """Only hexadecimal digits can find anything."""
    store.add([make_row(1)])
    assert reader.find(prefix) == []


def test_span_pruned_between_two_reads(store: Store, reader: Calls) -> None:
    """A span whose bytes are gone by the time they are read is left out."""
    store.add([make_row(1)])
    with store._file.use() as connection:
        connection.execute("DELETE FROM span_bytes")
    assert reader.find(span_id(1)) == []


def test_reading_while_writing(store: Store) -> None:
    """A reader in another thread never fails, never blocks the owner, and sees whole commits."""
    finished = threading.Event()
    seen: list[int] = []

    def read() -> None:
        with open_calls(store.path) as reader:
            while not finished.is_set():
                seen.append(len(reader.after(0)))

    reading = threading.Thread(target=read)
    reading.start()
    for start in range(0, 500, 5):
        store.add(make_rows(range(start, start + 5)))
    finished.set()
    reading.join()
    assert all(count % 5 == 0 for count in seen)
    assert seen == sorted(seen)
    assert len(set(seen)) > 1


def test_reading_after_a_clean_end(store: Store) -> None:
    """A store whose owner has left is readable."""
    store.add([make_row(1)])
    store.close()
    with open_calls(store.path) as reader:
        assert len(reader.page(10).rows) == 1


def test_no_store(tmp_path: Path) -> None:
    """Where nothing is, or nothing was recorded, the message says so and nothing is made."""
    path = tmp_path / "none.db"
    with pytest.raises(StoreUnavailable, match=f"no store at {path}"):
        open_calls(path)
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - the shortest
    path.touch()
    with pytest.raises(StoreUnavailable, match="is empty"):
        open_calls(path)
