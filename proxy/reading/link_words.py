"""The rules by which calls are linked, in plain words: for the terminal and the page."""

from __future__ import annotations

from typing import Final

from telemetry.conversations.continuation import Rule

_WORDS: Final = {
    Rule.RESPONSE_ID: "it names the answer that it continues",
    Rule.TOOL_ID: "it has a tool call that only the call before made",
    Rule.STATE: "it begins with all that was said before",
    Rule.STATE_NO_IDS: "it begins with all that was said before, with other ids of tool calls",
    Rule.PREFIX: "it begins with the request before, with a changed answer",
    Rule.WINDOW: "it repeats the end of what was said before",
    Rule.RETRY: "it repeats a request that failed",
    Rule.HEADER: "a header names the conversation",
    Rule.BODY: "its body names the conversation",
    Rule.NEW: "nothing before it was found",
}


def describe_link(rule: str | None) -> str | None:
    """Say how a call is known to belong to its conversation; a word unknown here stays as it is."""
    try:
        return None if rule is None else _WORDS[Rule(rule)]
    except ValueError:
        return rule
