"""``proxy.reading.run_tree``: which row stands below which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.reading.run_tree import MAX_DEPTH, build_tree, count_too_deep
from telemetry.conversations.run import derive_span_id
from telemetry.reading.stored_calls import open_calls
from telemetry.store.store import Store
from tests.telemetry.conversations.agents import Agents
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.run_rows import Run, make_agent_run, marker
from tests.telemetry.span_rows import span_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from proxy.reading.run_tree import Node
    from telemetry.store.rows import SpanRow

TASK = "00c0ffee00000001"
PROMPT = "Find every place where the port is opened, and say which."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is to be."""
    return tmp_path / "traces.db"


def draw(path: Path, rows: Sequence[SpanRow], run: int = 812) -> list[str]:
    """The tree in words: a row a line, two spaces a step; an agent without a span is `(agent)`."""
    return [f"{'  ' * node.depth}{_name(node)}" for node in tree_of(path, rows, run)]


def tree_of(path: Path, rows: Sequence[SpanRow], run: int = 812) -> list[Node]:
    """The nodes of a run in a store of these rows."""
    with Store.open(path, delivers=False) as store:
        store.add(rows)
    with open_calls(path) as reader:
        found = reader.run_tree(run)
    assert found is not None
    return build_tree(*found)


def _name(node: Node) -> str:
    if node.row is None:
        return "(agent)"
    kind = node.row.columns.kind
    return {"TOOL": node.row.name, "LLM": "call", "AGENT": f"agent {node.row.columns.run}"}[
        kind or ""
    ]


def with_sub_agent(**members: Any) -> tuple[Run, Run]:
    """A run whose tool ``task`` is a sub-agent's run."""
    run = Run(812)
    run.call(0, 1_000, "task")
    sub = Run(815, trace_id=run.trace_id, begin_ms=1_100)
    sub.call(0, 300, "grep")
    sub.tool("grep", 300, 200)
    sub.call(500, 300)
    sub.agent(800, parent_span_id=TASK, **members)
    run.tool("task", 1_000, 1_000, span_id=TASK)
    run.call(2_000, 500)
    run.agent(2_500)
    return run, sub


SUB_TREE = ["  task", "    agent 815", "      call", "      grep", "      call"]


def test_tools_stand_beside_the_calls_in_the_order_of_time(path: Path) -> None:
    """All of them below the agent."""
    assert draw(path, make_agent_run().rows) == [
        "agent 812",
        *("  call", "  read_file", "  grep", "  call", "  grep", "  call"),
    ]


def test_a_sub_agent_stands_below_its_tool(path: Path) -> None:
    """In whichever order the rows were recorded; alone it is a tree of its own."""
    run, sub = with_sub_agent()
    rows = [run.rows[0], *sub.rows, *run.rows[1:]]
    wanted = ["agent 812", "  call", *SUB_TREE, "  call"]
    assert draw(path, rows) == wanted
    assert draw(path, [], 815) == ["agent 815", "  call", "  grep", "  call"]
    other = path.with_name("other.db")
    assert draw(other, [*run.rows, *sub.rows]) == wanted


def test_a_sub_agent_of_one_call_is_that_call(path: Path) -> None:
    """It has no run."""
    run, _ = with_sub_agent()
    lone = Run(815, trace_id=run.trace_id, begin_ms=1_100)
    lone.call(0, 300, run=None, parent_span_id=TASK)
    assert draw(path, [*run.rows, *lone.rows])[2:4] == ["  task", "    call"]


def test_a_sub_agent_of_one_call_stands_below_its_tool_as_it_is_recorded(path: Path) -> None:
    """It is in no run: the sums are those of the run's own calls, as the agent's span says."""
    asked, task = user("Where?"), calls("call_a", name="task")
    task["tool_calls"][0]["function"]["arguments"] = f'{{"prompt": "{PROMPT}"}}'
    with Agents(path) as agents:
        first = agents.call(asked, said=task)
        child = agents.call(user(PROMPT), said=answer("In main"))
        last = agents.call(asked, task, result("call_a", "In main"), said=answer("In main"))
        [agent] = agents.see_kind("AGENT")
        with open_calls(path) as reader:
            [sums] = reader.runs(2)
            found = reader.run_tree(sums.run)
        assert found is not None
        nodes = [(node.depth, node.row and node.row.span_id) for node in build_tree(*found)]
    assert sums.calls == agent.metadata["calls"] == 2
    assert nodes == [
        (0, agent.span.span_id),
        (1, first),
        (1, derive_span_id(first, "tool 0")),
        (2, child),
        (1, last),
    ]


def test_before_its_tool_is_there_a_sub_agent_stands_below_the_outermost(
    path: Path,
) -> None:
    """Its own span may be there already, or not yet."""
    run, sub = with_sub_agent()
    deeper = Run(817, trace_id=run.trace_id, begin_ms=1_450)
    deeper.call(0, 10)
    assert draw(path, [run.rows[0], *sub.rows[:1], *deeper.rows]) == [
        *("(agent)", "  call", "  (agent)", "    call", "  (agent)", "    call")
    ]
    other = path.with_name("other.db")
    assert draw(other, [run.rows[0], *sub.rows]) == [
        *("(agent)", "  call", "  agent 815", "    call", "    grep", "    call")
    ]
    assert draw(other, [], 815)[0] == "agent 815", "and not below itself"


def test_other_rows_of_the_trace_are_left_out(path: Path) -> None:
    """The marker of the conversation, and who is above a sub-agent."""
    run, sub = with_sub_agent()
    rows = [*run.rows, *sub.rows, marker(1, run.trace_id)]
    assert len(draw(path, rows)) == len(run.rows) + len(sub.rows)


def test_a_run_whose_agents_row_alone_is_left_is_that_row(path: Path) -> None:
    """Its calls were pruned."""
    assert draw(path, make_agent_run().rows[-1:]) == ["agent 812"]


def test_an_open_agent_takes_the_time_of_what_is_below_it(path: Path) -> None:
    """There is no other."""
    run = make_agent_run(ended_by=None)
    root = tree_of(path, run.rows)[0]
    assert (root.start_ns, root.end_ns) == (run.rows[0].start_ns, run.rows[-1].end_ns)


IDS = st.sampled_from([None, *(span_id(number) for number in range(1, 8))])
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "LLM", "TOOL", "AGENT", "MARKER"]),
        st.sampled_from([None, 1, 2, 3]),
        IDS,
    ),
    min_size=1,
    max_size=7,
)


def nest(levels: int) -> list[SpanRow]:
    """A run whose tools start a run each, one below the other, so many times."""
    outer = Run(1)
    rows = [outer.call(0, 1)]
    for number in range(2, levels + 2):
        tool = outer.tool("task", number, 1)
        outer = Run(number, trace_id=outer.trace_id, begin_ms=number)
        rows += [tool, outer.call(0, 1), outer.agent(1, parent_span_id=tool.span_id)]
    return rows


def test_rows_that_are_too_deep_are_counted(path: Path) -> None:
    """Each of the tools, sub-agents and calls for which the tree has no level."""
    rows = nest(60)
    nodes = tree_of(path, rows, 1)
    assert max(node.depth for node in nodes) == MAX_DEPTH
    shown = [node for node in nodes if node.row is not None]
    assert count_too_deep(nodes) == len(rows) - len(shown) == 31


@settings(max_examples=60)
@given(ROWS)
def test_whatever_rows_say_none_stands_in_the_tree_twice(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[str | None, int | None, str | None]]
) -> None:
    """Circles included."""
    made = Run(1)
    for _ in told:
        made.call(0, 1)
    rows = [
        replace(
            row,
            span_id=span_id(number),
            columns=replace(row.columns, kind=kind, run=run, parent_span_id=parent),
            prompt_tokens=None,
        )
        for number, (row, (kind, run, parent)) in enumerate(
            zip(made.rows, told, strict=True), start=1
        )
    ]
    path = tmp_path_factory.mktemp("tree") / "traces.db"
    with Store.open(path, delivers=False) as store:
        store.add(rows)
    with open_calls(path) as reader:
        for run in (1, 2, 3):
            if (found := reader.run_tree(run)) is not None:
                nodes = build_tree(*found)
                ids = [node.row.span_id for node in nodes if node.row is not None]
                assert len(ids) == len({*ids})
                assert all(node.depth == len(node.is_last) <= MAX_DEPTH for node in nodes)


def attempts(run: Run, start: int, count: int, **members: Any) -> list[SpanRow]:
    """A request that is sent so many times; all attempts but the last one fail."""
    rows = []
    for at in range(count):
        has_failed = at < count - 1
        more = {"status": "ERROR", "error_type": "429"} if has_failed else {}
        again = {"link_rule": "retry"} if at else {}
        rows.append(run.call(start + 10 * at, 5, **{"new_messages": 3} | more | again | members))
    return rows


def test_a_request_that_was_sent_again_is_one_step(path: Path) -> None:
    """The last attempt, with the failed ones below it; each is a row of the tree."""
    run = Run(812)
    run.call(0, 100, "read_file")
    run.tool("read_file", 100, 10)
    attempts(run, 110, 3)
    attempts(run, 210, 2, new_messages=5)
    run.agent(300)
    assert draw(path, run.rows) == [
        *("agent 812", "  call", "  read_file"),
        *("  call", "    call", "    call", "  call", "    call"),
    ]
    nodes = tree_of(path, [])
    assert [node.tries for node in nodes] == [1, 1, 1, 3, 1, 1, 2, 1]
    failed = [node.row and node.row.status == "ERROR" for node in nodes]
    assert failed == [False, False, False, False, True, True, False, True]


def test_attempts_that_all_failed_are_one_step_too(path: Path) -> None:
    """Also those of a sub-agent that has no run."""
    run = Run(812)
    run.call(0, 1_000, "task")
    lone = Run(815, trace_id=run.trace_id, begin_ms=1_100, run=None, parent_span_id=TASK)
    attempts(lone, 0, 2)
    attempts(lone, 100, 2, new_messages=7, status="ERROR")
    run.tool("task", 1_000, 1_000, span_id=TASK)
    nodes = tree_of(path, [*run.rows, *lone.rows])
    drawn = [(node.depth, node.tries) for node in nodes if node.row and node.depth > 1]
    assert drawn == [(2, 2), (3, 1), (2, 2), (3, 1)]


def test_a_retry_of_which_nobody_knows_what_it_repeats_is_a_step(path: Path) -> None:
    """Two calls may be meant, or none: another request, one that ended later, one that did well."""
    run = Run(812)
    for start in (0, 1):
        run.call(start, 5, status="ERROR", new_messages=3)
    run.call(10, 5, link_rule="retry", new_messages=3)
    run.call(20, 5, status="ERROR", new_messages=5, preview="one")
    run.call(30, 5, link_rule="retry", new_messages=5, preview="two")
    run.call(40, 50, status="ERROR", new_messages=7)
    run.call(60, 5, link_rule="retry", new_messages=7)
    run.call(100, 5, new_messages=9)
    run.call(110, 5, link_rule="retry", new_messages=9)
    nodes = tree_of(path, run.rows)
    assert {node.tries for node in nodes} == {1}
    assert {node.depth for node in nodes[1:]} == {1}
