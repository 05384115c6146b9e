"""What ``spantap check`` says of the store, without making one."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from proxy.commands.check import run_check
from proxy.settings import Settings
from telemetry.store import Store

if TYPE_CHECKING:
    from pathlib import Path


def check(store: Path) -> str:
    """The line about the store; the upstream has no one to answer, which is another's line."""
    out = io.StringIO()
    run_check(Settings(upstream="http://127.0.0.1:1", store=store), environ={}, out=out)
    lines = [line for line in out.getvalue().splitlines() if line[6:].startswith("store: ")]
    assert len(lines) == 1
    return lines[0]


def test_a_store_that_is_not_there_yet_is_good_and_is_not_made(tmp_path: Path) -> None:
    """Neither the file nor its folders."""
    store = tmp_path / "a" / "b" / "traces.db"
    assert check(store) == f"ok    store: {store} will be made when served"
    assert not any(tmp_path.iterdir())


def test_an_empty_file_is_as_good_as_none(tmp_path: Path) -> None:
    """``serve`` makes a store of it."""
    store = tmp_path / "traces.db"
    store.touch()
    assert check(store) == f"ok    store: {store} will be made when served"


def test_a_store_that_nobody_uses_is_good_and_stays_free(tmp_path: Path) -> None:
    """What was locked to find out is let go."""
    store = tmp_path / "traces.db"
    Store.open(store).close()
    assert check(store) == f"ok    store: {store}"
    Store.open(store).close()


def test_a_store_in_use_is_good_and_its_user_is_named(tmp_path: Path) -> None:
    """Whoever checks while a proxy runs has found that proxy."""
    store = tmp_path / "traces.db"
    with Store.open(store):
        line = check(store)
    assert line.startswith("ok ")
    assert f"in use by process {os.getpid()}" in line
    assert "while `spantap serve` runs" in line


def test_a_file_that_is_no_store_is_bad(tmp_path: Path) -> None:
    """And what to do about it is said."""
    store = tmp_path / "traces.db"
    store.write_text("these are notes of mine, not a database at all " * 40)
    line = check(store)
    assert line.startswith("bad ")
    assert "no SQLite database" in line
    assert "name another file" in line


@pytest.mark.parametrize("place", ["file/traces.db", "file/sub/traces.db", "folder"])
def test_a_place_that_cannot_hold_a_file_is_bad(place: str, tmp_path: Path) -> None:
    """A folder that is a file, also further up, and a file that is a folder."""
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    line = check(tmp_path / place)
    assert line.startswith("bad ")
    assert "--store" in line


@pytest.mark.parametrize("exists", [True, False])
def test_a_place_that_may_not_be_written_is_bad(
    *, exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder, or the file in it; nothing is tried, for root may write everywhere."""
    store = tmp_path / "traces.db"
    closed = store if exists else tmp_path
    if exists:
        Store.open(store).close()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and access(path, mode))
    line = check(store)
    assert line.startswith("bad ")
    assert str(store) in line
    assert "--store" in line
