"""Helper calls of agents: what each is for, found by data.

Beside the calls that do the user's work, agents ask for a title, a summary of what was said, or
whether the account has quota left. Some programs say so in a head
(:mod:`telemetry.observing.agent_ids`); each row of :data:`SIGNS` is how another such call was seen
to begin.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from codec.compared_text import SYSTEM_ROLES
from codec.members import object_of
from codec.parts import Text
from telemetry.observing.agent_ids import OTHER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.asked import Asked
    from codec.parts import Message, Part


class Place(Enum):
    """Where a sign is."""

    SYSTEM = "system"
    """A part of the instructions begins with it."""
    USER = "user"
    """A text of the last message, which is the user's, begins with it."""
    PROBE = "probe"
    """The user said only this text, and the answer may have one token."""
    TOOL = "tool"
    """The model has to call the tool of this name."""


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
    Sign("gemini-cli", "router", Place.SYSTEM, "You are a specialized Task Routing AI"),
    Sign("qwen-code", "memory", Place.SYSTEM, "You are now acting as the managed memory extr"),
    Sign("grok", "title", Place.TOOL, "session_title"),
    Sign("aider", "summary", Place.SYSTEM, "*Briefly* summarize this partial conversation"),
    Sign(
        "aider", "commit", Place.SYSTEM, "You are an expert software engineer that generates conc"
    ),
)
"""How helper calls begin."""

_MAX_PARTS: Final = 8
"""The most parts of a message that are looked at: Claude Code's instructions have three."""


def find_purpose(request: Asked, said: str | None, messages: Sequence[Message]) -> str | None:
    """Find what a helper call is for; ``None`` for every other call.

    Args:
        request: what was asked; nothing of it may be hidden.
        said: what the program itself says of its call (:mod:`telemetry.observing.agent_ids`).
        messages: the messages of the request, as they were read; at least one.
    """
    if said is not None and said != OTHER:
        return said
    return _find_sign(request, messages) or said


def _find_sign(request: Asked, messages: Sequence[Message]) -> str | None:
    """Find the sign with which a request begins."""
    first, last = messages[0], messages[-1]
    if first.role in SYSTEM_ROLES and (found := _find_beginning(first.content, _SYSTEM)):
        return _find(Place.SYSTEM, found)
    if last.role == "user" and (found := _find_beginning(last.content, _USER)):
        if found in _PROBES:
            return _PROBES[found] if request.options.get("max_tokens") == 1 else None
        return _find(Place.USER, found)
    return _find_by_tool(request) if "tool_choice" in request.body else None


def _find_beginning(content: str | tuple[Part, ...] | None, signs: tuple[str, ...]) -> str | None:
    """Find a text of a message that begins with one of the signs."""
    if type(content) is str:
        return content if content.startswith(signs) else None
    for part in content[-_MAX_PARTS:] if content else ():
        text = part.text if type(part) is Text else part
        if type(text) is str and text.startswith(signs):
            return text
    return None


def _find_by_tool(request: Asked) -> str | None:
    choice = object_of(request.body.get("tool_choice"))
    name = choice.get("name") or object_of(choice.get("function")).get("name")
    return _TOOLS.get(name) if isinstance(name, str) else None


def _find(place: Place, text: str) -> str | None:
    signs = (one for one in SIGNS if one.place is place)
    return next((one.purpose for one in signs if text.lstrip().startswith(one.text)), None)


def _by_text(place: Place) -> dict[str, str]:
    return {one.text: one.purpose for one in SIGNS if one.place is place}


_PROBES: Final = _by_text(Place.PROBE)
_TOOLS: Final = _by_text(Place.TOOL)
_USER: Final = (*_by_text(Place.USER), *_PROBES)
_SYSTEM: Final = tuple([f"{space}{one}" for one in _by_text(Place.SYSTEM) for space in ("", "\n")])
"""Programs write their instructions on lines of their own, so that some begin with a line end."""
