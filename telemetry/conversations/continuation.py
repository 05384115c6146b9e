"""A link: the call that another one goes on from, and by which rule that is known."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from telemetry.conversations.memory import Origin


class Rule(StrEnum):
    """How a predecessor was found (``docs/contract/conversations.md#rules``)."""

    RESPONSE_ID = "response_id"
    """The request names the answer that it goes on from."""
    TOOL_ID = "tool_id"
    """The history has a tool call's id that one answer alone gave out."""
    STATE = "state"
    """The history begins with all that was said up to the end of that call."""
    STATE_NO_IDS = "state_no_ids"
    """Likewise, but for the ids of calls."""
    PREFIX = "prefix"
    """The history begins with that call's request, and somebody rewrote the answer to it."""
    WINDOW = "window"
    """Four items in a row come again, of the answer and of what is before it: the history was cut
    at its beginning."""
    RETRY = "retry"
    """The request repeats one that failed."""
    HEADER = "header"
    """A header names the conversation; the call before it is not known."""
    BODY = "body"
    """Likewise, in the body."""
    NEW = "new"
    """Nothing was found."""


CONTINUING_RULES: Final = tuple(rule for rule in Rule if rule is not Rule.NEW)
"""The rules that find a call."""


class Continuation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of a call's place.

    Attributes:
        rule: how it is known.
        call: its number.
        conversation: the number of its conversation: that of the first call in it.
        turn: which word of the user's it answers, from 1.
        depth: how many calls led to it, itself included.
        origin: what spans tell of it, with the session of its conversation.
        predecessor: the number of the call that it goes on from, or that it repeats.
        before: what spans tell of that one.
        begins_turn: it has a new word of the user's.
        is_fork: somebody went on from there before.
        is_ambiguous: several calls might be meant, so none is.
        system_changed: the system messages are not those of the predecessor.
        run: the number of the run in which that one is.
        unmarked_ns: when that one ended, where its span has no session.
        is_sampled: the conversation of that one is recorded; true where there is none.
        new_items: how many items of the request are behind what both have.
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
