"""``spantap store delete`` and ``compact``, where no proxy runs."""

from __future__ import annotations

import io
import shutil
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from proxy.commands.store import delete as store_delete
from proxy.commands.store import owner as store_owner
from proxy.commands.store.delete import DeleteOptions, run_delete
from telemetry.reading.stored_calls import open_calls
from telemetry.store.opening import wal_path
from telemetry.store.store import Store
from tests.proxy.recorded_calls import START_NS, make_exchange, make_row
from tests.proxy.store_runs import StoreRunner
from tests.proxy.traces_runs import Terminal
from tests.telemetry.reading.asking import connection_of
from tests.telemetry.store.test_minutes import check

if TYPE_CHECKING:
    from pathlib import Path

NOW_NS = START_NS + 100_000_000_000


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> StoreRunner:
    """On a store of six calls of two users, whose names are in the spans, too."""
    path = tmp_path / "traces.db"
    with Store.open(path, delivers=False) as store:
        for number in range(6):
            user = ("ann-canary", "bob-canary")[number % 2]
            row = make_row(make_exchange(number))
            columns = replace(row.columns, user=user, preview=f"I am {user}")
            store.add([replace(row, columns=columns, span=row.span + b"\x52" + user.encode())])
    return StoreRunner(path, capsys)


def users(path: Path) -> list[str | None]:
    """The users of all calls."""
    with open_calls(path) as reader:
        return [row.columns.user for row in reader.since(0)]


def test_a_users_data_is_counted_and_goes(run: StoreRunner) -> None:
    """Rules 1 and 4: from all files of the store; sums are those of the rest."""
    ran = run("delete", "user:ann-canary", "--dry-run")
    assert ran.status == 0
    assert ran.out.startswith("3 calls, ")
    assert ran.out.endswith(" would be deleted\n")
    assert len(users(run.store)) == 6
    ran = run("delete", "user:ann-canary", "--yes")
    assert (ran.status, ran.out, ran.err) == (0, "deleted 3 calls\n", "")
    assert users(run.store) == ["bob-canary"] * 3
    files = b"".join(path.read_bytes() for path in run.store.parent.iterdir())
    assert b"ann-canary" not in files
    assert b"bob-canary" in files
    assert sum(sums.calls for sums in check(run.store)) == 3
    ran = run("delete", "user:ann-canary", "--yes")
    assert (ran.status, ran.out) == (0, "")
    assert "no call fits user:ann-canary" in ran.err


def test_what_is_old_goes(run: StoreRunner) -> None:
    """``until:`` counts back from now."""
    out = io.StringIO()
    options = DeleteOptions(words=["until:97s"], yes=True)
    status = run_delete(
        run.store, options, answers=io.StringIO(), out=out, err=io.StringIO(), now_ns=lambda: NOW_NS
    )
    assert (status, out.getvalue()) == (0, "deleted 3 calls\n")
    with open_calls(run.store) as reader:
        assert [*reader.walk()] == [4, 5, 6]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say which calls, as in user:ID"),
        (("Hello",), "texts are for `spantap traces`"),
        (("user:ann-canary", '"not found"'), "texts are for `spantap traces`"),
        (("usr:ann",), "unknown key `usr`"),
    ],
)
def test_rule_2_no_filter_and_texts_are_refused(
    words: tuple[str, ...], said: str, run: StoreRunner
) -> None:
    """Also with ``--yes``, and dry."""
    for flag in ("--yes", "--dry-run"):
        ran = run("delete", *words, flag)
        assert (ran.status, ran.out) == (2, "")
        assert said in ran.err
    assert len(users(run.store)) == 6


def test_rule_2_nothing_goes_unless_somebody_said_yes(run: StoreRunner) -> None:
    """Without a terminal nobody is asked."""
    ran = run("delete", "user:bob-canary")
    assert (ran.status, ran.out) == (2, "")
    assert "nothing is deleted of 3 calls" in ran.err
    assert "--yes" in ran.err
    out = io.StringIO()
    for answer, status in (("", 2), ("n\n", 2), ("\n", 2), ("yes please\n", 2), ("Y\n", 0)):
        err = Terminal()
        options = DeleteOptions(words=["user:bob-canary"])
        assert len(users(run.store)) == 6
        assert run_delete(run.store, options, answers=Terminal(answer), out=out, err=err) == status
        assert "3 calls, " in err.getvalue()
        assert "delete? [y/N] " in err.getvalue()
    assert out.getvalue() == "deleted 3 calls\n"
    assert users(run.store) == ["ann-canary"] * 3


def test_rule_2_where_nothing_can_be_said_nobody_says_yes(run: StoreRunner) -> None:
    """Standard input is closed, or errors go to a file."""
    options = DeleteOptions(words=["user:bob-canary"])
    for answers, err in ((None, Terminal()), (Terminal("y\n"), io.StringIO())):
        assert run_delete(run.store, options, answers=answers, out=io.StringIO(), err=err) == 2
    assert len(users(run.store)) == 6


def test_rule_1_what_is_recorded_after_the_count_stays(
    run: StoreRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it fits; many steps do what one does."""
    late = make_row(make_exchange(50))
    late = replace(late, columns=replace(late.columns, user="ann-canary"))
    monkeypatch.setattr(store_delete, "MAX_DELETE_ROWS", 1)

    def ask(*_: object) -> None:
        with Store.open(run.store) as store:
            store.add([late])

    monkeypatch.setattr(store_delete, "_ask", ask)
    out = io.StringIO()
    options = DeleteOptions(words=["user:ann-canary"])
    assert run_delete(run.store, options, answers=Terminal(), out=out, err=Terminal()) == 0
    assert out.getvalue() == "deleted 3 calls\n"
    assert users(run.store).count("ann-canary") == 1


def test_rule_4_a_reader_that_keeps_the_log_is_told(
    run: StoreRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With status 1; ``compact`` does the rest."""
    monkeypatch.setattr(store_delete, "FOLD_WAIT_SECONDS", 0.001)
    monkeypatch.setattr("proxy.commands.store.delete.HINDERED_SECONDS", 0.001)
    with open_calls(run.store) as reader:
        connection_of(reader).execute("BEGIN")
        reader.page(1)
        ran = run("delete", "user:ann-canary", "--yes")
        assert (ran.status, ran.out) == (1, "deleted 3 calls\n")
        assert "spantap store compact" in ran.err
        assert b"ann-canary" in wal_path(run.store).read_bytes() + run.store.read_bytes()
        ran = run("compact")
        assert ran.status == 1
        assert "is in the way" in ran.err
    assert run("compact").status == 0
    assert b"ann-canary" not in run.store.read_bytes()


def test_rule_4_a_full_disk_is_told(run: StoreRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """With status 1; the calls are gone all the same, and no others."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 0))
    ran = run("delete", "user:ann-canary", "--yes")
    assert (ran.status, ran.out) == (1, "deleted 3 calls\n")
    assert "old copies may be left: to write the store" in ran.err
    assert users(run.store) == ["bob-canary"] * 3
    assert run("compact").status == 1


def test_an_owner_that_takes_no_orders_is_told(
    run: StoreRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as another of these commands, or a proxy of an earlier version; nothing goes."""
    monkeypatch.setattr(store_owner, "WAIT_SECONDS", 0.1)
    with Store.open(run.store):
        ran = run("delete", "user:ann-canary", "--yes")
        assert ran.status == 1
        assert "is in use by process" in ran.err
        assert "takes no orders" in ran.err
    assert len(users(run.store)) == 6


def test_room_is_given_back(run: StoreRunner) -> None:
    """All that the store does not need."""
    with Store.open(run.store) as store:
        row = make_row(make_exchange(70))
        store.add([replace(row, span=row.span + bytes(5_000_000))])
        assert store.delete([7]).deleted == 1
    before_bytes = run.store.stat().st_size
    (record,) = run("info", "--json").records
    assert record["free_bytes"] > 4_900_000
    ran = run("compact")
    assert ran.status == 0
    assert ran.out.startswith("gave 4.8 MiB back; the store has ")
    assert run.store.stat().st_size == before_bytes - record["free_bytes"]
    assert run("compact").out.startswith("gave 0 bytes back")
    assert len(users(run.store)) == 6


@pytest.mark.parametrize("what", [("delete", "user:x", "--yes"), ("compact",)])
def test_a_store_that_is_missing_is_not_made(
    what: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With status 1."""
    ran = StoreRunner(tmp_path / "none.db", capsys)(*what)
    assert ran.status == 1
    assert "there is no store at" in ran.err
    assert not [*tmp_path.iterdir()]
