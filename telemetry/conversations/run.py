"""A run that is not over yet: from a user's message to the answer that calls no tool.

It is written to the store, so that it continues after a restart. So everything in it may be shown:
its texts are those of spans, hidden, masked and cut there. In memory, ids of tool calls are as they
came, because results are found by them; ids that may not be shown are not written. A run is bounded
(R5) by the limits below.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from telemetry.conversations.memory import measure_text

RUN_IDLE_SECONDS: Final = 600
"""A run is over after ten minutes without a call: a build, or a person's answer, may take some."""

MAX_TOOLS: Final = 128
"""How many tool calls of a run wait for their results: agents make a handful at once."""

MAX_TEXT_CHARS: Final = 65_536
"""The most characters of what the user asked, and of an answer that is not the last one."""

MAX_ARGUMENT_CHARS: Final = 16_384
"""The most characters of the arguments of a call: a file that is written has some thousands."""

MAX_TOOL_NAME_CHARS: Final = 256
"""The most characters of a tool's name: OpenAI allows 64, Anthropic 128. A longer one is cut."""

_SPAN_ID_BYTES: Final = 8

_RUN_BYTES: Final = 2_000
_TOOL_BYTES: Final = 300
"""The memory of a run and of a waiting call, without their texts."""


class EndedBy:
    """Why a run is over."""

    ANSWER: Final = "answer"
    """The last answer called no tool."""
    NEW_MESSAGE: Final = "new_message"
    """The user said something new."""
    IDLE: Final = "idle"
    """No call came for a long time."""
    LIMIT: Final = "limit"
    """Too many runs were open, or they took too much memory."""


ENDINGS: Final = (EndedBy.ANSWER, EndedBy.NEW_MESSAGE, EndedBy.IDLE, EndedBy.LIMIT)


class WaitingTool(msgspec.Struct, kw_only=True, gc=False, array_like=True):
    """A tool call that has no result yet.

    Attributes:
        span_id: the id that its span will have.
        call_id: its id as it came, by which its result is found; ``None`` if it has none.
        name: the name of the tool, cut if it is long; ``None`` if it is hidden.
        arguments: the text of the arguments; ``None`` if there are none, or they are hidden.
        start_ns: when the answer that made the call ended.
        shown_id: what its span may show of `call_id`.
        has_agent: a sub-agent is below it.
        shows_name: `name` is as it came, so that it can be compared.
        shows_arguments: `arguments` are as they came, so that they can be compared. That happens in
            memory alone.
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
    """An open run.

    Attributes:
        number: the number of the run, which is that of its first call.
        agent_id: the id of its AGENT span.
        trace_id: the trace of all its spans.
        parent_span_id: the id of the TOOL span whose sub-agent it is, or of the AGENT span of
            `parent_run` if the tool is not known; ``None`` for most.
        parent_run: the number of the run of the agent that started it.
        conversation: the number of its conversation.
        turn: which message of the user's it answers.
        session: ``session.id`` of its conversation.
        client: the program, as in the columns of calls.
        start_ns: when its first call began.
        end_ns: when its last call ended, or the last one of a sub-agent.
        calls: how many calls it has had.
        tool_calls: how many results of tools it has had.
        failed: the last call failed.
        asked: what the user said.
        answered: what the last answer said.
        tools: the tool calls that wait for their results.
        agent_name: the client's name for the agent.
        launch: the label of its launch; empty for none.
        user: the user's id.
        is_secret: a call of it must not be kept, so nothing of its content is written.
        ended_by: why it is over, if its span waits for the tool call that is above it
            (:mod:`telemetry.conversations.launches`).
        usage: how its calls used their tokens, as
            :class:`telemetry.conversations.run_usage.RunUsage` writes it.
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
    ended_by: str | None = None
    usage: bytes = b""

    @property
    def held_bytes(self) -> int:
        """The memory that it takes, or a little more."""
        texts = [self.asked, self.answered, self.session, self.user, self.agent_name]
        for tool in self.tools:
            texts += (tool.name, tool.call_id, tool.shown_id, tool.arguments)
        held = _RUN_BYTES + _TOOL_BYTES * len(self.tools) + len(self.usage)
        return held + sum([measure_text(text) for text in texts if text is not None])


def derive_span_id(span_id: str, role: str) -> str:
    """Derive the id of a span from that of another one, so that it is always the same (R8, C10).

    >>> derive_span_id("00f067aa0ba902b7", "run") == derive_span_id("00f067aa0ba902b7", "run")
    True
    """
    source = f"{span_id}{role}".encode()
    return blake2b(source, digest_size=_SPAN_ID_BYTES).hexdigest()
