"""``telemetry.store.disk_reserve``: room that is held while there is some."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from telemetry.store.disk_reserve import RESERVE_BYTES, DiskReserve
from tests.telemetry.damage import small_disk


@pytest.mark.parametrize("system", ["Linux", "macOS"])
def test_it_takes_real_room(tmp_path: Path, system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An eighth of a small disk is held, given up, and not taken again while it is the last."""
    if system == "macOS":
        monkeypatch.delattr(os, "posix_fallocate")
    with small_disk(tmp_path / "disk", 16 << 20) as disk:
        reserve = DiskReserve(disk / "s.db")
        free = os.statvfs(disk).f_bavail
        for _ in range(2):
            reserve.hold()
        assert (disk / "s.db.reserve").stat().st_size == 2 << 20
        assert free - os.statvfs(disk).f_bavail == (2 << 20) // os.statvfs(disk).f_frsize
        (disk / "ballast").write_bytes(b"x" * (os.statvfs(disk).f_bavail * 4096))
        assert (reserve.held, reserve.is_needed()) == (True, True)
        reserve.give_up()
        assert (reserve.held, reserve.is_needed()) == (False, False)
        reserve.hold()
        assert (reserve.held, reserve.is_needed()) == (False, False)
        assert not (disk / "s.db.reserve").stat().st_size
        (disk / "ballast").unlink()
        reserve.hold()
        assert (reserve.held, reserve.is_needed()) == (True, False)


def test_what_a_former_owner_held_is_held(tmp_path: Path) -> None:
    """Beside a link's target, where the store is; nothing is taken twice."""
    target = tmp_path / "big" / "s.db"
    target.parent.mkdir()
    (tmp_path / "s.db").symlink_to(target)
    for _ in range(2):
        reserve = DiskReserve(tmp_path / "s.db")
        reserve.hold()
        assert reserve.held
        size_bytes = (tmp_path / "big" / "s.db.reserve").stat().st_size
        assert 0 < size_bytes <= RESERVE_BYTES


@pytest.mark.parametrize("name", ["statvfs", "posix_fallocate"])
def test_a_disk_that_does_not_let_us(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then there is no reserve, and no error."""

    def refuse(*args: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, name, refuse)
    reserve = DiskReserve(tmp_path / "s.db")
    reserve.hold()
    assert not reserve.held
    assert not reserve.is_needed()
    reserve.give_up()
    assert list(tmp_path.iterdir()) == []


def test_folder_that_is_away(tmp_path: Path) -> None:
    """Nothing is raised, and the disk does not count as full."""
    reserve = DiskReserve(Path(tmp_path / "none" / "s.db"))
    reserve.hold()
    reserve.give_up()
    assert not reserve.is_needed()
