"""The place of a call in its conversation, as spans and columns tell it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class ConversationForm(StrEnum):
    """How conversations are told."""

    RUNS = "runs"
    """A run is one trace: an AGENT span with its calls, and a TOOL span for each result."""
    LINKS = "links"
    """Each call stays in its own trace: session, metadata and span links tell the rest."""
    OFF = "off"
    """Conversations are not looked for."""


class CallPlace(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The place of a call.

    Attributes:
        conversation: its number.
        turn: which word of the user's it answers, from 1.
        call: how many calls of the conversation led to it, itself included.
        rule: by which rule it goes on from an earlier call; ``None`` for the first one of a
            conversation.
        session: ``session.id`` of the conversation.
        source: who says so: ``header``, ``body``, or ``inferred``.
        has_session: its span tells the session.
        before: trace and span id of the call that it goes on from, or repeats.
        relation: what that call is to it: ``previous_call``, ``previous_turn``; ``fork``, where
            others went on from there before; ``compacted``, where the history was cut; ``retry``.
        new_units: how many texts, calls and results are new in it.
        system_changed: its system messages are not those of the call before.
        run: the number of its run, ``None`` where it is in none.
        parent: the span of ours that is its parent: the AGENT of its run, or the TOOL of which it
            is the sub-agent.
        trace_id: that of its run, else its own.
        usage: what the call says of its prompt beside the one before
            (:mod:`telemetry.conversations.run_usage`).
        is_sampled: its conversation is recorded.
        sent_context: trace and span id that the upstream was told, where the trace is another.
        kept: what the store keeps of it, so that later calls find it after a restart.
    """

    conversation: int
    turn: int
    call: int
    rule: str | None = None
    session: str
    source: str
    has_session: bool = False
    before: tuple[str, str] | None = None
    relation: str | None = None
    new_units: int = 0
    system_changed: bool = False
    run: int | None = None
    parent: str | None = None
    trace_id: str
    usage: Mapping[str, object] = {}
    is_sampled: bool = True
    sent_context: tuple[str, str] | None = None
    kept: bytes | None = None
