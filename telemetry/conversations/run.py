"""A run that is not over yet: from a user's message to the answer that calls no tool.

Rules:

1. All that is in it may be shown: texts are those of spans, hidden, masked and cut there. It is
   written to the store, so that a restart goes on with it. In memory ids of calls are as they came,
   for results are found by them; those that may not be shown are not written.
2. Ids of its spans follow from those of the calls: made again they are the same (R8, C8, C10).
3. It is bounded (R5): :data:`MAX_TOOLS` calls of tools that wait for their results, names of
   :data:`MAX_TOOL_NAME_CHARS`, and texts of :data:`MAX_TEXT_CHARS` and :data:`MAX_ARGUMENT_CHARS`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from telemetry.conversations.memory import measure_text

RUN_IDLE_SECONDS: Final = 600
"""Ten minutes without a call end a run: a build, or a person who is asked, may take some."""

MAX_TOOLS: Final = 128
"""Calls of tools that wait for their results: agents make a handful at once."""

MAX_TEXT_CHARS: Final = 65_536
"""Characters of what the user asked, and of an answer that is not the last one."""

MAX_ARGUMENT_CHARS: Final = 16_384
"""Characters of the arguments of a call: a file that is written has some thousands."""

MAX_TOOL_NAME_CHARS: Final = 256
"""Characters of a tool's name: OpenAI's have 64 at most, Anthropic's 128. A longer one is cut."""

_SPAN_ID_BYTES: Final = 8

_RUN_BYTES: Final = 2_000
_TOOL_BYTES: Final = 300
"""Memory of a run and of a waiting call without their texts."""


class EndedBy:
    """Why a run is over."""

    ANSWER: Final = "answer"
    """An answer called no tool."""
    NEW_MESSAGE: Final = "new_message"
    """The user said something."""
    IDLE: Final = "idle"
    """Nothing came for long."""
    LIMIT: Final = "limit"
    """Too many runs were open, or their texts were too long together."""


ENDINGS: Final = (EndedBy.ANSWER, EndedBy.NEW_MESSAGE, EndedBy.IDLE, EndedBy.LIMIT)


class WaitingTool(msgspec.Struct, kw_only=True, gc=False, array_like=True):
    """A call of a tool that has no result yet.

    Attributes:
        span_id: of its span, once there is one.
        call_id: as it came, by which its result is found; ``None`` where it has none.
        name: of the tool, cut where it is long; ``None`` where it is hidden.
        arguments: their text, ``None`` where there are none, or they are hidden.
        start_ns: when the answer ended that made it.
        shown_id: what its span may say of `call_id`.
        has_agent: a sub-agent is below it.
        shows_name: `name` is as it came, so that it can be compared.
        shows_arguments: likewise; they are compared in memory alone.
    """

    span_id: str
    call_id: str | None
    name: str | None
    arguments: str | None
    start_ns: int
    shown_id: str | None = None
    has_agent: bool = False
    shows_name: bool = False
    shows_arguments: bool = False


class Run(msgspec.Struct, kw_only=True, gc=False):
    """A run that is open.

    Attributes:
        number: that of its first call.
        agent_id: the id of its AGENT span.
        trace_id: of all its spans.
        parent_span_id: the TOOL span of which it is the sub-agent; ``None`` for most.
        parent_run: the number of the run of that one.
        conversation: the number of its conversation; likewise turn and session.
        client: the program, as in the columns of calls.
        start_ns: when its first call began.
        end_ns: when its last one ended, or that of a sub-agent.
        calls: how many there were.
        tool_calls: how many results of tools.
        failed: the last call failed.
        asked: what the user said.
        answered: what the last answer said.
        tools: those that wait for their results.
        agent_name: the client's name for the agent.
        launch: the label of its launch, empty for none.
        user: the user's id.
        is_secret: a call of it is not to be kept: nothing of its content is written.
        usage: how its calls used their tokens, as it is written
            (:class:`telemetry.conversations.run_usage.RunUsage`).
    """

    number: int
    agent_id: str
    trace_id: str
    parent_span_id: str | None = None
    parent_run: int | None = None
    conversation: int
    turn: int
    session: str | None
    client: str | None = None
    start_ns: int
    end_ns: int
    calls: int = 0
    tool_calls: int = 0
    failed: bool = False
    asked: str | None = None
    answered: str | None = None
    tools: list[WaitingTool] = msgspec.field(default_factory=list)
    agent_name: str | None = None
    launch: str = ""
    user: str | None = None
    is_secret: bool = False
    usage: bytes = b""

    @property
    def held_bytes(self) -> int:
        """What it takes in memory, or a little more."""
        texts = [self.asked, self.answered, self.session, self.user, self.agent_name]
        for tool in self.tools:
            texts += (tool.name, tool.call_id, tool.shown_id, tool.arguments)
        held = _RUN_BYTES + _TOOL_BYTES * len(self.tools) + len(self.usage)
        return held + sum([measure_text(text) for text in texts if text is not None])


def derive_span_id(span_id: str, role: str) -> str:
    """Make the id of a span that follows from another one (rule 2).

    >>> derive_span_id("00f067aa0ba902b7", "run") == derive_span_id("00f067aa0ba902b7", "run")
    True
    """
    told = f"{span_id}{role}".encode()
    return blake2b(told, digest_size=_SPAN_ID_BYTES).hexdigest()
