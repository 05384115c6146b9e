"""``telemetry.reading.sqlite.searching``: searching for texts in the bytes of spans."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from telemetry.finding.filter import parse_filter
from telemetry.reading.engine import LAST_SEQ, SearchStep
from telemetry.reading.sqlite import searching
from telemetry.reading.sqlite.conditions import write_where
from telemetry.reading.sqlite.searching import STEP_SECONDS, STEP_SPANS, search
from telemetry.store.opening import connect_reader, wal_path
from telemetry.store.store import Store
from tests.telemetry.damage import make_older
from tests.telemetry.reading.asking import write
from tests.telemetry.span_rows import SECOND_NS, make_row, make_rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from telemetry.store.rows import SpanRow


def make_text_row(number: int, text: str, model: str = "gpt-4o-mini") -> SpanRow:
    """A row whose span holds a text as it is, and a body with it."""
    row = make_row(number)
    request = ExportTraceServiceRequest.FromString(row.span)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    for key, value in (("text", text), ("input.value", json.dumps({"content": text}))):
        span.attributes.add(key=key).value.string_value = value
    return replace(row, span=request.SerializeToString(), model=model)


def find(connection: sqlite3.Connection, *texts: str, **options: object) -> list[int]:
    """Numbers of all spans that are found."""
    steps = search(connection, texts, **options)  # type: ignore[arg-type]
    return [seq for step in steps for seq in step.hits]


@pytest.fixture
def connection(store: Store) -> Iterator[sqlite3.Connection]:
    """A reader's connection to the store."""
    with contextlib.closing(connect_reader(store.path)) as opened:
        yield opened


def step_clock(step_seconds: float) -> Callable[[], int]:
    """A clock that goes on by so much whenever it is read."""
    ticks = itertools.count()
    return lambda: int(next(ticks) * step_seconds * SECOND_NS)


def test_newest_first(store: Store, connection: sqlite3.Connection) -> None:
    """Rule 3: spans that hold every text, in either case, whatever is around them."""
    store.add(
        [
            make_text_row(1, "the Tool said: not found"),
            make_text_row(2, "the tool said nothing"),
            make_text_row(3, "Not Found, said a tool"),
        ]
    )
    assert find(connection, "not found") == [3, 1]
    assert find(connection, "not found", "The tool") == [1]
    assert find(connection, "nowhere") == []
    assert find(connection) == [3, 2, 1]


def test_a_text_in_a_body_is_found_by_its_quotes_and_lines(
    store: Store, connection: sqlite3.Connection
) -> None:
    """Where bodies alone hold it, as JSON in JSON."""
    row = make_text_row(1, json.dumps({"path": 'C:\\x "é"\n'}))
    store.add([row])
    assert find(connection, 'c:\\x "é"') == [1]
    assert find(connection, 'C:\\y "é"') == []


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 4), st.integers(1, 4))
def test_rule_2_whatever_the_steps_are_the_same_is_found(
    tmp_path_factory: pytest.TempPathFactory, has_text: list[bool], spans: int, numbers: int
) -> None:
    """Each span that holds the text, once; the last step has come to the first span."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "STEP_SPANS", spans)
        patch.setattr(searching, "STEP_NUMBERS", numbers)
        path = tmp_path_factory.mktemp("store") / "spans.db"
        with Store.open(path) as store:
            store.add([make_text_row(n, f"text {has}") for n, has in enumerate(has_text, 1)])
            with contextlib.closing(connect_reader(path)) as connection:
                steps = list(search(connection, ["text true"]))
    hits = [seq for step in steps for seq in step.hits]
    assert hits == [n for n in range(len(has_text), 0, -1) if has_text[n - 1]]
    assert [step.is_done for step in steps] == [False] * (len(steps) - 1) + [True]
    assert steps[-1].spans == len(has_text)
    assert len(steps) >= len(has_text) / min(spans, numbers)


def test_rule_1_a_step_has_so_many_spans(store: Store, connection: sqlite3.Connection) -> None:
    """No more, so that what is found is shown soon."""
    store.add(make_rows(range(1, 2 * STEP_SPANS + 2)))
    steps = list(search(connection, ["x"], monotonic_ns=lambda: 0))
    assert [step.spans for step in steps] == [STEP_SPANS, 2 * STEP_SPANS, 2 * STEP_SPANS + 1]
    assert [step.back_to for step in steps] == [STEP_SPANS + 2, 2, 1]


def test_rule_1_a_step_takes_so_long(store: Store, connection: sqlite3.Connection) -> None:
    """By the clock that is given, and one span however long that takes."""
    store.add(make_rows(range(1, 11)))
    slow = list(search(connection, ["x"], monotonic_ns=step_clock(2 * STEP_SECONDS)))
    assert [step.back_to for step in slow] == [*range(10, 0, -1)]
    quick = list(search(connection, ["x"], monotonic_ns=step_clock(STEP_SECONDS / 4)))
    assert [step.spans for step in quick] == [4, 8, 10]


def test_rule_1_a_step_looks_at_so_many_numbers(
    store: Store, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the condition fits none; a gap in the numbers takes no step at all."""
    monkeypatch.setattr(searching, "STEP_NUMBERS", 10)
    store.add(make_rows(range(1, 31)))
    with store._file.use() as writing:
        writing.execute("UPDATE spans SET seq = 1000000 WHERE seq = 30")
    steps = list(search(connection, [], where="model = ?", values=["none"]))
    assert [step.back_to for step in steps] == [999_991, 20, 10, 1]
    assert [step.spans for step in steps] == [0, 0, 0, 0]
    assert [step.back_to_ns for step in steps] == [n * SECOND_NS for n in (30, 20, 10, 1)]


def test_rule_1_nothing_is_held_between_two_steps(
    store: Store, connection: sqlite3.Connection
) -> None:
    """The owner can fold its write-ahead log in and cut it, and later steps go on."""
    store.add(make_rows(range(1, 11)))
    steps = search(connection, ["x"], monotonic_ns=step_clock(1))
    next(steps)
    store.add([make_row(11)])
    with store._file.use() as writing:
        busy, *_ = writing.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not busy
    assert wal_path(store.path).stat().st_size == 0
    assert len(list(steps)) == 9


def test_rule_2_each_step_says_how_far_it_has_come(
    store: Store, connection: sqlite3.Connection
) -> None:
    """By number, to go on from another time, and by time, for people; and how much was read."""
    rows = make_rows(range(1, 4))
    store.add(rows)
    first, *_ = search(connection, ["x"], monotonic_ns=step_clock(1))
    assert (first.back_to, first.back_to_ns, first.is_done) == (3, 3 * SECOND_NS, False)
    assert (first.spans, first.size_bytes) == (1, len(rows[2].span))
    (others,) = search(connection, ["x"], before=first.back_to)
    assert (others.spans, others.back_to, others.is_done) == (2, 1, True)


def test_rule_2_what_comes_and_goes_meanwhile(store: Store, connection: sqlite3.Connection) -> None:
    """A newer span is not found, and one that was pruned is not missed."""
    store.add([make_text_row(number, "text") for number in range(1, 6)])
    steps = search(connection, ["text"], monotonic_ns=step_clock(1))
    found = [*next(steps).hits]
    store.add([make_text_row(6, "text")])
    store.mark_delivered([1, 2, 3])
    store.prune(10**9 * 10**9)
    assert found + [seq for step in steps for seq in step.hits] == [5, 4]


@pytest.mark.parametrize("before", [LAST_SEQ, 5, 1, -7])
def test_an_empty_store_takes_one_step(
    store: Store, connection: sqlite3.Connection, before: int
) -> None:
    """Which has found nothing."""
    (step,) = search(connection, ["x"], before=before)
    assert step == SearchStep(
        hits=(), back_to=0, back_to_ns=None, spans=0, size_bytes=0, is_done=True
    )


def test_rule_3_the_condition_is_a_filter(store: Store, connection: sqlite3.Connection) -> None:
    """Spans that it excludes are not read."""
    store.add([make_text_row(n, "text", model=f"gpt-{n % 2}") for n in range(1, 7)])
    wanted = parse_filter("model:gpt-1 TEXT", now_ns=0)
    where, values = write_where(wanted.where(), "spans")
    (step,) = search(connection, wanted.texts, where=where, values=values)
    assert step.hits == (5, 3, 1)
    assert step.spans == 3


def test_rule_3_an_alternative_in_the_condition_stays_one(
    store: Store, connection: sqlite3.Connection
) -> None:
    """Its ``OR`` does not reach beyond the numbers of the step."""
    store.add(make_rows(range(1, 4)))
    where = "model = 'x' OR model = 'gpt-4o-mini'"
    assert find(connection, where=where, monotonic_ns=step_clock(1)) == [3, 2, 1]


def test_rule_4_damaged_bytes_are_not_found(store: Store, connection: sqlite3.Connection) -> None:
    """Nobody could show them."""
    store.add([make_text_row(1, "text"), make_text_row(2, "text")])
    with store._file.use() as writing:
        writing.execute("UPDATE span_bytes SET span = 'text' WHERE seq = 2")
    assert find(connection, "text") == [1]


def test_rule_5_no_index_is_used(store: Store, connection: sqlite3.Connection) -> None:
    """Spans are found by number, in order, and their columns are looked at before their bytes."""
    store.add(make_rows(range(1, 100)))
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    wanted = parse_filter("run:app state:pending id:00 tool:g*p", now_ns=0)
    where, values = write_where(wanted.where(), "spans")
    find(connection, "x", where=where, values=values)
    connection.set_trace_callback(None)
    (statement,) = {each for each in statements if "span_bytes" in each}
    plan = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
    assert plan[0].startswith("SEARCH spans USING INTEGER PRIMARY KEY (rowid>")
    assert not [line for line in plan if "TEMP B-TREE" in line or "USING INDEX" in line]


def test_a_store_of_an_earlier_version_is_searched(store: Store) -> None:
    """Columns that it has not are unknown, and no error."""
    store.add([make_text_row(1, "text")])
    store.close()
    make_older(store.path)
    with contextlib.closing(connect_reader(store.path)) as connection:
        where, values = write("-error:* -run:x")
        assert find(connection, "text", where=where, values=values) == [1]
        where, values = write("error:*")
        assert find(connection, "text", where=where, values=values) == []
