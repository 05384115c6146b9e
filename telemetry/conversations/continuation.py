"""A continuation: which call another one continues, and the rule by which that is known."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from telemetry.conversations.memory import Origin


class Rule(StrEnum):
    """How the call before was found (``docs/contract/conversations.md#rules``)."""

    RESPONSE_ID = "response_id"
    """The request names the answer that it continues."""
    TOOL_ID = "tool_id"
    """The history has the id of a tool call that only one answer made."""
    STATE = "state"
    """The history begins with everything that was said up to the end of that call."""
    STATE_NO_IDS = "state_no_ids"
    """The same, with the ids of tool calls left out."""
    PREFIX = "prefix"
    """The history begins with that call's request, followed by a changed answer."""
    WINDOW = "window"
    """Four items in a row come again, some from the answer and some from before it: the history was
    cut at its beginning."""
    RETRY = "retry"
    """The request repeats one that failed."""
    HEADER = "header"
    """A header names the conversation; the call before is not known."""
    BODY = "body"
    """A member of the body names it; the call before is not known."""
    NEW = "new"
    """Nothing was found."""


CONTINUING_RULES: Final = tuple(rule for rule in Rule if rule is not Rule.NEW)
"""The rules that find a conversation."""


class Continuation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a call continues its conversation, or begins one.

    Attributes:
        rule: how that is known.
        call: the number of the call.
        conversation: the number of the conversation, which is that of its first call.
        turn: which message of the user's the call answers, from 1.
        depth: the number of calls from the first one to this one, both included.
        origin: what the call's span says, with the session of the conversation.
        predecessor: the number of the call that this one continues or repeats.
        before: what the predecessor's span says.
        begins_turn: the request has a new message of the user's.
        is_fork: another call continued the predecessor before.
        is_ambiguous: several calls may be the predecessor, so none was chosen.
        system_changed: the system messages differ from the predecessor's.
        run: the number of the predecessor's run.
        unmarked_ns: when the predecessor ended, if its span has no session.
        is_sampled: the predecessor's conversation is recorded; true if there is no predecessor.
        new_items: how many items of the request follow those that both calls have.
    """

    rule: Rule
    call: int
    conversation: int
    turn: int = 1
    depth: int = 1
    origin: Origin
    predecessor: int | None = None
    before: Origin | None = None
    begins_turn: bool = False
    is_fork: bool = False
    is_ambiguous: bool = False
    system_changed: bool = False
    run: int | None = None
    unmarked_ns: int | None = None
    is_sampled: bool = True
    new_items: int = 0
