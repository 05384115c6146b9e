"""Helper calls of agents: what each is for, found by data.

Beside the calls that do the user's work, agents ask for a title, a summary of what was said, or
whether the account has quota left. Each row of :data:`SIGNS` is how such a call was seen to begin.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from codec.compared_text import SYSTEM_ROLES
from codec.members import object_of
from codec.parts import Text
from telemetry.observing.client_headers import SUBAGENT_MEMBER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.asked import Asked
    from codec.parts import Message
    from telemetry.observing.exchange import Exchange


class Place(Enum):
    """Where a sign is."""

    SYSTEM = "system"
    """A part of the instructions begins with it."""
    USER = "user"
    """The last text of the user's begins with it."""
    PROBE = "probe"
    """It is all that the user said, and the answer may have one token."""
    TOOL = "tool"
    """The model has to call the tool of this name."""
    SUBAGENT = "subagent"
    """The client says in a head that its agent has this name."""


class Sign(NamedTuple):
    """A row of the table.

    Attributes:
        agent: the program that was seen to send it.
        purpose: one of :data:`telemetry.facts.PURPOSES`.
    """

    agent: str
    purpose: str
    place: Place
    text: str


SIGNS: Final = (
    Sign("claude-code", "title", Place.SYSTEM, "Generate a concise, sentence-case title"),
    Sign("claude-code", "title", Place.SYSTEM, "Summarize this coding conversation in under"),
    Sign("claude-code", "topic", Place.SYSTEM, "Analyze if this message indicates a new convers"),
    Sign("claude-code", "compaction", Place.USER, "CRITICAL: Respond with TEXT ONLY"),
    Sign("claude-code", "suggestion", Place.USER, "[SUGGESTION MODE"),
    Sign("claude-code", "quota", Place.PROBE, "quota"),
    Sign("opencode", "title", Place.SYSTEM, "You are a title generator"),
    Sign("opencode", "summary", Place.SYSTEM, "Summarize what was done in this conversation"),
    Sign(  # Claude Code's, too, where it does not repeat the whole conversation
        "opencode", "compaction", Place.SYSTEM, "You are a helpful AI assistant tasked with summari"
    ),
    Sign("codex", "compaction", Place.SUBAGENT, "compact"),
    Sign("codex", "memory", Place.SUBAGENT, "memory_consolidation"),
    Sign("gemini-cli", "router", Place.SYSTEM, "You are a specialized Task Routing AI"),
    Sign("grok", "title", Place.TOOL, "session_title"),
    Sign("aider", "summary", Place.SYSTEM, "*Briefly* summarize this partial conversation"),
    Sign(
        "aider", "commit", Place.SYSTEM, "You are an expert software engineer that generates conc"
    ),
)
"""How helper calls begin."""

_MAX_PARTS: Final = 8
"""The most parts of a message that are looked at: Claude Code's instructions have three."""

_HEAD_CHARS: Final = 128
"""How much of a text is looked at: a sign, and white space before it."""


def find_purpose(exchange: Exchange, messages: Sequence[Message], *, reads: bool) -> str | None:
    """Find what a helper call is for; ``None`` for every other call.

    Args:
        exchange: the call.
        messages: the messages of its request, as they were read.
        reads: they may be read; what is hidden gives no sign.
    """
    if exchange.context.metadata:
        name = exchange.context.metadata.get(SUBAGENT_MEMBER)
        if isinstance(name, str) and (purpose := _SUBAGENTS.get(name)):
            return purpose
    request = exchange.request
    if request is None or not reads or not messages:
        return None
    if (first := messages[0]).role in SYSTEM_ROLES:
        for head in _list_heads(first):
            if head.startswith(_SYSTEM):
                return _find(Place.SYSTEM, head)
    if (last := messages[-1]).role == "user" and (heads := _list_heads(last)):
        if heads[-1].startswith(_USER):
            return _find(Place.USER, heads[-1])
        if heads[-1] in _PROBES and request.options.get("max_tokens") == 1:
            return _PROBES[heads[-1]]
    return _find_by_tool(request) if "tool_choice" in request.body else None


def _list_heads(message: Message) -> list[str]:
    """List the beginnings of the last texts of a message."""
    content = message.content
    if isinstance(content, str):
        return [content[:_HEAD_CHARS].lstrip()]
    texts = [
        part if isinstance(part, str) else part.text
        for part in (content or ())[-_MAX_PARTS:]
        if isinstance(part, (str, Text))
    ]
    return [text[:_HEAD_CHARS].lstrip() for text in texts]


def _find_by_tool(request: Asked) -> str | None:
    choice = object_of(request.body.get("tool_choice"))
    name = choice.get("name") or object_of(choice.get("function")).get("name")
    return _TOOLS.get(name) if isinstance(name, str) else None


def _find(place: Place, head: str) -> str | None:
    return next(
        (one.purpose for one in SIGNS if one.place is place and head.startswith(one.text)), None
    )


def _by_text(place: Place) -> dict[str, str]:
    return {one.text: one.purpose for one in SIGNS if one.place is place}


_SYSTEM: Final = tuple(_by_text(Place.SYSTEM))
_USER: Final = tuple(_by_text(Place.USER))
_PROBES: Final = _by_text(Place.PROBE)
_TOOLS: Final = _by_text(Place.TOOL)
_SUBAGENTS: Final = _by_text(Place.SUBAGENT)
