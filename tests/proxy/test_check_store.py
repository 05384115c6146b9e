"""What ``spantap check`` says of the store, without making or changing one."""

from __future__ import annotations

import os
import shutil
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.table import OBSERVED
from proxy.commands.check.findings import Verdict
from proxy.commands.check.store import check_store
from proxy.settings.settings import Settings
from telemetry.store.opening import PAGE_BYTES
from telemetry.store.store import Store
from tests.telemetry.span_rows import make_row

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.commands.check.findings import Finding

GIB = 1 << 30


def look(store: Path, *, sends: bool = True, **settings: Any) -> list[Finding]:
    return list(check_store(Settings(store=store, **settings), sends=sends))


def about(what: str, findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.what == what]


def contents(folder: Path) -> dict[str, bytes]:
    """All that is there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "traces.db"


def test_a_store_that_is_not_there_yet_is_good_and_is_not_made(tmp_path: Path) -> None:
    """Neither the file nor its folders."""
    store = tmp_path / "a" / "b" / "traces.db"
    [found] = about("store", look(store))
    assert (found.verdict, found.words) == (
        Verdict.GOOD,
        f"{store} will be created by `spantap serve`",
    )
    assert not any(tmp_path.iterdir())


def test_an_empty_file_is_as_good_as_none(store: Path) -> None:
    """``serve`` makes a store of it."""
    store.touch()
    [found] = about("store", look(store))
    assert found.words == f"{store} will be created by `spantap serve`"


def test_a_store_that_nobody_uses_is_good_and_is_not_changed(store: Path) -> None:
    """Not by a byte, the lock's file included, and no file appears beside it."""
    with Store.open(store, holder_pid=1) as owner:
        owner.add([make_row(1)])
    before = contents(store.parent)
    [found] = about("store", look(store))
    assert (found.verdict, found.words) == (Verdict.GOOD, f"{store} is sound, and free")
    assert contents(store.parent) == before
    Store.open(store).close()


def test_calls_that_were_relayed_and_not_recorded_are_told_of(store: Path) -> None:
    """Whoever looks for their spans finds out why."""
    with Store.open(store) as owner:
        counts = {f"/v1/{name}": number for number, name in enumerate("abcdef", 1)}
        refused = {"GET /v1/realtime": 3, "GET _other": 2}
        owner.keep_unobserved(1, {**counts, "_other": 2, **refused}, 1)
    [found] = about("calls", look(store))
    assert found.verdict is Verdict.NOTE
    assert found.words.startswith(
        "Relayed and not recorded: 6 x POST /v1/f, 5 x POST /v1/e, 4 x POST /v1/d, "
        "3 x POST /v1/c, 2 x POST /v1/b, 3 to other paths; "
        "Refused, as WebSockets are: 3 x GET /v1/realtime, 2 to other paths; the last on 19"
    )
    assert found.words.endswith(f". Spans are made of {OBSERVED}.")


def test_a_store_whose_owner_was_killed_is_good_and_its_last_spans_are_seen(
    store: Path, tmp_path: Path
) -> None:
    """They are in the write-ahead log."""
    (tmp_path / "left").mkdir()
    left = tmp_path / "left" / "traces.db"
    with Store.open(store) as owner:
        owner.add([make_row(1)])
        for suffix in ("", "-wal", "-shm"):
            shutil.copy(f"{store}{suffix}", f"{left}{suffix}")
    findings = look(left)
    assert about("store", findings)[0].verdict is Verdict.GOOD
    assert "1 span is to be sent" in about("spans", findings)[0].words


def test_a_store_in_use_is_good_and_its_user_is_named(store: Path) -> None:
    """Whoever checks while a proxy runs has found that proxy."""
    with Store.open(store):
        [found] = about("store", look(store))
    assert found.verdict is Verdict.GOOD
    assert f"in use by process {os.getpid()}" in found.words


def test_a_store_in_use_that_is_gone_is_bad(store: Path) -> None:
    """Its user is named, whose log tells what becomes of it."""
    with Store.open(store):
        store.unlink()
        [found] = about("store", look(store))
    assert found.verdict is Verdict.BAD
    assert found.words == f"{store} is gone, and process {os.getpid()} has it open"


def test_a_store_with_a_second_name_is_bad(store: Path) -> None:
    """``serve`` refuses it."""
    Store.open(store).close()
    store.with_name("second").hardlink_to(store)
    [found] = about("store", look(store))
    assert found.verdict is Verdict.BAD
    assert "hard links" in found.words


def test_a_file_that_is_no_store_is_bad(store: Path) -> None:
    """And what to do about it is said."""
    store.write_text("these are notes of mine, not a database at all " * 40)
    [found] = look(store)
    assert found.verdict is Verdict.BAD
    assert "no SQLite database" in found.words
    assert "--store" in found.mend


def test_a_store_that_is_damaged_inside_is_bad(store: Path) -> None:
    """Though it can be opened and counted; how to save what is in it is said."""
    with Store.open(store) as owner:
        owner.add([make_row(number, padding_bytes=12_000) for number in range(1, 200)])
    data = bytearray(store.read_bytes())
    for place in range(40 * PAGE_BYTES, 120 * PAGE_BYTES, PAGE_BYTES):
        if data[place] == 0:  # a page that holds the rest of a span, and begins with the next one
            data[place : place + 64] = b"\xff" * 64
    store.write_bytes(data)
    found = about("store", look(store))[0]
    assert found.verdict is Verdict.BAD
    assert "is damaged" in found.words
    assert ".recover" in found.mend


def test_a_check_that_takes_too_long_says_so(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has not seen it does not call sound."""
    with Store.open(store) as owner:
        owner.add([make_row(number, padding_bytes=5000) for number in range(1, 500)])
    monkeypatch.setattr("telemetry.store.survey.MAX_CHECK_SECONDS", -1.0)
    monkeypatch.setattr("telemetry.store.survey._PROGRESS_STEPS", 1)
    [found] = about("store", look(store))
    assert found.words == f"{store} is sound as far as there was time to look, and free"


@pytest.mark.parametrize("place", ["file/traces.db", "file/sub/traces.db", "folder"])
def test_a_place_that_cannot_hold_a_file_is_bad(place: str, tmp_path: Path) -> None:
    """A folder that is a file, also further up, and a file that is a folder."""
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    [found] = look(tmp_path / place)
    assert found.verdict is Verdict.BAD
    assert "--store" in found.mend


@pytest.mark.parametrize("exists", [True, False])
def test_a_place_that_may_not_be_written_is_bad(
    *, exists: bool, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder, or the file in it; nothing is tried, for root may write everywhere."""
    closed = store if exists else store.parent
    if exists:
        Store.open(store).close()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and access(path, mode))
    [found] = look(store)
    assert found.verdict is Verdict.BAD
    assert str(store) in found.words
    assert "read-only" in found.words


def test_spans_that_wait_are_counted_and_long_waits_are_told_with_the_reason(store: Path) -> None:
    """A span that was recorded just now is in order; an hour is not."""
    now_ns = time.time_ns()
    with Store.open(store) as owner:
        owner.add([make_row(1, recorded_ns=now_ns)])
        [found] = about("spans", look(store))
        assert found.verdict is Verdict.GOOD
        owner.add([make_row(2, recorded_ns=now_ns - 7200 * 10**9)])
        owner.mark_retry([2], 0, "HTTP 503: \x1b[2J not today")
    [found] = about("spans", look(store))
    assert found.verdict is Verdict.NOTE
    assert found.words.startswith(
        "2 spans are to be sent, the oldest for 2 hours; last error: HTTP"
    )
    [found] = about("spans", look(store, sends=False))
    assert found.verdict is Verdict.NOTE
    assert "there is no backend" in found.words
    with Store.open(store):
        [found] = about("spans", look(store, sends=False))
        assert "there is no backend" not in found.words, "whoever has the store has an environment"


@pytest.mark.parametrize(
    ("seconds", "words"), [(61, "61 seconds"), (150, "2 minutes"), (259_300, "3 days")]
)
def test_waits_are_told_in_fitting_units(
    seconds: int, words: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A span that no one has tried to send has no error."""
    with Store.open(store) as owner:
        owner.add([make_row(1, recorded_ns=0)])
    clock = SimpleNamespace(time_ns=lambda: seconds * 10**9)
    monkeypatch.setattr("proxy.commands.check.store.time", clock)
    [found] = about("spans", look(store))
    assert found.words == f"1 span is to be sent, the oldest for {words}"


def test_rejected_spans_are_told_with_the_last_words(store: Path) -> None:
    """The backend's, of the newest one; spans that nobody waits for are no news."""
    with Store.open(store) as owner:
        owner.add([make_row(number) for number in (1, 2, 3)])
        owner.mark_rejected([1], "the first")
        owner.mark_rejected([2], "too long")
        owner.mark_delivered([3])
    [found] = about("spans", look(store))
    assert found.verdict is Verdict.NOTE
    assert found.words.startswith("2 spans are set aside")
    assert found.words.endswith("with: too long")


def test_a_damaged_store_that_was_moved_aside_is_told_of(store: Path) -> None:
    """The newest one; its companions are no further ones."""
    for name in ("20260101T000000Z", "20260102T000000Z", "20260102T000000Z-wal"):
        (store.parent / f"{store.name}.damaged-{name}").touch()
    found = about("store", look(store))[1]
    assert found.verdict is Verdict.NOTE
    assert found.words.endswith("traces.db.damaged-20260102T000000Z")


@pytest.mark.parametrize(
    ("free_bytes", "verdict"),
    [(2 * GIB, Verdict.GOOD), (GIB // 2, Verdict.NOTE), (1 << 20, Verdict.BAD)],
)
def test_room_on_the_disk_is_compared_with_what_the_store_may_take(
    free_bytes: int, verdict: Verdict, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the folder that is there already; a full disk is bad."""
    usage = SimpleNamespace(free=free_bytes)
    monkeypatch.setattr(
        "proxy.commands.check.store.shutil.disk_usage",
        lambda folder: usage if folder.is_dir() else pytest.fail("no such folder"),
    )
    [found] = about("disk", look(store.parent / "new" / "traces.db", store_max_bytes=GIB))
    assert found.verdict is verdict
    assert found.words.endswith("the store has 0.0 MiB and may grow to 1.0 GiB")
