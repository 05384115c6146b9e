"""Launches: which tool call started a sub-agent that says by an id who it is.

A program of :mod:`telemetry.observing.agent_ids` names in each call its session, the agent and the
agent's parent, so that the run of the parent is known at once. Its tool call is known too, if

1. the result of the tool named the sub-agent, as one in the background does, or
2. the id of the sub-agent ends with that of the tool call, or
3. one tool call alone waits with the text with which the sub-agent begins.

Otherwise the run of the sub-agent is *held*: it is below the run of its parent, and is put below
the tool call as soon as a result names it. Its span is not written before that, though it may be
over by then. If no result names it until the parent's run is over, it stays where it is.

Ids count within one caller, launch and session. They are known by keyed digests, in memory alone.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from codec.members import object_of, text_of
from codec.parts import Text
from telemetry.conversations.keys import SCOPE_BYTES
from telemetry.observing.agent_ids import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codec.parts import Message, ToolResult
    from telemetry.conversations.run import Run, WaitingTool
    from telemetry.observing.agent_ids import AgentIds, Program

MAX_CHILDREN: Final = 1_024
"""How many sub-agents are remembered, the newest ones, in some 1 MB (R5)."""

MAX_UNFINISHED: Final = 64
"""How many sub-agents in the background keep one run open."""

MAX_SEARCHED_CHARS: Final = 4_096
"""How much of a result is searched for an id, at its beginning and at its end."""

MAX_NOTICES: Final = 8
"""How many messages at the end of a request are searched for notices."""

_KEY_BYTES: Final = 16


class AgentKeys(NamedTuple):
    """The ids of a call, and what makes keys of agents from them.

    Attributes:
        ids: what the call says.
        base: a digest of the caller, the launch and the session.
    """

    ids: AgentIds
    base: bytes

    @property
    def program(self) -> Program:
        """The row of the program."""
        return BY_NAME[self.ids.program]

    @property
    def own(self) -> bytes:
        """The key of the agent that calls."""
        return self.make(self.ids.agent)

    def make(self, agent: str) -> bytes:
        """Make the key of an agent of the same caller, launch and session."""
        return blake2b(_encode(agent), digest_size=_KEY_BYTES, key=self.base).digest()


def make_agent_keys(ids: AgentIds, caller: bytes, launch: str, secret: bytes) -> AgentKeys:
    """Make the keys of the agents that a call names."""
    told = caller + _encode(f"{ids.program}\0{launch}\0{ids.session}")
    return AgentKeys(ids, blake2b(told, digest_size=_KEY_BYTES, key=secret).digest())


def narrow_scope(scope: bytes, ids: AgentIds) -> bytes:
    """Return the scope of a sub-agent within a scope: its content is compared with its own alone.

    A sub-agent may begin with the whole history of its parent.
    """
    told = scope + _encode(f"{ids.program}\0{ids.session}\0{ids.agent}")
    return blake2b(told, digest_size=SCOPE_BYTES).digest()


def is_notice(ids: AgentIds, text: str) -> bool:
    """Tell whether a user's text is what the program tells its agent of a sub-agent."""
    notice = BY_NAME[ids.program].notice
    return bool(notice) and text.startswith(notice)


class _Child(NamedTuple):
    """A sub-agent.

    Attributes:
        tool: the run and the span id of the tool call whose result named it, before it began.
    """

    tool: tuple[Run, str] | None


class Launches:
    """The agents of open runs, and the tool calls that started them."""

    def __init__(self) -> None:
        self._runs: dict[bytes, int] = {}  # the newest run of each agent
        self._agents: dict[int, set[bytes]] = {}  # the same by run
        self._prompts: dict[int, bytes] = {}  # the user's message that a run answers, by run
        self._children: OrderedDict[bytes, _Child] = OrderedDict()
        self._held: dict[int, tuple[bytes, ...]] = {}  # runs, each with the keys of its agent
        self._unfinished: dict[int, set[bytes]] = {}  # sub-agents in the background, by run

    def find_run(self, agent: bytes) -> int | None:
        """Find the newest run of an agent that is open."""
        return self._runs.get(agent)

    def is_held(self, number: int) -> bool:
        """Tell whether the tool call above a run is not known yet."""
        return number in self._held

    def list_held(self, parent: int, open_runs: Mapping[int, Run]) -> list[Run]:
        """List the runs that are held below a run."""
        held = [run for number in self._held if (run := open_runs.get(number)) is not None]
        return [run for run in held if run.parent_run == parent]

    def is_waiting(self, number: int) -> bool:
        """Tell whether a sub-agent of a run is still at work in the background."""
        return bool(self._unfinished.get(number))

    def is_same_prompt(self, keys: AgentKeys, number: int | None) -> bool:
        """Tell whether a call came of the same message of the user's as a run's last call."""
        prompt = keys.ids.prompt
        return (
            bool(prompt) and number is not None and self._prompts.get(number) == keys.make(prompt)
        )

    def note(self, run: Run, keys: AgentKeys, *, is_held: bool) -> None:
        """Note the agent of a run that is open."""
        self._runs[keys.own] = run.number
        self._agents.setdefault(run.number, set()).add(keys.own)
        if keys.ids.prompt:
            self._prompts[run.number] = keys.make(keys.ids.prompt)
        if is_held:
            names = {keys.ids.agent, keys.ids.name} - {""}
            self._held[run.number] = tuple(map(keys.make, names))

    def find_tool(self, keys: AgentKeys) -> tuple[Run, str] | None:
        """Find the tool call whose result named a sub-agent that begins now."""
        found = None
        for name in (keys.ids.agent, keys.ids.name):
            if name:
                child = self._children.get(keys.make(name))
                found = found or (None if child is None else child.tool)
                self._note_child(keys.make(name), None)
        return found

    def _note_child(self, key: bytes, tool: tuple[Run, str] | None) -> None:
        self._children[key] = _Child(tool)
        self._children.move_to_end(key)
        while len(self._children) > MAX_CHILDREN:
            self._children.popitem(last=False)

    def note_results(
        self,
        keys: AgentKeys,
        run: Run,
        results: Sequence[tuple[WaitingTool, ToolResult]],
        open_runs: Mapping[int, Run],
    ) -> list[Run]:
        """Note which sub-agents the results of a run's tools name.

        Returns:
            The runs that were held, and that are now below their tool calls.
        """
        program = keys.program
        attached: list[Run] = []
        known = None
        for tool, result in results:
            text = _read_result(result) if _is_launcher(program, tool) else ""
            named = [keys.make(name) for name in _compile(program.child).findall(text)]
            if not text or not named:
                continue
            if (child := self._find_held(named, run, open_runs)) is not None:
                child.parent_span_id = tool.span_id
                del self._held[child.number]
                attached.append(child)
            elif named[-1] not in self._children:
                known = known or replace(run, tools=[], asked=None, answered=None, usage=b"")
                self._note_child(named[-1], (known, tool.span_id))
            if program.background and program.background in text:
                unfinished = self._unfinished.setdefault(run.number, set())
                if len(unfinished) < MAX_UNFINISHED:
                    unfinished.add(named[-1])
        return attached

    def _find_held(
        self, named: Sequence[bytes], above: Run, open_runs: Mapping[int, Run]
    ) -> Run | None:
        """Find the run that is held below another one and whose agent is named last."""
        held = self.list_held(above.number, open_runs)
        for key in reversed(named):
            for run in held:
                if key in self._held[run.number]:
                    return run
        return None

    def note_notices(self, keys: AgentKeys, number: int, messages: Sequence[Message]) -> None:
        """Note which sub-agents in the background are done, as the end of a request says."""
        unfinished, program = self._unfinished.get(number), keys.program
        if not unfinished:
            return
        for text in _list_last_texts(messages):
            if program.notice and program.notice in text:
                done = _compile(program.done).findall(text) if program.done else ()
                unfinished -= {keys.make(one) for one in done} if done else {*unfinished}

    def forget(self, number: int) -> None:
        """Forget a run that is over."""
        for agent in self._agents.pop(number, ()):
            if self._runs.get(agent) == number:
                del self._runs[agent]
        self._prompts.pop(number, None)
        self._held.pop(number, None)
        self._unfinished.pop(number, None)


def find_by_call_id(run: Run, agent: str) -> WaitingTool | None:
    """Find the waiting tool call with whose id the id of a sub-agent ends."""
    for tool in run.tools:
        if tool.call_id and agent.endswith(f"-{tool.call_id}"):
            return tool
    return None


def _is_launcher(program: Program, tool: WaitingTool) -> bool:
    """Tell whether a tool starts sub-agents; one whose name is hidden may be one."""
    if not program.child:
        return False
    return tool.name is None or tool.name.rpartition(".")[2] in program.launchers


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _read_result(result: ToolResult) -> str:
    """Read the beginning and the end of a result's text."""
    value = result.value
    if isinstance(value, list):
        value = "\n".join(
            [text for part in value if (text := text_of(object_of(part).get("text")))]
        )
    if not isinstance(value, str):
        return ""
    if len(value) <= 2 * MAX_SEARCHED_CHARS:
        return value
    return f"{value[:MAX_SEARCHED_CHARS]}\n{value[-MAX_SEARCHED_CHARS:]}"


def _list_last_texts(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the texts behind the last answer, the last message first."""
    for message in messages[: -MAX_NOTICES - 1 : -1]:
        if message.role in {"assistant", "model"}:
            return
        for part in message.parts:
            if isinstance(part, str):
                yield part
            elif isinstance(part, Text):
                yield part.text


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")
