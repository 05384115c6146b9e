"""Sessions of coding agents: a tool fails, two run at once, and another process resumes them.

Then they compact their history, and are asked once more. The spans tell what their logs tell.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from proxy.demo.script import MODEL
from tests.agents.histories import read_claude_session, read_codex_session
from tests.agents.quiet import CODEX_SETTINGS, keep_quiet
from tests.agents.tasks import BEFORE, NOTES
from tests.agents.test_tasks import INTERCEPT, WAYS, check_run, lead, skip_if_unordered
from tests.docs.provider import running_provider
from tests.docs.reader import read_calls, run
from tests.e2e.processes import clean_environment
from tests.lanes import find_agents
from tests.run_trees import read_seen_spans, read_trees

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy.reading.call import RecordedCall
    from tests.agents.histories import Session

pytestmark = pytest.mark.timeout(180)

MORE = "more.txt"
ABSENT = "absent.txt"

COMPACT = '/compact\nsay "<summary>The boat is called Lotte.</summary>"'
"""Without these tags Claude Code asks for the summary again."""


@dataclass(frozen=True, kw_only=True)
class Agent:
    """An agent, and how it is led through a session.

    Attributes:
        name: its command.
        commands: what the shell runs, one after the other; ``$RUN`` is what sends it through
            spantap, ``$FIRST``, ``$SECOND`` and ``$THIRD`` are the questions.
        look: makes the arguments of a tool that reads a file, from its path.
        tool: that tool.
        variables: of its environment.
        files: of its home, by path.
        more: the text of :data:`MORE`.
        read: reads what it keeps below its home.
    """

    name: str
    commands: tuple[str, ...]
    tool: str
    look: Callable[[str], dict[str, str]]
    variables: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)
    more: str = "It is a small boat.\n"
    read: Callable[[Path], Session]

    def ask(self, folder: Path, words: str, *names: str, joined: bool = False) -> str:
        """A question that has the agent read files, the last two at once if they are joined."""
        lines = [f"call {self.tool} {json.dumps(self.look(f'{folder}/{name}'))}" for name in names]
        if joined:
            lines[-2] += " &"
        return "\n".join([words, *lines, "And then tell me."])


_CLAUDE = "claude --model claude-sonnet-4-5 -p"
_CODEX = "codex exec -s danger-full-access"
_CODEX_OPTIONS = f"--json --skip-git-repo-check -m {MODEL}"
_CODEX_LIMIT = "model_auto_compact_token_limit=6200"

AGENTS = (
    Agent(
        name="claude",
        commands=(
            f'$RUN {_CLAUDE} "$FIRST"',
            "$RUN sh -ec '"
            + "; ".join(f'{_CLAUDE} "${one}" --continue' for one in ("SECOND", "COMPACT", "THIRD"))
            + "'",
        ),
        tool="Read",
        look=lambda path: {"file_path": path},
        variables={"ANTHROPIC_API_KEY": "k", "COMPACT": COMPACT},
        read=read_claude_session,
    ),
    Agent(
        name="codex",
        commands=(
            f'$RUN {_CODEX} {_CODEX_OPTIONS} "$FIRST"',
            f'$RUN {_CODEX} resume --last {_CODEX_OPTIONS} "$SECOND"',
            f'$RUN {_CODEX} resume --last {_CODEX_OPTIONS} -c {_CODEX_LIMIT} "$THIRD"',
        ),
        tool="exec_command",
        look=lambda path: {"cmd": f"cat {path}"},
        variables={"CODEX_API_KEY": "k"},
        files={".codex/config.toml": CODEX_SETTINGS},
        more="It is a small boat.\n" * 400,  # and then it compacts its history
        read=read_codex_session,
    ),
)


@WAYS
@pytest.mark.parametrize(
    ("agent", "websockets"),
    [(AGENTS[0], "relay"), (AGENTS[1], "refuse"), (AGENTS[1], "relay")],
    ids=["claude", "codex", "codex by WebSockets"],
)
async def test_the_runs_of_a_session_are_those_of_the_log(
    agent: Agent, websockets: str, way: str, tmp_path: Path
) -> None:
    """Each question has its run, in one session; what failed is ``ERROR``, a compaction no run."""
    home, folder, store = tmp_path / "home", tmp_path / "task", tmp_path / "traces.db"
    files = {folder / NOTES: BEFORE, folder / MORE: agent.more}
    files |= {home / name: text for name, text in agent.files.items()}
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    questions = [
        agent.ask(folder, "Look around.", ABSENT, NOTES, MORE, joined=True),
        agent.ask(folder, "Look once more.", NOTES),
        agent.ask(folder, "Look at last.", NOTES),
    ]
    environment = clean_environment() | keep_quiet(home) | agent.variables
    environment["SPANTAP_WEBSOCKETS"] = websockets
    environment |= dict(zip(("FIRST", "SECOND", "THIRD"), questions, strict=True))
    environment["PATH"] = os.pathsep.join([*map(str, find_agents(agent.name)), environment["PATH"]])
    async with running_provider("openai") as provider:
        with lead(way, provider, tmp_path, agent.name) as variables:
            for command in agent.commands:
                await run(command, folder, environment | variables)
    session = agent.read(home)
    assert [len(turn.tools) for turn in session.turns] == [3, 1, 1]
    assert session.compactions == 1
    answers = sum(len(turn.answers) for turn in session.turns)
    by_socket = agent.name == "codex" and websockets == "relay"
    warmings = len(agent.commands) if by_socket else 0  # each process warms the model up
    count = answers + session.compactions + warmings
    calls = await asyncio.to_thread(read_calls, store, count)
    await asyncio.to_thread(skip_if_unordered, store)
    await asyncio.to_thread(check_runs, session, questions, store, warmings)
    names_answers = agent.name == "claude" and way == INTERCEPT  # not by a base URL
    check_conversation(calls, session, agent.tool, names_answers=names_answers)


def check_runs(session: Session, questions: list[str], store: Path, warmings: int) -> None:
    """Each question has a run, with the calls and tools of the log; the other calls have none."""
    parts = sum(len(turn.answers) + len(turn.tools) + 1 for turn in session.turns)
    trees = read_trees(store, parts + session.compactions + warmings)
    runs = [tree for tree in trees if tree.kind == "AGENT"]
    assert len(trees) - len(runs) == session.compactions + warmings
    for tree, question, turn in zip(runs, questions, session.turns, strict=True):
        assert question in tree.told[0]
        check_run(tree, turn, len(turn.answers))
    failed = [
        (span.kind, span.attributes["output.value"])
        for span in read_seen_spans(store)
        if span.status == "ERROR"
    ]
    assert failed == [("TOOL", result) for result in session.failed]
    assert len(failed) == 1


def check_conversation(
    calls: list[RecordedCall], session: Session, tool: str, *, names_answers: bool
) -> None:
    """All calls have the session of the log, and each question is a turn of the conversation.

    Args:
        calls: oldest first.
        session: by the agent's word.
        tool: its tool.
        names_answers: the agent says which answer it continues, so that turns are counted on
            after a compaction.
    """
    columns = [call.summary.columns for call in calls]
    assert {row.session for row in columns} == {session.id}
    helpers = [(row.purpose, row.run) for row in columns if row.purpose not in {None, "prewarm"}]
    assert helpers == [("compaction", None)] * session.compactions
    turns = [call for call in calls if not call.summary.columns.purpose]
    rows = [call.summary.columns for call in turns]
    numbers = [1, 2, 3 if names_answers else 1]
    told = zip(numbers, session.turns, strict=True)
    assert [row.turn for row in rows] == [at for at, turn in told for _ in turn.answers]
    assert len({row.conversation for row in rows}) == 1
    before = turns[2].span  # the last answer of the first process
    assert turns[3].span.links[0] == (before.trace_id, before.span_id)
    assert (rows[1].step or "").startswith(f"{tool} ✗ → {tool} ")
    assert (rows[2].step or "").startswith(f"{tool} ✓ (2) → ")
