"""``spantap traces --runs``, ``show run:N`` and ``spantap stats --by tool``."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from rich.text import Text

from codec.text.jsontext import decode_json_object
from proxy.__main__ import main
from proxy.commands import runs as runs_command
from proxy.commands.stats import StatsOptions, run_stats
from telemetry.launch_labels import build_label
from telemetry.pricing.price_table import PriceTable
from telemetry.reading import runs as reading_runs
from telemetry.store.store import Store
from tests.proxy.traces_runs import Ran, Terminal
from tests.telemetry.run_rows import BEGIN_NS, Run, lone_call, make_agent_run
from tests.telemetry.span_rows import make_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from telemetry.store.rows import SpanRow

TASK = "00c0ffee00000001"
_LABEL = re.compile(r"[├└│ ]*[\w.-]+")
NOW_NS = BEGIN_NS + 3_600_000_000_000


def make_rows() -> list[SpanRow]:
    """A run that has ended, with a sub-agent; an open one; and a lone call."""
    run = Run(812)
    run.call(0, 1_000, "task", "grep", preview="Fix it")
    sub = Run(815, trace_id=run.trace_id, begin_ms=1_100, client="helper")
    sub.call(0, 300)
    sub.agent(800, "idle", parent_span_id=TASK, preview="Look around", finish_reason="idle")
    run.tool("task", 1_000, 1_000, span_id=TASK)
    run.tool("grep", 1_000, 1_000, failed=True)
    run.call(2_000, 500, cost_usd=None, status="ERROR", error_type="429")
    run.agent(2_500)
    other = make_agent_run(830, ended_by=None, begin_ms=60_000)
    return [lone_call(1), run.rows[0], *sub.rows, *run.rows[1:], *other.rows]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Of those rows."""
    return fill(tmp_path / "traces.db", make_rows())


def fill(path: Path, rows: Sequence[SpanRow]) -> Path:
    """A store of these rows."""
    with Store.open(path, delivers=False) as owner:
        owner.add(rows)
    return path


def list_runs(store: Path, *words: str, **options: Any) -> Ran:
    """What ``--runs`` lists."""
    return Ran(store, words=words, runs=True, now_ns=NOW_NS, **options)


def on_terminal(
    store: Path, width: int, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> list[str]:
    """The lines of a terminal, without its colours."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    ran = Ran(store, out=Terminal(), **options)
    assert ran.status == 0, ran.err
    return Text.from_ansi(ran.out).plain.splitlines()


def test_a_list_of_runs_has_a_row_for_each_the_newest_first(store: Path) -> None:
    """An open one says so, a sub-agent has an arrow, and sums of some calls alone have a star."""
    ran = list_runs(store)
    assert (ran.status, ran.err) == (0, "")
    rows = [line.split() for line in ran.out.splitlines()]
    assert rows[0] == [
        *("run", "time", "client", "what", "calls", "tools"),
        *("in", "cached", "out", "cost", "took", "ended"),
    ]
    assert [row[0] for row in rows[1:]] == ["830", "815", "812"]
    assert rows[1][-1] == "open"
    assert rows[2][3:7] + rows[2][-1:] == ["helper", "↳", "Look", "around", "idle"]
    assert rows[3][4:] == [
        *("Fix", "the", "failing", "test", "2!", "2!"),
        *("200", "160", "20", "$0.25", "2.50", "s", "answer"),
    ]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("client:codex",), [830, 812]),
        (("status:error",), [812]),
        (("status:error", "kind:tool"), [830, 812]),
        (("kind:tool", "tool:task"), [812]),
        (("run>812",), [830, 815]),
        (("conversation:7", "cost>0.2"), [830, 815, 812]),
        (("since:59m",), [830]),
        (("model:none",), []),
    ],
)
def test_a_run_is_listed_if_one_of_its_calls_fits(
    words: tuple[str, ...], found: list[int], store: Path
) -> None:
    """Or a row of the kind that is named; it is summed up as a whole."""
    ran = list_runs(store, *words, as_json=True)
    assert [record["run"] for record in ran.records] == found
    assert ran.err.startswith("" if found else "spantap traces: no run of an agent that fits ")


def test_a_list_that_is_cut_by_itself_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``--limit`` nothing is said."""
    runs = [make_agent_run(number).rows for number in range(1, 4)]
    store = fill(tmp_path / "traces.db", [row for rows in runs for row in rows])
    monkeypatch.setattr("proxy.commands.traces.DEFAULT_LIMIT", 2)
    ran = list_runs(store)
    assert len(ran.out.splitlines()) == 3
    assert ran.err == "spantap traces: these are the newest 2; --limit N lists more.\n"
    assert list_runs(store, limit=1).err == ""


def test_runs_are_listed_by_what_the_whole_run_comes_to(tmp_path: Path) -> None:
    """The dearest, slowest or largest first, also if the filter finds one of its calls alone."""
    rows = []
    for number, (first, second, took_ms) in enumerate(((1.0, 2.0, 900), (2.5, 0.0, 9_000))):
        run = Run(10 * number + 10, begin_ms=20_000 * number)
        run.call(0, 500, cost_usd=first, preview=f"Task {number}")
        run.call(took_ms - 500, 500, cost_usd=second, status="ERROR")
        rows += run.rows
    rows.append(Run(50, begin_ms=60_000).call(0, 100, cost_usd=None))
    store = fill(tmp_path / "sorted.db", rows)

    def numbers(*words: str, **options: Any) -> list[str]:
        return [
            line.split()[0] for line in list_runs(store, *words, **options).out.splitlines()[1:]
        ]

    assert numbers() == ["50", "20", "10"]
    assert numbers(sort="cost") == ["10", "20", "50"], "of which no cost is known comes last"
    assert numbers(sort="slow") == ["20", "10", "50"]
    assert numbers("cost>2.4", sort="cost") == ["20"]
    assert numbers("status:error", sort="cost") == ["10", "20"], "the order is that of whole runs"
    ran = list_runs(store, sort="cost", limit=1)
    assert (len(ran.out.splitlines()), ran.err) == (2, "")


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        ((), {"follow": True}, "--follow"),
        ((), {"full": True, "as_json": True}, "--full"),
        (("some text",), {}, "is a text"),
    ],
)
def test_what_does_not_go_with_runs_is_refused(
    words: tuple[str, ...], options: dict[str, Any], said: str, store: Path
) -> None:
    """With status 2."""
    ran = list_runs(store, *words, **options)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def test_json_has_every_number_of_a_run(store: Path) -> None:
    """What is not known is null."""
    first, _, last = list_runs(store, as_json=True).records
    assert (first["open"], first["ended_by"], first["span_id"]) == (True, None, None)
    assert {**last, "trace_id": None} == {
        "schema_version": 2,
        "run": 812,
        "open": False,
        "ended_by": "answer",
        "status": "OK",
        "name": "invoke_agent",
        "span_id": "000a00000000032c",
        "trace_id": None,
        "parent_span_id": None,
        "conversation": 7,
        "turn": 1,
        "session": "s-1",
        "user": None,
        "client": "codex",
        "launch": None,
        "launch_label": None,
        "preview": "Fix the failing test",
        "start_time": "2025-11-20T14:04:05.000000000Z",
        "end_time": "2025-11-20T14:04:07.500000000Z",
        "duration_ms": 2500.0,
        "calls": 2,
        "errors": 1,
        "tools": 2,
        "tool_errors": 1,
        "prompt_tokens": 200,
        "cached_tokens": 160,
        "completion_tokens": 20,
        "cost_usd": 0.25,
        "priced": 1,
        "unpriced": 0,
        "list_usd": None,
        "saved_usd": None,
    }


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_table_of_runs_keeps_to_the_width(
    width: int, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole columns are left out, in the order of their ranks."""
    lines = on_terminal(store, width, monkeypatch, runs=True)
    assert max(map(len, lines)) <= width
    titles = lines[0].split()
    ranks = sorted(runs_command.COLUMNS, key=lambda column: column.rank)
    assert {*titles} == {column.title for column in ranks[: len(titles)]}
    assert len(titles) >= 4


def test_a_run_is_drawn_as_a_tree(store: Path) -> None:
    """Agent, calls, tools between them, the sub-agent below its tool; each with its times."""
    ran = Ran(store, call_id="run:812")
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[:10] == [
        "run 812  answer",
        "  asked       Fix the failing test",
        "  took        2.50 s: model 1.50 s · tools 1.00 s",
        "  longest     gpt-5.1, 1.00 s (00000000)",
        "  calls       2, 1 failed",
        "  tools       2, 1 failed",
        "  tokens      200 in (160 cached), 20 out",
        "  cost        $0.25",
        "  sub-agents  1 call, 100 in, 10 out, $0.25",
        "",
    ]
    steps = lines[lines.index("steps") + 2 : lines.index("usage") - 2]
    column = lines[lines.index("steps") + 1].index("what")
    assert [_LABEL.match(line, column)[0] for line in steps] == [  # type: ignore[index]
        "agent",
        "├ gpt-5.1",
        "├ task",
        "│ └ agent",
        "│   └ gpt-5.1",
        "├ grep",
        "└ gpt-5.1",
    ]
    assert steps[2].split()[:4] == ["+1.00", "s", "1.00", "s"]
    assert "failed" in steps[5]
    assert "429" in steps[6]
    assert f"{'░' * 16}{' ' * 8}" in steps[2], "a tool has another bar than a call"
    assert steps[2].endswith(TASK)
    assert lines[lines.index("usage") - 2].startswith("The time of a tool is an upper bound: ")
    assert lines[lines.index("usage") + 1 : lines.index("usage") + 4] == [
        "  tokens.system 40",
        "  tokens.tools  20",
        "  cache breaks  1",
    ]
    assert "  belongs to  conversation 7, turn 1" in lines
    assert "  ended by    answer" in lines


@pytest.mark.parametrize(
    ("input_usd", "words"),
    [(0.2425, "$0.5, 97 % is input"), (0.1, "$0.5"), (None, "$0.5"), (0.3, "$0.5, 100 % is input")],
)
def test_a_run_says_that_most_of_its_cost_is_input(
    tmp_path: Path, input_usd: float | None, words: str
) -> None:
    """From four fifths on; not if the parts of the cost are not known."""
    run = Run(1)
    run.call(0, 1_000, "grep", input_usd=input_usd)
    run.call(2_000, 500, input_usd=input_usd)
    out = Ran(fill(tmp_path / "t.db", run.rows), call_id="run:1").out
    assert [line for line in out.splitlines() if line.startswith("  cost ")] == [
        f"  cost        {words}"
    ]


def test_a_run_says_once_why_a_cost_is_unknown(tmp_path: Path) -> None:
    """Beside its cost that of its calls, beside sub-agents that of theirs; and what mends it."""
    run = Run(1)
    run.call(0, 1_000, "task", cost_usd=None, cost_gap="unknown_model", model="m-1")
    sub = Run(2, trace_id=run.trace_id, begin_ms=1_100, parent_span_id=TASK)
    sub.call(0, 100, cost_usd=None, cost_gap="unknown_model", model="m-2")
    sub.call(100, 100)
    run.tool("task", 1_000, 1_000, span_id=TASK)
    run.call(2_000, 500, cost_usd=None, cost_gap="unknown_model", model="m-1")
    run.call(3_000, 500, cost_usd=None, cost_gap="no_usage", model="m-3")
    out = Ran(fill(tmp_path / "t.db", [*run.rows, *sub.rows]), call_id="run:1").out
    told = [line for line in out.splitlines() if "unknown: " in line or "sub-agents" in line]
    words = "unknown: the list of prices has no model"
    assert told == [
        f'  cost        {words} "m-1"',
        "  sub-agents  2 calls, 200 in, 20 out, $0.25, 1 call has no price",
        f'              {words} "m-2"',
    ]
    assert out.count('write a [[price]] table with model = "m-1"') == 1


def test_a_run_is_shown_while_it_goes_on(store: Path) -> None:
    """Without the agent's span, and so without what that says."""
    ran = Ran(store, call_id="run:830")
    lines = ran.out.splitlines()
    took = "  took        5.00 s so far: model 4.65 s · tools 350 ms"
    assert (ran.status, lines[0], lines[2]) == (0, "run 830  open", took)
    assert "usage" not in lines
    assert "{}" not in ran.out
    (record,) = Ran(store, call_id="run:830", as_json=True).records
    assert (record["open"], record["metadata"], len(record["spans"])) == (True, {}, 6)


def test_a_run_is_shown_by_the_ids_of_its_agent_and_its_trace(store: Path) -> None:
    """As by its number, wherever an id is typed."""
    shown = Ran(store, call_id="run:812").out
    for word in ("000a00000000032c", "000A00000000032C", f"{0xA0000 + 812:032x}"):
        assert Ran(store, call_id=word).out == shown
        assert Ran(store, words=(word,)).out == shown


def test_a_sub_agent_says_who_started_it(store: Path) -> None:
    """Others are started by nobody."""
    lines = Ran(store, call_id="run:815").out.splitlines()
    assert lines[0] == "run 815  idle"
    assert "  started by  the tool task of run 812" in lines
    (record,) = Ran(store, call_id="run:815", as_json=True).records
    assert record["parent_run"] == 812
    assert "started by" not in Ran(store, call_id="run:812").out


def test_a_tool_is_shown_by_its_id(store: Path) -> None:
    """It says that its time is an upper bound, and nothing of tokens."""
    ran = Ran(store, call_id=TASK)
    lines = ran.out.splitlines()
    assert lines[0] == "task  completed"
    assert '  {"path": "a.py"}' in lines
    assert "  def test_a(): ..." in lines
    assert any(line.startswith("  took        1.00 s, an upper bound: ") for line in lines)
    assert "  place       a tool of run:812 and conversation:7" in lines
    assert not any(line.startswith(("  tokens", "  finish")) for line in lines)


def test_a_call_says_which_run_it_belongs_to(store: Path) -> None:
    """At its top, with the calls beside it and how to see more; a lone call says nothing."""
    lines = Ran(store, call_id="00000000032c0001").out.splitlines()
    assert lines[2] == "  place       call 1 of 2 of run:812, 1 of 6 of conversation:7"
    assert lines[3].startswith("  after       00000000  ")
    see = "  see also    spantap traces show run:812, spantap traces show conversation:7"
    assert lines[4] == see
    assert "  belongs to  conversation 7, turn 1" in lines
    assert "  place  " not in Ran(store, call_id="0000000000000001").out


def test_a_run_that_is_not_there_is_told(store: Path) -> None:
    """With status 2; bodies are those of calls."""
    ran = Ran(store, call_id="run:7")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == "spantap traces: there is no run 7. `--runs` lists them.\n"
    assert Ran(store, call_id="run:812", raw=True).status == 2
    assert Ran(store, call_id=f"run:{'9' * 30}").status == 2


def test_the_newest_run_of_a_launch_is_shown_by_its_name(tmp_path: Path) -> None:
    """Its sub-agents are in its tree, and not newer runs; heads and lists have the name."""
    first, second, other = Run(812), Run(830, begin_ms=60_000), make_agent_run(840)
    first.call(0, 1_000, preview="Fix it")
    second.call(0, 1_000, preview="Fix it again")
    sub = Run(835, trace_id=second.trace_id, begin_ms=61_000)
    sub.call(0, 300)
    sub.agent(800, parent_span_id=TASK)
    rows = [*first.rows, *second.rows, *sub.rows]
    named = [replace(row, launch=build_label("tide app", "4f2a")) for row in rows]
    store = fill(tmp_path / "traces.db", [*named, *other.rows])
    shown = Ran(store, call_id="run:tide app")
    assert shown.status == 0
    assert shown.out.splitlines()[0] == "run 830  tide app  open"
    more = "spantap traces --runs 'run:\"tide app\"'"
    assert shown.err == f"spantap traces: this is run 830, the newest; `{more}` lists all.\n"
    assert Ran(store, call_id="launch:tide*", as_json=True).records[0]["run"] == 830
    assert " tide app · Fix it again " in list_runs(store).out
    head = Ran(store, call_id="conversation:7").out.splitlines()[0]
    assert head == "conversation 7  tide app  codex"
    out = io.StringIO()
    options = StatsOptions(by="run")
    assert run_stats(store, options, prices=PriceTable, out=out, err=io.StringIO()) == 0
    assert " tide app · Fix it again " in out.getvalue()
    nothing = Ran(store, call_id="run:nobody")
    assert (nothing.status, nothing.out) == (2, "")
    assert nothing.err == (
        "spantap traces: no run of an agent fits run:nobody. `--runs` lists all runs.\n"
    )


def test_json_of_a_run_has_its_rows_in_the_order_of_the_tree(store: Path) -> None:
    """Each with its depth, and the metadata of the agent's span."""
    (record,) = Ran(store, call_id="run:812", as_json=True).records
    assert [span["depth"] for span in record["spans"]] == [0, 1, 1, 2, 3, 1, 1]
    assert record["spans"][3]["parent_span_id"] == TASK
    assert record["metadata"]["usage"]["tokens"] == {"system": 40, "tools": 20}


@pytest.mark.parametrize("width", [30, 60, 80, 120, 200])
def test_a_tree_keeps_to_the_width_of_the_terminal(
    width: int, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No number is cut; that a call failed is said in every width."""
    lines = on_terminal(store, width, monkeypatch, call_id="run:812")
    at = lines.index("steps")
    end = next(n for n, line in enumerate(lines) if line.startswith("The time"))
    assert max(map(len, lines[at:end])) <= width
    assert any("429" in line for line in lines[at:end])


def test_a_tree_of_too_many_levels_says_so(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the terminal and in JSON; the call of the sub-agent is too deep here."""
    monkeypatch.setattr("proxy.reading.run_tree.MAX_DEPTH", 2)
    ran = Ran(store, call_id="run:812")
    assert "1 step is left out, more than 100 levels deep" in " ".join(ran.out.split())
    (record,) = Ran(store, call_id="run:812", as_json=True).records
    assert (record["too_deep"], len(record["spans"])) == (1, 6)
    monkeypatch.undo()
    assert "left out" not in Ran(store, call_id="run:812").out


def test_a_tree_of_too_many_rows_says_so(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of them are drawn."""
    monkeypatch.setattr(reading_runs, "MAX_TREE_ROWS", 3)
    monkeypatch.setattr("proxy.commands.run_page.MAX_TREE_ROWS", 3)
    assert "These are the first 3 steps; " in Ran(store, call_id="run:830").out


HOSTILE = "\x1b]0;pwned\x07\u202e\r\nforged [bold]"


def test_nothing_that_a_run_says_can_steer_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of tools and agents, models, previews, metadata and its names."""
    run = Run(812, client=HOSTILE, session=HOSTILE)
    run.call(
        0, 10, HOSTILE.replace("\n", ""), model=HOSTILE, preview=HOSTILE, finish_reason=HOSTILE
    )
    run.tool(HOSTILE, 10, 10)
    run.call(20, 10, status="ERROR", error_type=HOSTILE)
    run.agent(30, HOSTILE, name=HOSTILE, preview=HOSTILE, usage={HOSTILE: {HOSTILE: [HOSTILE]}})
    store = fill(tmp_path / "traces.db", run.rows)
    for options in (
        {"call_id": "run:812"},
        {"runs": True},
        {"call_id": "run:812", "as_json": True},
    ):
        ran = Ran(store, **options)
        assert ran.status == 0
        assert not {"\x1b", "\x07", "\u202e", "\r"} & {*ran.out}
        assert not any(line.startswith("forged") for line in ran.out.splitlines())
        lines = on_terminal(store, 100, monkeypatch, **options)
        assert not {"\x1b", "\x07", "\u202e"} & {*"".join(lines)}


@pytest.mark.parametrize("usage", [None, 5, "text", [], {}, {"a": None}, {"a": {"b": {}}}])
def test_whatever_the_usage_is_a_run_is_shown(usage: object, tmp_path: Path) -> None:
    """It is made elsewhere."""
    run = Run(812)
    run.call(0, 10)
    run.agent(30, usage=usage)
    assert Ran(fill(tmp_path / "traces.db", run.rows), call_id="run:812").status == 0


def test_a_damaged_agents_span_ends_a_run_nobody_knows_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has ended, for the row is there."""
    run = make_agent_run()
    store = fill(tmp_path / "traces.db", run.rows)
    monkeypatch.setattr("telemetry.reading.sqlite.stored_rows.is_whole", lambda *_: False)
    assert Ran(store, call_id="run:812").out.startswith("run 812  ended\n")


def test_signs_are_those_that_the_output_has(store: Path) -> None:
    """Not every terminal speaks UTF-8."""
    program = (
        f"from proxy.__main__ import main; main(['traces','show','run:812','--store','{store}'])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
    )
    assert b"|-task" in ended.stdout
    assert b":::" in ended.stdout
    assert b"\\u25" not in ended.stdout


def tool_stats(store: Path, *words: str, **options: Any) -> tuple[int, str, str]:
    """What ``stats --by tool`` gives."""
    out, err = io.StringIO(), io.StringIO()
    asked = StatsOptions(words=words, by="tool", **options)
    status = run_stats(store, asked, prices=lambda: PriceTable(()), out=out, err=err)
    return status, out.getvalue(), err.getvalue()


def test_tools_are_summed_up(store: Path) -> None:
    """Those that most answers came of come first; the last row is all of them."""
    status, out, err = tool_stats(store)
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0][:5] == ["tool", "calls", "answered", "errors", "unanswered"]
    assert [row[:5] for row in rows[1:]] == [
        ["grep", "3", "3", "2", "0"],
        ["read_file", "1", "1", "0", "0"],
        ["task", "1", "1", "0", "0"],
        ["all", "5", "5", "2", "0"],
    ]
    assert rows[1][5:7] == ["310", "ms"]


def test_calls_without_an_answer_are_told_where_they_are_known(tmp_path: Path) -> None:
    """Not under a condition that holds for a tool's row or its call alone, nor for uneven calls."""
    run = Run(812)
    run.call(0, 1_000, "bash", "grep")
    run.call(1, 1_000, "task", "task", "grep")
    run.tool("grep", 1_000, 10)
    store = fill(tmp_path / "traces.db", run.rows)

    def known(*words: str) -> dict[str, int | None]:
        _, out, _ = tool_stats(store, *words, as_json=True)
        records = map(decode_json_object, out.splitlines())
        return {record["key"]: record["unanswered"] for record in records}

    assert known() == {"bash": 1, "grep": None, "task": None, None: None}
    assert known("run:812", "session:s-1")["bash"] == 1
    assert known("dur>1ms") == {"grep": None, None: None}


def test_more_answers_than_calls_tell_of_neither(tmp_path: Path) -> None:
    """The calls were pruned."""
    rows = make_agent_run().rows
    tools = [row for row in rows if row.columns.kind == "TOOL"]
    _, out, _ = tool_stats(fill(tmp_path / "traces.db", [rows[3], *tools]))
    assert [line.split()[:5] for line in out.splitlines()[1:]] == [
        ["grep", "-", "2", "1", "-"],
        ["read_file", "-", "1", "0", "-"],
        ["all", "-", "3", "1", "-"],
    ]


def test_stats_of_tools_tell_what_cannot_be_done(store: Path, tmp_path: Path) -> None:
    """And where there is no tool."""
    assert tool_stats(store, price_as="gpt-5")[0] == 2
    status, out, err = tool_stats(store, "model:none")
    assert (status, out) == (0, "")
    assert "no call of a tool that fits model:none" in err
    assert tool_stats(store, limit=1)[2] == (
        "spantap stats: 2 more by tool; --limit N shows more.\n"
    )
    empty = fill(tmp_path / "empty.db", [make_row(1)])
    assert "no call of a tool is recorded" in tool_stats(empty)[2]


def test_the_command_line_knows_them(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By their flags."""
    assert main(["traces", "--runs", "--store", str(store)]) == 0
    assert main(["traces", "show", "run:812", "--store", str(store)]) == 0
    assert main(["stats", "--by", "tool", "--store", str(store)]) == 0
    assert main(["traces", "show", "run:812", "--runs", "--store", str(store)]) == 2
    assert "--runs goes with a list" in capsys.readouterr().err
