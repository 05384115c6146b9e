"""``spantap stats --by conversation`` and ``--by run``."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from rich.text import Text

from codec.text.jsontext import decode_json_object
from proxy.__main__ import main
from proxy.commands.stats import StatsOptions, run_stats
from telemetry.pricing.price_table import PriceTable
from telemetry.store.store import Store
from tests.proxy.traces_runs import Terminal
from tests.telemetry.run_rows import BEGIN_NS, Run, lone_call

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two runs of one conversation, a dearer one of another, and a call of neither."""
    rows = [lone_call(1)]
    for number, (conversation, cost) in enumerate(((3, 0.5), (3, 1.0), (9, 4.0))):
        run = Run(10 + number, begin_ms=60_000 * number, conversation=conversation)
        run.call(0, 1_000, "grep", cost_usd=cost, preview=f"Task {number}", saved_usd=0.5)
        run.tool("grep", 1_000, 500)
        run.call(1_500, 500, cost_usd=None, cost_gap="no_usage", status="ERROR")
        run.agent(2_000)
        rows += run.rows
    with Store.open(tmp_path / "t.db", delivers=False) as owner:
        owner.add(rows)
    return tmp_path / "t.db"


def show(store: Path, by: str, *words: str, **options: Any) -> tuple[int, list[str], str]:
    """What the command gives."""
    out, err = options.pop("out", io.StringIO()), io.StringIO()
    asked = StatsOptions(words=words, by=by, **options)
    status = run_stats(
        store,
        asked,
        prices=lambda: PriceTable(()),
        out=out,
        err=err,
        now_ns=lambda: BEGIN_NS + 3_600_000_000_000,
    )
    return status, out.getvalue().splitlines(), err.getvalue()


def test_the_dearest_come_first_with_their_titles(store: Path) -> None:
    """Calls of none have a row, and all calls the last one."""
    status, lines, err = show(store, "run")
    assert (status, err) == (0, "")
    assert [line.split()[0] for line in lines] == ["run", "12", "11", "10", "-", "all"]
    assert "Task 2" in lines[1]
    assert "calls of no run" in lines[4]
    assert lines[1].split()[-1] == "$4*", "one of its calls has no cost"
    assert "2.00 s" in lines[1]
    _, lines, _ = show(store, "conversation")
    assert [line.split()[0] for line in lines[1:3]] == ["9", "3"]
    assert "1 min 02 s" in lines[2], "from the first call to the end of the last one"


def test_a_filter_chooses_the_calls_that_are_summed_up(store: Path) -> None:
    """What is left out is told."""
    _, lines, err = show(store, "run", "status:error", "-run:10")
    assert [line.split()[0] for line in lines[1:]] == ["12", "11", "all"]
    _, lines, err = show(store, "run", limit=1)
    assert [line.split()[0] for line in lines[1:]] == ["12", "all"]
    assert "3 more by run; --limit N shows more." in err
    assert "no call that fits model:none is recorded" in show(store, "run", "model:none")[2]
    status, _, err = show(store, "run", price_as="gpt-5")
    assert (status, "run:N" in err) == (2, True)


def test_json_has_every_sum(store: Path) -> None:
    """What is not known is null; of all calls there is no time."""
    *_, total = records = [*map(decode_json_object, show(store, "conversation", as_json=True)[1])]
    first = records[0]
    assert (first["by"], first["key"], first["title"]) == ("conversation", 9, "Task 2")
    assert (first["calls"], first["errors"], first["priced"]) == (2, 1, 1)
    assert (first["cost_usd"], first["saved_usd"], first["prompt_tokens"]) == (4.0, 0.5, 200)
    assert (first["took_ms"], first["start_time"]) == (2_000.0, "2025-11-20T14:06:05.000000000Z")
    assert (total["by"], total["key"], total["calls"], total["took_ms"]) == (None, None, 7, None)


@pytest.mark.parametrize("width", [80, 100, 150])
def test_a_terminal_shows_the_number_the_title_and_the_cost(
    store: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is longer than the terminal is wide."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    _, lines, _ = show(store, "conversation", out=Terminal())
    plain = [Text.from_ansi(line).plain for line in lines]
    assert max(map(len, plain)) <= width
    assert {"conversation", "what", "calls", "in", "took", "cost"} <= {*plain[0].split()}


def test_the_command_line_knows_them(store: Path) -> None:
    """As every other group."""
    for by in ("conversation", "run"):
        assert main(["stats", "--by", by, "--store", str(store)]) == 0
