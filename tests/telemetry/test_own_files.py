"""``telemetry.own_files``: what others put under the name of one of our files is not used.

And a file that is held tells whether its maker lives.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from telemetry.errors import SpoolFull, StoreUnavailable
from telemetry.frames.spool import FrameSpool, spool_folder
from telemetry.observing.crash_counter import CrashCounter
from telemetry.own_files import (
    RefusedError,
    check_own,
    hold,
    is_held,
    make_own_folder,
    open_own,
    read_secret,
    write_secret,
)
from telemetry.store.disk_reserve import DiskReserve
from telemetry.store.lock import StoreLock, find_holder
from telemetry.store.store import Store
from tests.e2e.processes import clean_environment, find_free_port
from tests.e2e.spantap import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable

COMPANIONS = ("-wal", "-shm", "-journal", ".lock", ".reserve", ".strikes", ".spool")
STRANGER = 12345
"""A user who is not the one that runs the tests."""

HOLD = """
import sys, time
from pathlib import Path
from telemetry.own_files import hold
hold(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def become_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process believe that it is another user, to whom no file here belongs."""
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)


def plant(path: Path, kind: str, victim: Path) -> None:
    """Put something under a name of ours that is not to be used."""
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "dangling link":
        path.symlink_to(victim.with_name("nowhere"))
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "wrong kind":
        path.touch() if path.suffix == ".spool" else path.mkdir()
    else:
        path.mkdir() if path.suffix == ".spool" else path.touch()
        path.chmod(0o777)


KINDS = ("link", "dangling link", "pipe", "wrong kind", "changed by all")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", COMPANIONS)
def test_a_store_with_a_strange_companion_is_not_opened(
    tmp_path: Path, suffix: str, kind: str
) -> None:
    """The sentence names the file and says why; what a link leads to stays as it was."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    companion = tmp_path / f"traces.db{suffix}"
    plant(companion, kind, victim)
    with pytest.raises(StoreUnavailable) as refused:
        Store.open(tmp_path / "traces.db")
    assert str(refused.value).startswith(f"{companion} is not used: ")
    assert ("symbolic link" in str(refused.value)) is ("link" in kind)
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "traces.db").exists()


@pytest.mark.parametrize("suffix", ["", *COMPANIONS])
def test_another_user_s_file_is_not_used(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner could read what is recorded, also where root may write to it."""
    path = tmp_path / "traces.db"
    if not suffix:
        Store.open(path).close()
        for companion in COMPANIONS:
            Path(f"{path}{companion}").unlink(missing_ok=True)
    elif suffix == ".spool":
        spool_folder(path).mkdir()
        spool_folder(path).chmod(0o777)
    else:
        Path(f"{path}{suffix}").touch()
    become_another(monkeypatch)
    with pytest.raises(StoreUnavailable, match=f"belongs to user .* this is user {STRANGER}"):
        Store.open(path)


def hold_reserve(store: Path) -> None:
    """Hold the room on the disk; it says nothing where it cannot."""
    DiskReserve(store).hold()


def open_crash_counter(store: Path) -> None:
    """Open the counter of crashes and write it; nothing is remembered where that fails."""
    CrashCounter.open(Path(f"{store}.strikes")).close()


def take_lock(store: Path) -> None:
    """Take the store's lock."""
    with pytest.raises(StoreUnavailable, match="symbolic link"):
        StoreLock(store)


def write_spool(store: Path) -> None:
    """Write to the spool."""
    with pytest.raises((OSError, SpoolFull)):
        FrameSpool(spool_folder(store), "a1").write([b"x"])


@pytest.mark.parametrize(
    ("suffix", "use"),
    [
        (".reserve", hold_reserve),
        (".strikes", open_crash_counter),
        (".lock", take_lock),
        (".spool", write_spool),
    ],
)
def test_a_link_that_comes_later_is_not_followed(
    tmp_path: Path, suffix: str, use: Callable[[Path], None]
) -> None:
    """What it leads to keeps its bytes and gets none of ours, file or folder."""
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.write_bytes(b"precious")
    folder.mkdir()
    store = tmp_path / "traces.db"
    Path(f"{store}{suffix}").symlink_to(folder if suffix == ".spool" else victim)
    use(store)
    assert victim.read_bytes() == b"precious"
    assert not list(folder.iterdir())


def test_a_look_for_the_owner_neither_follows_nor_waits(tmp_path: Path) -> None:
    """A pipe has no other end; a link leads to a file of another kind."""
    os.mkfifo(tmp_path / "pipe.lock")
    assert find_holder(tmp_path / "pipe") is None
    (tmp_path / "victim").touch()
    (tmp_path / "link.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(StoreUnavailable):
        find_holder(tmp_path / "link")


def test_what_the_group_may_do_is_taken_away(tmp_path: Path) -> None:
    """Kubernetes mounts a volume with ``fsGroup`` so; what the file holds stays."""
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_bytes(b"ours")
    file.chmod(0o660)
    folder.mkdir()
    folder.chmod(0o770)
    os.close(open_own(file, os.O_RDWR | os.O_CREAT))
    make_own_folder(folder)
    check_own(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert file.read_bytes() == b"ours"


def test_a_new_file_is_for_us_alone_whatever_the_folder(tmp_path: Path) -> None:
    """An ``emptyDir`` of Kubernetes may be written to by everybody."""
    tmp_path.chmod(0o777)
    os.close(open_own(tmp_path / "file", os.O_RDWR | os.O_CREAT))
    make_own_folder(tmp_path / "a" / "folder")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a" / "folder").stat().st_mode) == 0o700


def open_and_close(store: Path) -> None:
    """Start on a store and end, as one start of a pod."""
    Store.open(store).close()
    CrashCounter.open(Path(f"{store}.strikes")).close()
    spool = FrameSpool(spool_folder(store), "a1")
    spool.write([b"x"])
    spool.close()
    for segment in spool_folder(store).iterdir():
        segment.unlink()


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o2770, 0o755])
def test_volumes_of_containers_start_again_and_again(tmp_path: Path, mode: int) -> None:
    """An ``emptyDir``, with ``fsGroup`` too, a Docker volume; mounts give the group rights."""
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(mode)
    store = volume / "traces.db"
    for _ in range(3):
        open_and_close(store)
        for path in volume.rglob("*"):
            path.chmod(path.stat().st_mode | (0o2070 if path.is_dir() else 0o060))
    open_and_close(store)
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in volume.iterdir()} == {0}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("owner", [(0, STRANGER), (STRANGER, STRANGER)])
def test_the_folder_above_may_be_anybody_s(tmp_path: Path, owner: tuple[int, int]) -> None:
    """Root's with a group's rights, or another user's: only what we make has to be ours."""
    os.chown(tmp_path, *owner)
    tmp_path.chmod(0o2777)
    open_and_close(tmp_path / "traces.db")


def serve(store: Path) -> subprocess.CompletedProcess[str]:
    """Run ``spantap serve`` on a store that it must refuse."""
    ports = {"SPANTAP_PORT": str(find_free_port()), "SPANTAP_ADMIN_PORT": str(find_free_port())}
    return subprocess.run(
        [PROGRAM, "serve", "--no-page", "--store", str(store)],
        env=clean_environment() | ports,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("name", ["traces.db", "traces.db.spool"])
def test_root_does_not_record_where_another_user_reads(tmp_path: Path, name: str) -> None:
    """``spantap serve`` ends with status 2 and says why, and nothing is written."""
    store = tmp_path / "traces.db"
    if name == store.name:
        Store.open(store).close()
    else:
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    os.chown(tmp_path / name, STRANGER, STRANGER)
    ended = serve(store)
    assert ended.returncode == 2, ended.stderr
    assert f"it belongs to user {STRANGER}, who could read it, and this is user 0" in ended.stderr


def test_the_log_of_a_run_is_no_link(tmp_path: Path) -> None:
    """``spantap run`` says so and starts nothing; what the link leads to stays as it was."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "traces.db.log").symlink_to(victim)
    ended = subprocess.run(
        [PROGRAM, "run", "--store", str(tmp_path / "traces.db"), "--", "true"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert "traces.db.log cannot be written: it is a symbolic link" in ended.stderr
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o604, 0o666])
def test_a_secret_that_others_could_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    """They may know it, so taking their rights away would not help."""
    path = tmp_path / "secret"
    write_secret(path, b"x")
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_secret(path, 10) == b"x"
    path.chmod(mode)
    with pytest.raises(RefusedError, match=r"other users|every user"):
        read_secret(path, 10)
    assert path.stat().st_mode & 0o777 == mode


def test_a_secret_stays_unless_it_is_replaced(tmp_path: Path) -> None:
    """Whoever comes second keeps the first one; no unfinished file is left."""
    path = tmp_path / "secret"
    write_secret(path, b"first")
    write_secret(path, b"second")
    assert path.read_bytes() == b"first"
    write_secret(path, b"third", replaces=True)
    assert path.read_bytes() == b"third"
    assert list(tmp_path.iterdir()) == [path]


def test_a_secret_is_made_where_the_file_system_has_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on some network mounts."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    write_secret(tmp_path / "secret", b"x")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"x"]


def test_a_file_is_held_until_its_descriptor_is_closed(tmp_path: Path) -> None:
    """It can be written meanwhile, by its owner alone, and asking does not take it."""
    path = tmp_path / "life"
    assert not is_held(path)
    descriptor = hold(path)
    assert is_held(path)
    assert is_held(path)
    os.write(descriptor, b"x")
    os.close(descriptor)
    assert not is_held(path)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"x", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_of_a_process_that_was_killed_is_not_held(tmp_path: Path) -> None:
    """The kernel lets go of it."""
    path = tmp_path / "life"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_held(path)
        holder.kill()
    assert not is_held(path)


def test_a_file_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    """Where a folder has its name already."""
    (tmp_path / "life").mkdir()
    with pytest.raises(OSError, match="life"):
        hold(tmp_path / "life")
    assert [path.name for path in tmp_path.iterdir()] == ["life"]


def test_who_cannot_be_asked_may_live(tmp_path: Path) -> None:
    """Without a descriptor to look with nobody is taken for dead."""
    path = tmp_path / "life"
    os.close(hold(path))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(path, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        assert is_held(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not is_held(path)
