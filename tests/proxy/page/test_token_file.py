"""The file that holds a store's token."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from proxy.page_access.token_file import read_token, token_path
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_the_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    """Mode 0600 whatever the mask, and the same after a restart."""
    store = tmp_path / "new" / "traces.db"
    mask = os.umask(0)
    try:
        token = read_token(store)
    finally:
        os.umask(mask)
    path = store.parent / "traces.db.page-token"
    assert path == token_path(store)
    assert path.stat().st_mode & 0o777 == 0o600
    assert (store.parent.stat().st_mode & 0o777) == 0o700
    assert len(token) >= 43  # 32 random bytes
    assert read_token(store) == token
    assert read_token(tmp_path / "other.db") != token
    assert list(store.parent.iterdir()) == [path]


def test_all_who_make_it_at_once_have_the_same(tmp_path: Path) -> None:
    """A half-written token is never read, and the first one stays."""
    found: list[str] = []
    begin = threading.Barrier(8)

    def read() -> None:
        begin.wait()
        found.append(read_token(tmp_path / "traces.db"))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_token_that_others_could_read_is_not_used(tmp_path: Path, mode: int) -> None:
    """What it holds may be known; the file is named, and what to do."""
    path = token_path(tmp_path / "traces.db")
    read_token(tmp_path / "traces.db")
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match=f"delete {path}"):
        read_token(tmp_path / "traces.db")


def test_what_is_no_file_of_ours_is_not_read(tmp_path: Path) -> None:
    """Neither a link, nor a pipe, nor a folder, nor a file without a token."""
    path = token_path(tmp_path / "traces.db")
    (tmp_path / "secret").write_text("somebody-elses-secret-text\n")
    (tmp_path / "secret").chmod(0o600)
    makings: tuple[Callable[[], object], ...] = (
        lambda: path.symlink_to(tmp_path / "secret"),
        lambda: path.symlink_to(tmp_path / "nowhere"),
        lambda: os.mkfifo(path, 0o600),
        lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)),
        lambda: path.mkdir(0o700),
    )
    for make in makings:
        make()
        with pytest.raises(ConfigurationError) as caught:
            read_token(tmp_path / "traces.db")
        assert str(path) in str(caught.value)
        assert "secret-text" not in str(caught.value)
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_token_is_not_used(tmp_path: Path) -> None:
    """That user knows it."""
    read_token(tmp_path / "traces.db")
    os.chown(token_path(tmp_path / "traces.db"), 12345, -1)
    with pytest.raises(ConfigurationError, match="belongs to user 12345"):
        read_token(tmp_path / "traces.db")
