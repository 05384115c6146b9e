"""``telemetry.store.lock``: one owner per store."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from telemetry.errors import StoreLocked, StoreUnavailable
from telemetry.store.lock import StoreLock, find_holder

if TYPE_CHECKING:
    from pathlib import Path


def test_lock_file_holds_the_pid(tmp_path: Path) -> None:
    """The file is private and holds the owner's pid and nothing of a former owner's."""
    lock_file = tmp_path / "s.db.lock"
    lock_file.write_text("12345678901234567890\n")
    lock_file.chmod(0o600)
    lock = StoreLock(tmp_path / "s.db")
    assert lock_file.read_text() == f"{os.getpid()}\n"
    assert stat.S_IMODE(lock_file.stat().st_mode) == 0o600
    lock.release()


def test_it_vouches_for_one_file(tmp_path: Path) -> None:
    """The next owner knows the file that the last one found to be a store, by itself, not name."""
    path = tmp_path / "s.db"
    path.write_bytes(b"store")
    lock = StoreLock(path)
    assert not lock.vouches_for(path)
    lock.vouch_for(path)
    assert lock.vouches_for(path)
    lock.release()
    StoreLock(path).release()  # an owner who has not opened it
    lock = StoreLock(path)
    assert (tmp_path / "s.db.lock").read_text().startswith(f"{os.getpid()}\n")
    assert lock.vouches_for(path)
    path.write_bytes(b"damaged")
    assert lock.vouches_for(path)
    path.rename(tmp_path / "moved.db")
    assert not lock.vouches_for(path)
    path.write_bytes(b"another")
    assert not lock.vouches_for(path)
    lock.release()


def test_it_knows_how_many_spans_were_recorded(tmp_path: Path) -> None:
    """Of one store, by its id; the next owner is told, and so is the one after a mere look."""
    lock = StoreLock(tmp_path / "s.db")
    assert lock.recorded("0f" * 8) == 0
    lock.note_recorded("0f" * 8, 12345678901234567890)
    lock.note_recorded("0f" * 8, 60)
    lock.release()
    StoreLock(tmp_path / "s.db").release()
    lock = StoreLock(tmp_path / "s.db")
    assert lock.recorded("0f" * 8) == 60
    assert lock.recorded("0e" * 8) == 0
    lock.release()


@pytest.mark.parametrize("line", ["0f0f", "0f0f ", "0f0f x", " 7", "\xff"])
def test_a_number_that_cannot_be_read_is_none(tmp_path: Path, line: str) -> None:
    """What is damaged there tells of no loss."""
    (tmp_path / "s.db.lock").write_text(f"1\n\n{line}\n", encoding="latin-1")
    lock = StoreLock(tmp_path / "s.db")
    assert lock.recorded("0f0f") == 0
    lock.release()


def test_what_cannot_be_written_down_is_forgotten(tmp_path: Path) -> None:
    """To vouch for a file that is not there changes nothing."""
    lock = StoreLock(tmp_path / "s.db")
    lock.vouch_for(tmp_path / "s.db")
    assert (tmp_path / "s.db.lock").read_text() == f"{os.getpid()}\n"
    lock.release()


def test_lock_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is told, and the lock is free again."""

    def refuse(descriptor: int, content: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        with pytest.raises(StoreUnavailable, match="No space left on device; make room"):
            StoreLock(tmp_path / "s.db")
    StoreLock(tmp_path / "s.db").release()


def test_release_lets_the_next_in(tmp_path: Path) -> None:
    """Released once or twice, the lock is free."""
    lock = StoreLock(tmp_path / "s.db")
    lock.release()
    lock.release()
    StoreLock(tmp_path / "s.db").release()


@pytest.mark.parametrize("content", ["", "no pid"])
def test_holder_that_has_not_written_yet(tmp_path: Path, content: str) -> None:
    """A holder between locking and writing is another process, without a number."""
    lock = StoreLock(tmp_path / "s.db")
    (tmp_path / "s.db.lock").write_text(content)
    with pytest.raises(StoreLocked, match="in use by another process") as refused:
        StoreLock(tmp_path / "s.db")
    assert refused.value.holder_pid is None
    lock.release()


def test_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where locking itself fails, the message says what to do."""

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreUnavailable, match="No locks available; put the store on a local"):
        StoreLock(tmp_path / "s.db")


def test_who_has_it_is_found_without_a_trace(tmp_path: Path) -> None:
    """Nothing is made or written, and the holder keeps it."""
    path = tmp_path / "s.db"
    assert find_holder(path) is None
    assert not any(tmp_path.iterdir())
    lock = StoreLock(path, holder_pid=os.getppid())
    assert find_holder(path) == str(os.getppid())
    lock.release()
    before = (tmp_path / "s.db.lock").stat()
    assert find_holder(path) is None
    assert (tmp_path / "s.db.lock").stat().st_mtime_ns == before.st_mtime_ns
    assert (tmp_path / "s.db.lock").read_text() == f"{os.getppid()} {os.getpid()}\n"


def test_a_holder_that_its_supervisor_left_behind_is_named(tmp_path: Path) -> None:
    """The process to end is the one that lives; where none does here, the first, as before."""
    path = tmp_path / "s.db"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lock = StoreLock(path, holder_pid=gone.pid)
    assert find_holder(path) == str(os.getpid())
    with pytest.raises(StoreLocked, match=f"in use by process {os.getpid()};"):
        StoreLock(path)
    (tmp_path / "s.db.lock").write_text(f"{gone.pid} {gone.pid}\n")
    assert find_holder(path) == str(gone.pid)
    lock.release()


def test_a_link_does_not_lead_around_the_lock(tmp_path: Path) -> None:
    """A store has one owner by whatever name, of its own or of its folder."""
    path = tmp_path / "s.db"
    (tmp_path / "link.db").symlink_to(path)
    (tmp_path / "folder").symlink_to(tmp_path)
    lock = StoreLock(path)
    for name in (tmp_path / "link.db", tmp_path / "folder" / "s.db"):
        assert find_holder(name) == str(os.getpid())
        assert lock.is_in_place(name)
        with pytest.raises(StoreLocked):
            StoreLock(name)
    lock.release()


def test_an_owner_waits_for_who_only_looks(tmp_path: Path) -> None:
    """Whoever looks just then is not taken for another owner."""
    StoreLock(tmp_path / "s.db").release()
    with (tmp_path / "s.db.lock").open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        timer = threading.Timer(0.05, fcntl.flock, (looking, fcntl.LOCK_UN))
        timer.start()
        StoreLock(tmp_path / "s.db").release()
        timer.join()


def test_a_lock_that_cannot_be_looked_at_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is neither free nor taken."""
    StoreLock(tmp_path / "s.db").release()

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreUnavailable, match="cannot be read: No locks available"):
        find_holder(tmp_path / "s.db")
