"""Rows that are no calls, in the commands that read the store: left out unless asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.__main__ import main
from telemetry.reading.stored_calls import open_calls
from telemetry.store.store import Store
from tests.otlp_sink import HttpSink
from tests.proxy.store_runs import StoreRunner
from tests.proxy.traces_runs import Ran
from tests.telemetry.run_rows import BEGIN_NS, lone_call, make_agent_run, marker

if TYPE_CHECKING:
    from pathlib import Path

RUN = make_agent_run()
LONE = lone_call(1)
NOW_NS = BEGIN_NS + 60_000_000_000


def ids_of(kind: str) -> list[str]:
    """The ids of the run's rows of that kind."""
    return [row.span_id for row in RUN.rows if row.columns.kind == kind]


CALLS = ids_of("LLM")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of a run of three calls, and a lone one."""
    path = tmp_path / "traces.db"
    with Store.open(path, delivers=False) as owner:
        owner.add([LONE, *RUN.rows, marker(1, LONE.trace_id, of=LONE.span_id)])
    return path


@pytest.fixture
def run(store: Path, capsys: pytest.CaptureFixture[str]) -> StoreRunner:
    """Runs ``spantap store`` on it."""
    return StoreRunner(store, capsys)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((), [LONE.span_id, *CALLS]),
        (("kind:llm",), CALLS),
        (("kind:tool",), ids_of("TOOL")),
        (("kind:agent",), [RUN.agent_id]),
        (("kind:marker",), [marker(1, LONE.trace_id).span_id]),
        (("-kind:llm",), [LONE.span_id]),
        (("run:812",), CALLS),
        (("run:812", "kind:tool", "status:error"), ids_of("TOOL")[1:2]),
        (("run>812",), []),
        (("tool:grep",), CALLS[:2]),
        (("tool:grep", "kind:tool"), ids_of("TOOL")[1:]),
        (("session:s-1",), CALLS),
    ],
)
def test_a_list_has_other_rows_where_the_filter_names_their_kind(
    words: tuple[str, ...], found: list[str], store: Path
) -> None:
    """And calls alone else."""
    ran = Ran(store, words=words, as_json=True, now_ns=NOW_NS)
    assert (ran.status, ran.span_ids) == (0, found)


def test_a_text_finds_calls_unless_a_kind_is_named(store: Path) -> None:
    """What tools answered is searched for in their own spans where they are asked for."""
    ran = Ran(store, words=("def test_a", "kind:tool"), as_json=True, now_ns=NOW_NS)
    assert ran.span_ids == ids_of("TOOL")[::-1]
    assert Ran(store, words=("def test_a",), as_json=True, now_ns=NOW_NS).span_ids == []


def test_a_list_of_tools_has_their_names(store: Path) -> None:
    """In the column of what was asked; one that failed is marked."""
    lines = Ran(store, words=("kind:tool",), now_ns=NOW_NS).out.splitlines()
    tools = [" ".join(line.split()[6:8]).removesuffix(" -") for line in lines[1:4]]
    assert tools == ["read_file", "✗ grep", "grep"]


def test_stats_are_of_calls(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of other rows where the filter names their kind."""
    assert main(["stats", "--store", str(store)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["all", "4", "0"]
    assert main(["stats", "kind:tool", "--store", str(store)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["all", "3", "1"]


def test_info_tells_how_many_of_each_there_are(run: StoreRunner) -> None:
    """The states are those of all spans, for all of them go to a backend."""
    (record,) = run("info", "--json").records
    assert [record[name] for name in ("spans", "calls", "agents", "tools", "markers", "kept")] == [
        *(9, 4, 1, 3, 1, 9)
    ]
    lines = [line.split(maxsplit=1) for line in run("info").out.splitlines()]
    assert lines[4:9] == [
        ["calls", "4"],
        ["agents", "1"],
        ["tools", "3"],
        ["markers", "1"],
        ["spans", "9: 9 kept"],
    ]


def test_an_export_of_calls_has_calls_and_one_of_spans_has_all(
    run: StoreRunner, tmp_path: Path
) -> None:
    """OTLP is for backends, for which the other spans were made."""
    assert len(run("export", "--format", "jsonl").records) == 4
    assert len(run("export", "--format", "jsonl", "kind:tool").records) == 3
    out = tmp_path / "spans.jsonl"
    ran = run("export", "--format", "otlp", "--out", str(out))
    assert ran.err == f"spantap store export: wrote 4 calls and 5 spans of runs to {out}.\n"
    assert len(out.read_text().splitlines()) == 9


def test_all_spans_are_sent(run: StoreRunner) -> None:
    """In the order in which they were recorded."""
    with HttpSink() as sink:
        ran = run("send", "--to", sink.url, "--dry-run")
        assert ran.out.startswith("4 calls and 5 spans of runs, ")
        ran = run("send", "--to", sink.url)
        assert ran.out == f"sent 4 calls and 5 spans of runs to {sink.url}\n"
        assert sink.accepted[:2] == [LONE.span_id, CALLS[0]]
        assert len(sink.accepted) == 9


def test_with_a_call_goes_what_was_found_out_about_its_run(run: StoreRunner) -> None:
    """The spans of tools and agents say again what calls said, whichever of them is named."""
    wanted = (f"id:{CALLS[0]}", "model:gpt-5.1")
    assert run("delete", *wanted, "--dry-run").out.startswith("1 call and 4 spans of runs, ")
    assert run("delete", *wanted, "--yes").out == "deleted 1 call and 4 spans of runs\n"
    with open_calls(run.store).all_rows() as reader:
        kinds = [row.columns.kind for row in reader.since(0)]
        assert kinds == [None, "LLM", "LLM", "MARKER"]
    assert run("delete", "kind:marker", "--yes").out == "deleted 0 calls and 1 span of runs\n"


def test_with_a_call_goes_its_mark(run: StoreRunner) -> None:
    """It has the session of the call's client; the marks of others stay."""
    assert run("delete", f"id:{CALLS[0]}", "--yes").status == 0
    wanted = f"id:{LONE.span_id}"
    assert run("delete", wanted, "--dry-run").out.startswith("1 call and 1 span of runs, ")
    assert run("delete", wanted, "--yes").out == "deleted 1 call and 1 span of runs\n"
    with open_calls(run.store).all_rows() as reader:
        assert [row.columns.kind for row in reader.since(0)] == ["LLM", "LLM"]
