"""``spantap traces`` against real store files."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from proxy.commands import listing
from proxy.commands.traces import POLL_SECONDS, latest_calls
from telemetry.reading.sqlite import walking
from telemetry.reading.stored_calls import open_calls
from telemetry.store.store import Store
from tests.proxy.recorded_calls import (
    make_exchange,
    make_failed_exchange,
    make_row,
    make_store,
    make_tools_exchange,
    span_id_of,
)
from tests.proxy.traces_runs import Ran

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65534


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of three calls."""
    exchanges = (make_exchange(1), make_tools_exchange(2), make_failed_exchange(3))
    return make_store(tmp_path / "traces.db", *exchanges)


def test_list_shows_the_newest_calls_last(store: Path) -> None:
    """The newest calls, in the order in which they were recorded."""
    ran = Ran(store)
    header, *rows = ran.out.splitlines()
    assert (ran.status, ran.err) == (0, "")
    assert header.startswith("time")
    assert [row.split()[2] for row in rows] == [span_id_of(n) for n in (1, 2, 3)]


def test_limit_keeps_the_newest(store: Path) -> None:
    """A limit cuts off the oldest."""
    assert [r["span_id"] for r in Ran(store, limit=2, as_json=True).records] == [
        span_id_of(2),
        span_id_of(3),
    ]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_large_limit_means_what_it_says(
    store: Path, as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More calls than are read, or laid out, at once: all are listed, under one header."""
    monkeypatch.setattr(walking, "STEP_NUMBERS", 2)
    monkeypatch.setattr(listing, "TABLE_ROWS", 2)
    ran = Ran(store, limit=10_000, as_json=as_json)
    lines = ran.out.splitlines()
    assert len(lines) == (3 if as_json else 4)
    assert all(span_id_of(n) in line for n, line in zip((1, 2, 3), lines[-3:], strict=True))


def test_a_damaged_span_is_shown_as_such(tmp_path: Path) -> None:
    """Nothing of its content, for that is not what was recorded."""
    path = make_store(tmp_path / "traces.db", make_exchange(1))
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE span_bytes SET span = replace(span, x'48656c6c6f', x'4a656c6c6f')"
        )
    ran = Ran(path, call_id=span_id_of(1))
    assert ran.status == 0
    assert "the stored span is damaged" in ran.out
    assert "ello there" not in ran.out
    assert span_id_of(1) in Ran(path).out
    (record,) = Ran(path, as_json=True, full=True).records
    assert record["last_error"] == "the stored span is damaged"
    assert Ran(path, as_json=True).records[0]["last_error"] is None, "a row is read alone"


def test_list_as_json(store: Path) -> None:
    """One object per line, and nothing else."""
    ran = Ran(store, as_json=True)
    assert [record["outcome"] for record in ran.records] == [
        "completed",
        "completed",
        "upstream_error",
    ]
    assert "request" not in ran.records[0]
    assert ran.records[0]["preview"] == "Hello there"


def test_list_as_json_in_full(store: Path) -> None:
    """The rows, and of each call all that is there."""
    rows = Ran(store, as_json=True).records
    records = Ran(store, as_json=True, full=True).records
    assert [{name: record[name] for name in rows[0]} for record in records] == rows
    assert records[0]["request"]["messages"][1]["content"] == "Hello there"
    assert [record["span"]["span_id"] for record in records] == [r["span_id"] for r in rows]


def test_a_list_reads_no_span(store: Path) -> None:
    """Rows are made of columns."""
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DELETE FROM span_bytes")
    assert all(span_id_of(n) in Ran(store).out for n in (1, 2, 3))
    assert len(Ran(store, as_json=True).records) == 3
    assert Ran(store, as_json=True, full=True).records == []


def test_calls_that_are_in_no_row_are_told_under_the_table(store: Path) -> None:
    """In one line, the most frequent path by name; a program that reads JSON gets records alone."""
    assert "Relayed" not in Ran(store).out
    counts = {f"/v1/{name}": number for number, name in enumerate("abcdef", 1)}
    with Store.open(store) as owner:
        owner.keep_unobserved(1, {**counts, "/v1/\x1b[1mz": 1_000, "_other": 2}, 1)
    *_, blank, foot = Ran(store).out.splitlines()
    assert blank == ""
    assert foot == (
        "Relayed and not recorded: 1,000 x POST /v1/\\x1b[1mz, 23 to other paths "
        "(`spantap check` says more)"
    )
    assert len(Ran(store, as_json=True).records) == 3


def test_websockets_that_were_refused_are_told_under_the_table(store: Path) -> None:
    """Beside the calls that were relayed; without those whose clients continue over HTTP."""
    with Store.open(store) as owner:
        refused = {"GET /v1/realtime": 3, "GET /v1/responses": 9, "GET _other": 2}
        owner.keep_unobserved(1, refused, 1)
    *_, foot = Ran(store).out.splitlines()
    websockets = "Refused, as WebSockets are: 3 x GET /v1/realtime, 2 to other paths ("
    assert foot.startswith(websockets)
    with Store.open(store) as owner:
        owner.keep_unobserved(2, {"/v1/a": 1}, 1)
    *_, foot = Ran(store).out.splitlines()
    assert foot.startswith(f"Relayed and not recorded: 1 x POST /v1/a; {websockets}")


def test_reads_while_an_owner_writes(tmp_path: Path) -> None:
    """The store is read while its owner holds it open."""
    path = tmp_path / "traces.db"
    with Store.open(path) as owner:
        owner.add([make_row(make_exchange(1))])
        assert [r["state"] for r in Ran(path, as_json=True).records] == ["pending"]


@pytest.mark.parametrize("call_id", [span_id_of(2), span_id_of(2).upper(), "02020202"])
def test_show_finds_a_call_by_span_or_trace_id(store: Path, call_id: str) -> None:
    """The beginning of either id names a call, in either case."""
    ran = Ran(store, call_id=call_id)
    assert (ran.status, ran.err) == (0, "")
    assert f"  span        {span_id_of(2)}\n" in ran.out
    assert "-> get_weather" in ran.out


def test_show_as_json(store: Path) -> None:
    """The full record on one line."""
    ran = Ran(store, call_id=span_id_of(1), as_json=True)
    (record,) = ran.records
    assert record["request"]["messages"][1]["content"] == "Hello there"
    assert record["span"]["attributes"]["llm.finish_reason"] == "stop"


def test_whole_span_id_is_never_ambiguous(tmp_path: Path) -> None:
    """A trace id that begins with another call's span id does not hide that call."""
    first = make_exchange(1)
    twin = make_exchange(2)
    trace_id = first.identity.span_id * 2
    identity = type(twin.identity)(trace_id=trace_id, span_id=twin.identity.span_id)
    path = make_store(tmp_path / "t.db", first, make_exchange(2, identity=identity))
    assert Ran(path, call_id=span_id_of(1)).status == 0
    assert len(Ran(path, as_json=True).records) == 2


def test_ambiguous_id_lists_what_it_could_mean(store: Path) -> None:
    """Status 2, and the candidates are named with the complaint."""
    ran = Ran(store, call_id="0a0")
    assert (ran.status, ran.out) == (2, "")
    assert "several calls have an id that begins with '0a0'" in ran.err
    assert all(span_id_of(number) in ran.err for number in (1, 2, 3))


def test_show_finds_a_call_by_the_provider_s_request_id(tmp_path: Path) -> None:
    """All of it, or its beginning; several calls may have one."""
    exchanges = (make_exchange(1, request_id="req_1"), make_exchange(2, request_id="req_10"))
    path = make_store(tmp_path / "t.db", *exchanges, make_exchange(3, request_id="x"))
    assert f"  span        {span_id_of(1)}\n" in Ran(path, call_id="req_1").out
    assert f"  span        {span_id_of(2)}\n" in Ran(path, call_id="req_10").out
    assert f"  span        {span_id_of(3)}\n" in Ran(path, call_id="x").out
    ran = Ran(path, call_id="req")
    assert (ran.status, ran.out) == (2, "")
    assert all(span_id_of(number) in ran.err for number in (1, 2))


def test_show_last_shows_the_newest(store: Path, tmp_path: Path) -> None:
    """For people and for programs; an empty store has none."""
    assert f"  span        {span_id_of(3)}\n" in Ran(store, call_id="last").out
    assert Ran(store, call_id="last", as_json=True).span_ids == [span_id_of(3)]
    ran = Ran(make_store(tmp_path / "empty.db"), call_id="last")
    assert (ran.status, ran.err) == (2, "spantap traces: no call is recorded yet.\n")


@pytest.mark.parametrize("call_id", ["ffff", "", "no hex", "\x1b[2J"])
def test_unknown_id_is_a_mistake(store: Path, call_id: str) -> None:
    """Status 2 and a sentence that says what to do."""
    ran = Ran(store, call_id=call_id)
    assert (ran.status, ran.out) == (2, "")
    assert f"no call has a span, trace or request id that begins with {call_id!r}." in ran.err
    assert "\x1b" not in ran.err


def test_missing_store_is_explained(tmp_path: Path) -> None:
    """Status 1, where it looked, how a store comes to be; nothing is created."""
    path = tmp_path / "nowhere" / "traces.db"
    for options in ({}, {"follow": True}, {"call_id": "0a"}):
        ran = Ran(path, **options)
        assert (ran.status, ran.out) == (1, "")
        assert f"there is no store at {path}. `spantap serve` makes it" in ran.err
        assert "--store" in ran.err
    assert not path.parent.exists()


def test_file_that_is_no_store_is_explained(tmp_path: Path) -> None:
    """Status 1 and the store's own words."""
    path = tmp_path / "notes.txt"
    path.write_text("not a database, by far" * 100)
    ran = Ran(path)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("spantap traces: ")
    assert str(path) in ran.err


@pytest.fixture
def foreign_store() -> Iterator[Path]:
    """A store of root's, in a folder that all may look into; this process is somebody else."""
    if os.geteuid():
        pytest.skip("only root may become somebody else")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = make_store(folder / "traces.db", make_exchange(1))
        folder.chmod(0o755)
        os.setresuid(NOBODY, NOBODY, 0)
        try:
            yield store
        finally:
            os.setresuid(0, 0, 0)


@pytest.mark.parametrize("mode", [0o600, 0o644], ids=["unreadable", "unwritable"])
def test_a_store_of_another_user_is_explained(mode: int, foreign_store: Path) -> None:
    """Status 1, and who may read it; SQLite speaks of a file that cannot be opened."""
    os.setresuid(0, 0, 0)
    foreign_store.chmod(mode)
    os.setresuid(NOBODY, NOBODY, 0)
    ran = Ran(foreign_store)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("spantap traces: no permission to read ")
    assert "as the user of `spantap serve`" in ran.err


def test_empty_store_says_so(tmp_path: Path) -> None:
    """Status 0: nothing is wrong, there is just nothing yet."""
    ran = Ran(make_store(tmp_path / "traces.db"))
    assert ran.status == 0
    assert "no call is recorded" in ran.err
    assert Ran(make_store(tmp_path / "traces.db"), as_json=True).out == ""


def test_follow_shows_calls_as_they_are_recorded(tmp_path: Path) -> None:
    """New calls are appended, each once, without a second header, until an interrupt."""
    path = tmp_path / "traces.db"
    waited: list[float] = []
    with Store.open(path) as owner:
        owner.add([make_row(make_exchange(1))])

        def wait(seconds: float) -> None:
            waited.append(seconds)
            if len(waited) == 2:
                owner.add([make_row(make_exchange(2)), make_row(make_failed_exchange(3))])
            if len(waited) == 4:
                raise KeyboardInterrupt

        ran = Ran(path, follow=True, wait=wait)
    assert ran.status == 0
    assert waited == [POLL_SECONDS] * 4
    lines = ran.out.splitlines()
    assert [line.split()[2] for line in lines[1:]] == [span_id_of(n) for n in (1, 2, 3)]


def test_follow_as_json_begins_with_an_empty_store(tmp_path: Path) -> None:
    """Nothing yet is no end for a follower."""
    path = tmp_path / "traces.db"
    with Store.open(path) as owner:

        def wait(_: float) -> None:
            if owner.add([make_row(make_exchange(1))]) == 0:
                raise KeyboardInterrupt

        ran = Ran(path, follow=True, as_json=True, wait=wait)
    assert (ran.status, ran.err) == (0, "")
    assert [record["span_id"] for record in ran.records] == [span_id_of(1)]


def test_latest_calls_are_read_for_others(store: Path) -> None:
    """The demo shows calls without running the command."""
    with open_calls(store) as reader:
        calls = list(latest_calls(reader, limit=2))
    assert [call.summary.span_id for call in calls] == [span_id_of(2), span_id_of(3)]


def test_the_calls_of_a_run_are_listed_alone(tmp_path: Path) -> None:
    """By its name, for people and for programs, and as they come."""
    path = tmp_path / "traces.db"
    with Store.open(path, delivers=False) as owner:
        rows = [make_row(make_exchange(number)) for number in (1, 2, 3)]
        labels = (None, "app~~1", "app~~2")
        owner.add([replace(row, launch=label) for row, label in zip(rows, labels, strict=True)])
    assert [record["launch"] for record in Ran(path, as_json=True).records] == [None, "app", "app"]
    listed = Ran(path, launch="app", as_json=True, limit=1).records
    assert [record["span_id"] for record in listed] == [rows[2].span_id]
    ran = Ran(path, launch="nobody")
    assert (ran.status, "no call of a run named 'nobody' is recorded" in ran.err) == (0, True)

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    assert Ran(path, launch="app", follow=True, wait=stop).out.count(" completed ") == 2
