"""Sorted lists, what stands below a list, and a list without a pager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from rich.text import Text

from proxy.__main__ import main
from telemetry.store.store import Store
from tests.proxy.test_stats_command import Ran as Stats
from tests.proxy.traces_runs import Ran, Terminal
from tests.telemetry.run_rows import Run, make_agent_run

if TYPE_CHECKING:
    from pathlib import Path

    from telemetry.store.rows import SpanRow

BELOW = "`*`: a cost is missing for some of the calls; `!`: some have failed."


def fill(path: Path, *rows: SpanRow) -> Path:
    """A store of these rows."""
    with Store.open(path, delivers=False) as owner:
        owner.add(rows)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A run that ended well, with its tools; and one with a call that failed, without a cost."""
    run = Run(30, begin_ms=90_000)
    run.call(0, 400, cost_usd=0.5)
    run.call(500, 700, status="ERROR", cost_usd=None, cost_gap="no_usage")
    return fill(tmp_path / "traces.db", *make_agent_run().rows, *run.rows)


def look(
    store: Path, width: int, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[list[str], str]:
    """The titles on a terminal of that width, and what stands below the list."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    ran = Ran(store, out=Terminal(), **options)
    assert ran.status == 0, ran.err
    lines = Text.from_ansi(ran.out).plain.splitlines()
    assert max(map(len, lines)) <= width
    return lines[0].split(), Text.from_ansi(ran.err).plain


@pytest.mark.parametrize("width", [34, 60, 80, 100])
@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize(("sort", "title"), [("cost", "cost"), ("slow", "took")])
def test_the_column_of_the_order_stays(
    width: int, *, runs: bool, sort: str, title: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However narrow the terminal is, of calls and of runs."""
    assert title in look(store, width, monkeypatch, sort=sort, runs=runs)[0]


def test_the_slowest_calls_say_once_where_the_time_of_tools_is(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only if there are tools, and nobody asks for a kind already."""
    words = "`kind:tool --sort slow` lists tools"
    assert look(store, 80, monkeypatch, sort="slow")[1].count(words) == 1
    assert words not in look(store, 80, monkeypatch, sort="slow", words=("kind:tool",))[1]
    assert words not in look(store, 80, monkeypatch, sort="cost")[1]
    assert words not in Ran(store, sort="slow", as_json=True).err
    lone = fill(tmp_path / "lone.db", Run(1).call(0, 400))
    assert words not in look(lone, 80, monkeypatch, sort="slow")[1]


def test_marks_that_are_shown_are_explained_below_the_list(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal, and only those: a column that is left out has none."""
    assert BELOW in look(store, 100, monkeypatch, runs=True)[1]
    titles, below = look(store, 60, monkeypatch, runs=True, words=("run:30",))
    assert ("cost" in titles, "`*`" in below, "`!`" in below) == (False, False, True)
    assert "`" not in look(store, 100, monkeypatch, runs=True, words=("run:812", "-status:error"))[
        1
    ].replace("`!`: some have failed", "")
    assert Ran(store, runs=True).err == "", "a pipe has the list alone"
    assert "`*`: a cost is missing" in Text.from_ansi(Stats(store, out=Terminal()).err).plain


def test_the_command_line_switches_the_pager_off(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``NO_PAGER`` does; ``--help`` has it."""
    monkeypatch.setenv("NO_PAGER", "")
    assert main(["traces", "--no-pager", "--store", str(store)]) == 0
    with pytest.raises(SystemExit):
        main(["traces", "--help"])
    assert "--no-pager" in capsys.readouterr().out
