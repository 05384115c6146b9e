"""The ids that coding agents send: which session, agent and parent a call is of, found by data.

Some programs name the session, the agent and its parent in each call, by heads or by members of the
body. What they say places a call among runs before anything else is compared
(``docs/contract/conversations.md#ids``). Each row of :data:`PROGRAMS` is what one program was seen
to send; a program without a row is found by what is said alone.

Only these heads are read, and no other head is copied for them; a head that the settings ignore is
not copied at all (:mod:`telemetry.observing.client_context`).
"""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from codec.members import object_of
from codec.text.jsontext import decode_json_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from codec.asked import Asked
    from telemetry.frames.frame import Headers

MAX_ID_CHARS: Final = 256
"""The longest id that counts: those of agents have 64 characters at most."""

MAX_KEPT_SHAPES: Final = 64
"""Heads whose names are remembered, because a program sends the same ones with each call."""

OTHER: Final = "other"
"""The purpose of a helper call of which the program says no more."""

_TURN: Final = "x-codex-turn-metadata"
"""The head in which Codex says what a call is of, as JSON; some bodies have it in
``client_metadata``."""

_QWEN: Final = "body:metadata.promptId"

Sources = tuple[str, ...]
"""Where an id may stand, the first one first: a head's name, ``body:`` and the path of a member, or
``turn:`` and a member of :data:`_TURN`."""


class Program(NamedTuple):
    """A row of the table.

    Attributes:
        name: the program.
        marks: the heads or members by one of which its calls are known.
        session: the session, which sub-agents share.
        agent: the agent that calls; the main one of some programs has no id.
        parent: the agent that started it; where it is absent, see `has_bare_parent`.
        has_bare_parent: an agent with an id and without a parent was started by the main one.
        name_of_agent: another name of the agent, which the result of its tool may have.
        prompt: the id that all calls share which came of one message of the user's.
        before: the id of the answer that the call continues; ``None`` if the program names none
            with any of its calls.
        purposes: what helper calls are for, by head or member and the beginning of its value.
        launchers: the tools that start sub-agents.
        child: the pattern of the sub-agent's id, or other name, in the result of such a tool.
        background: words of a result that comes before its sub-agent is done.
        notice: how a message begins by which the program tells its agent that a sub-agent is done.
        done: the pattern of the sub-agent's id in such a message.
        traces_itself: it sends a ``traceparent`` that is new in each call.
    """

    name: str
    marks: Sources
    session: Sources = ()
    agent: Sources = ()
    parent: Sources = ()
    has_bare_parent: bool = False
    name_of_agent: Sources = ()
    prompt: Sources = ()
    before: Sources = ()
    purposes: Mapping[str, Mapping[str, str]] = {}
    launchers: frozenset[str] = frozenset()
    child: str = ""
    background: str = ""
    notice: str = ""
    done: str = ""
    traces_itself: bool = False


PROGRAMS: Final = (
    Program(
        "claude-code",
        marks=("x-claude-code-session-id",),
        session=("x-claude-code-session-id",),
        agent=("x-claude-code-agent-id",),
        parent=("x-claude-code-parent-agent-id",),
        has_bare_parent=True,
        prompt=("x-claude-code-prompt-id",),
        before=("body:diagnostics.previous_message_id",),
        purposes={
            "x-claude-code-request-class": {
                "compaction": "compaction",
                "auxiliary": OTHER,
                "side_reply": OTHER,
            },
            "x-claude-1p-request-class": {
                "followup-generation": "suggestion",
                "summary-extraction": OTHER,
            },
        },
        launchers=frozenset({"Agent", "Task"}),
        child=r"agentId: ([\w-]+)",
        background="Async agent launched",
        notice="<task-notification>",
        done=r"<task-id>([\w-]+)</task-id>",
    ),
    Program(
        "codex",
        marks=("thread-id", _TURN, "x-openai-subagent"),
        session=("session-id", "turn:session_id"),
        agent=("thread-id", "turn:thread_id"),
        parent=("x-codex-parent-thread-id", "turn:parent_thread_id"),
        name_of_agent=("turn:agent_name",),
        prompt=("turn:turn_id",),
        purposes={
            "x-openai-subagent": {"compact": "compaction", "memory_consolidation": "memory"},
            "turn:request_kind": {"prewarm": "prewarm", "compaction": "compaction"},
        },
        launchers=frozenset({"spawn_agent"}),
        child=r'"(?:task_name|agent_id)":\s*"([^"]+)"',
        notice="<subagent_notification>",
    ),
    Program(
        "opencode",
        marks=("x-parent-session-id", "x-session-affinity", "x-opencode-session"),
        agent=("x-session-id", "x-session-affinity", "x-opencode-session"),
        parent=("x-parent-session-id",),
        launchers=frozenset({"task"}),
        child=r'<task id="(ses_\w+)"',
    ),
    Program(
        "copilot",
        marks=("x-client-session-id",),
        session=("x-client-session-id",),
        agent=("x-agent-task-id",),
        parent=("x-parent-agent-id",),
        prompt=("x-interaction-id",),
        launchers=frozenset({"task"}),
        child=r"agent_id: ([\w-]+)",
        background="agent_id: ",
        notice="<system_notification>",
    ),
    Program(
        "grok",
        marks=("x-grok-session-id", "x-grok-conv-group-id"),
        session=("x-grok-session-id", "x-grok-conv-group-id"),
        purposes={"x-grok-req-id": {"xai-turn-summary-": "summary"}},
        traces_itself=True,
    ),
    Program(
        "qwen-code",
        marks=(_QWEN,),
        session=("body:metadata.sessionId",),
        launchers=frozenset({"agent"}),
        child=r"task_id: ([\w-]+)",
        background="task_id: ",
        notice="<task-notification>",
        done=r"<task-id>([\w-]+)</task-id>",
    ),
    Program(
        "gemini-cli",
        marks=("body:user_prompt_id",),
        session=("body:session_id",),
        prompt=("body:user_prompt_id",),
    ),
)
"""What each program sends, as of the versions in ``tests/agents``."""


class AgentIds(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a call says of its agent; empty for what it does not say.

    Attributes:
        program: the name of the program.
        session: the session.
        agent: the agent that calls.
        parent: the agent that started it, empty for a main agent without an id; ``None`` if this is
            the main agent.
        name: another name of the agent.
        prompt: the id that all calls share which came of one message of the user's.
        before: the id of the answer that the call continues.
        purpose: what a helper call is for; ``None`` for every other call.
        traces_itself: its ``traceparent`` is new in each call.
    """

    program: str
    session: str = ""
    agent: str = ""
    parent: str | None = None
    name: str = ""
    prompt: str = ""
    before: str | None = None
    purpose: str | None = None
    traces_itself: bool = False

    @property
    def is_child(self) -> bool:
        """Whether another agent started this one."""
        return self.parent is not None


def read_agent_ids(headers: Headers, request: Asked | None) -> AgentIds | None:
    """Read the ids of a call; ``None`` for a program that is not in the table."""
    program, places = _find_program(tuple(map(_NAME, headers)))
    if program is None:
        if request is None or (program := _find_by_body(request.body)) is None:
            return None
    elif request is None and not places:
        return None
    said = _Said(dict(map(headers.__getitem__, places)), {} if request is None else request.body)
    return _read(program, said)


class _Said:
    """What a call says, by the places of :data:`Sources`."""

    __slots__ = ("_body", "_heads", "_turn")

    def __init__(self, heads: Mapping[str, str], body: Mapping[str, Any]) -> None:
        self._heads = heads
        self._body = body
        self._turn: Mapping[str, Any] | None = None

    def find(self, sources: Sources) -> str:
        """Find the first text that is not empty; the empty text for none."""
        for source in sources:
            text = self._look(source)
            if isinstance(text, str) and text:
                return text[:MAX_ID_CHARS]
        return ""

    def has_any(self, sources: Sources) -> bool:
        """Tell whether the member of the body is there, or the object in which it may be."""
        return any(source.partition(":")[2].partition(".")[0] in self._body for source in sources)

    def _look(self, source: str) -> Any:
        kind, is_inside, path = source.partition(":")
        if not is_inside:
            return self._heads.get(source)
        value: Any = self._body if kind == "body" else self._read_turn()
        for name in path.split("."):
            value = object_of(value).get(name)
        return value

    def _read_turn(self) -> Mapping[str, Any]:
        if self._turn is None:
            text = self._heads.get(_TURN)
            if text is None:
                text = object_of(self._body.get("client_metadata")).get(_TURN)
            self._turn = _decode(text) if isinstance(text, str) else {}
        return self._turn


def _read(program: Program, said: _Said) -> AgentIds:
    session, agent = said.find(program.session), said.find(program.agent)
    parent: str | None = said.find(program.parent) or None
    if parent is None and program.has_bare_parent and agent:
        parent = ""
    purpose = _find_purpose(program, said)
    if program.name == "qwen-code":
        agent, parent, purpose = _read_prompt_id(said.find((_QWEN,)), session)
    return AgentIds(
        program=program.name,
        session=session,
        agent=agent,
        parent=parent,
        name=said.find(program.name_of_agent),
        prompt=said.find(program.prompt),
        before=said.find(program.before) if said.has_any(program.before) else None,
        purpose=purpose,
        traces_itself=program.traces_itself,
    )


def _find_purpose(program: Program, said: _Said) -> str | None:
    """Find what a helper call is for; of several that are said, the one that says most."""
    found = None
    for source, purposes in program.purposes.items():
        if value := said.find((source,)):
            for beginning, purpose in purposes.items():
                if value.startswith(beginning) and found in {None, OTHER}:
                    found = purpose
    return found


def _read_prompt_id(text: str, session: str) -> tuple[str, str | None, str | None]:
    """Read agent, parent and purpose from an id of qwen-code's: ``SESSION#explore-CALL#2``.

    The main agent has ``SESSION########2``. The agent of a sub-agent ends with the id of the tool
    call that started it, and that of a helper says what it does.
    """
    agent = text.removeprefix(session).strip("#").rpartition("#")[0]
    if not agent:
        return "", None, None
    if agent.startswith("managed-auto-memory-"):
        return "", None, "memory"
    return agent, "", None


def _decode(text: str) -> Mapping[str, Any]:
    try:
        return decode_json_object(text.encode("utf-8", "replace"))
    except ValueError:
        return {}


def _find_by_body(body: Mapping[str, Any]) -> Program | None:
    """Find the program by what it puts into the body."""
    if "user_prompt_id" in body:
        return BY_NAME["gemini-cli"]
    metadata = body.get("metadata")
    if type(metadata) is dict and "promptId" in metadata:
        return BY_NAME["qwen-code"]
    return None


def _list_heads() -> Iterable[str]:
    for program in PROGRAMS:
        places = (program.marks, program.session, program.agent, program.parent, program.prompt)
        for source in (*(source for each in places for source in each), *program.purposes):
            if ":" not in source:
                yield source


AGENT_HEADS: Final = frozenset(_list_heads())
"""All heads with ids, in lower case."""

BY_NAME: Final = {program.name: program for program in PROGRAMS}
"""The rows by the names of the programs."""

_NAME: Final[Callable[[tuple[str, str]], str]] = itemgetter(0)


@lru_cache(MAX_KEPT_SHAPES)
def _find_program(names: Sequence[str]) -> tuple[Program | None, tuple[int, ...]]:
    """Find the program that sends heads with these names, and the places of those with ids."""
    given = {*names}
    program = next((one for one in PROGRAMS if not given.isdisjoint(one.marks)), None)
    if program is None:
        return None, ()
    return program, tuple([at for at, name in enumerate(names) if name in AGENT_HEADS])
