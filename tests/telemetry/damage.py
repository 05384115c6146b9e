"""Ways to damage a store, and disks that are too small."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
from typing import TYPE_CHECKING

import pytest

from telemetry.facts import COLUMN_NAMES
from telemetry.store.opening import PAGE_BYTES, fold_wal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from telemetry.store.store import Store

__all__ = (
    "PAGE_BYTES",
    "damage_page",
    "damaged_sets",
    "fold",
    "forget_pages",
    "integrity",
    "make_older",
    "pages_of",
    "small_disk",
)


def fold(store: Store) -> None:
    """Bring everything into the file, where it can be damaged."""
    with store._file.use() as connection:
        assert fold_wal(connection)


def forget_pages(store: Store) -> None:
    """Make the owner read from the disk again: damage to a page that it holds is found later."""
    with store._file.use() as connection:
        connection.execute("PRAGMA shrink_memory")


def pages_of(path: Path, name: str) -> list[int]:
    """The pages of a table or an index, its root first; the leaves alone where it has several."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)
        ).fetchone()
    page = path.read_bytes()[(root - 1) * PAGE_BYTES : root * PAGE_BYTES]
    if page[0] not in {2, 5}:  # the two kinds of interior pages
        return [int(root)]
    count = int.from_bytes(page[3:5], "big")
    cells = [int.from_bytes(page[12 + 2 * i : 14 + 2 * i], "big") for i in range(count)]
    return [
        int(root),
        *(int.from_bytes(page[cell : cell + 4], "big") for cell in cells),
        int.from_bytes(page[8:12], "big"),
    ]


def damage_page(path: Path, number: int, content: bytes = b"\xa5" * PAGE_BYTES) -> None:
    """Overwrite the beginning of a page, as a failing disk does."""
    with path.open("r+b") as file:
        file.seek((number - 1) * PAGE_BYTES)
        file.write(content)


def damaged_sets(path: Path) -> list[Path]:
    """The files that were set aside, oldest first, without their companions."""
    return sorted(
        file
        for file in path.parent.glob(f"{path.name}.damaged-*")
        if not file.name.endswith(("-wal", "-shm"))
    )


def make_older(path: Path) -> None:
    """Take from a store what the schema of the versions before checksums did not have."""
    columns = "".join(f"ALTER TABLE spans DROP COLUMN {name};" for name in COLUMN_NAMES)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "DROP INDEX spans_by_conversation;"
            f"DROP INDEX spans_by_run; {columns} DROP TABLE minutes;"
            "DROP TABLE parts; ALTER TABLE spans DROP COLUMN part;"
            "DROP INDEX spans_by_launch; ALTER TABLE spans DROP COLUMN launch;"
            "ALTER TABLE spans DROP COLUMN checksum; DROP TABLE tally; DROP TABLE unobserved;"
            "DROP TABLE pictures; DROP TABLE call_pictures; DROP TABLE raw_answers;"
            "DROP TABLE links; DROP TABLE open_runs; DROP TABLE digest_key;"
            "PRAGMA user_version = 3"
        )


def integrity(path: Path) -> list[str]:
    """What SQLite thinks of a file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("PRAGMA integrity_check")]


@contextlib.contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """A file system of that size; the test is skipped where none may be mounted."""
    if os.geteuid():
        pytest.skip("only root may mount a file system")
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no file system may be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
