"""``proxy.commands.console``: a pager on a terminal, and none anywhere else."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from proxy.commands.console import find_pager
from tests.proxy.recorded_calls import make_exchange, make_store

if TYPE_CHECKING:
    from pathlib import Path

HERE = os.environ["PATH"]


@pytest.fixture
def pager(tmp_path: Path) -> str:
    """A pager that says that it is one, and shows what it reads."""
    return script(tmp_path / "pager", "echo PAGED; cat")


def script(path: Path, line: str) -> str:
    """A program of one line of shell."""
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return str(path)


def look(store: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    """Run ``spantap traces`` on a terminal of 24 lines: its status, what is seen, and the rest."""
    ours, theirs = pty.openpty()
    environ = {"PATH": HERE, "TERM": "xterm", "COLUMNS": "100", "LINES": "24", "LC_ALL": "C.UTF-8"}
    environ |= {name: os.environ[name] for name in ("PYTHONPATH", "HOME") if name in os.environ}
    program = [sys.executable, "-m", "spantap", "traces", "--store", str(store), *words]
    try:
        with subprocess.Popen(
            program, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environ | variables
        ) as process:
            os.close(theirs)
            seen = b""
            while piece := read(ours):
                seen += piece
            assert process.stderr is not None
            complaints = process.stderr.read().decode()
            return process.wait(30), seen.decode(), complaints
    finally:
        os.close(ours)


def read(terminal: int) -> bytes:
    """What is next on a terminal; nothing where nobody writes to it any more."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of some calls: with its titles a list of them fills a screen of 24 lines."""
    return make_store(tmp_path / "traces.db", *(make_exchange(n) for n in range(1, 41)))


@pytest.mark.parametrize(
    ("environ", "command"),
    [
        ({"PAGER": "sh -c 'more x'"}, ["sh", "-c", "more x"]),
        ({"PAGER": "cat -n"}, ["cat", "-n"]),
        ({"PAGER": "cat"}, None),
        ({"PAGER": ""}, None),
        ({"PAGER": " "}, None),
        ({"PAGER": "no-such-program"}, None),
        ({"PAGER": "it's"}, None),
        ({"PAGER": "sh", "NO_PAGER": "1"}, None),
        ({"PAGER": "sh", "NO_PAGER": ""}, ["sh"]),
        ({"PAGER": "sh", "TERM": "dumb"}, None),
        ({}, ["less"] if shutil.which("less") else None),
    ],
)
def test_which_pager(environ: dict[str, str], command: list[str] | None) -> None:
    """The user's, ``less``, or none."""
    assert find_pager({"PATH": HERE, **environ}) == command


def test_there_is_none_where_nothing_is_installed(tmp_path: Path) -> None:
    """As in a small container."""
    assert find_pager({"PATH": str(tmp_path)}) is None


@pytest.mark.parametrize(
    ("words", "is_paged"),
    [
        (["show", "last"], True),
        (["show", "last", "--raw"], True),
        (["show", "last", "--json"], False),
        (["--limit", "40"], True),
        (["--limit", "3"], False),
        (["--limit", "40", "--json"], False),
    ],
)
def test_what_is_long_goes_through_the_pager(
    words: list[str], is_paged: bool, store: Path, pager: str
) -> None:
    """A call in any case, and a list that is longer than the screen; nothing for programs."""
    status, seen, complaints = look(store, *words, PAGER=pager)
    assert (status, complaints) == (0, "")
    assert seen.startswith("PAGED") is is_paged
    assert "Hello there" in seen
    if "--json" not in words:
        assert "\x1b[" in seen, "it is a terminal still"


def test_without_a_pager_the_same_is_shown(store: Path, pager: str) -> None:
    """Only the pager itself is missing from what the terminal shows."""
    _, paged, _ = look(store, "--limit", "40", PAGER=pager)
    status, seen, _ = look(store, "--limit", "40", PAGER=pager, NO_PAGER="1")
    assert status == 0
    assert paged == f"PAGED\r\n{seen}"


def test_a_pager_that_ends_early_is_no_error(store: Path, tmp_path: Path) -> None:
    """Whether it reads a line or none; what is told beside the list is still told."""
    for number, line in enumerate(("head -n 1", "exit 3", "exec <&-; sleep 0.3")):
        early = script(tmp_path / f"pager{number}", line)
        for words in (["--limit", "39"], ["show", "last"], ["show", "last", "--raw"]):
            status, _, complaints = look(store, *words, PAGER=early)
            assert (status, complaints) == (0, ""), (line, words)


def test_less_gets_its_flags_unless_the_user_has_some(store: Path, tmp_path: Path) -> None:
    """``$LESS`` takes precedence."""
    tells = script(tmp_path / "tells", "cat >/dev/null; echo flags $LESS")
    assert "flags FRX" in look(store, "show", "last", PAGER=tells)[1]
    assert "flags -S" in look(store, "show", "last", PAGER=tells, LESS="-S")[1]


def test_a_long_list_is_read_piece_by_piece(store: Path, tmp_path: Path) -> None:
    """Rows that the pager does not read are not laid out, and nothing waits for them."""
    early = script(tmp_path / "early", "head -n 2")
    status, seen, complaints = look(store, "--limit", "1000000", PAGER=early)
    assert (status, complaints) == (0, "")
    assert len(seen.splitlines()) == 2
