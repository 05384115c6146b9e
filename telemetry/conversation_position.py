"""The position of a call in its conversation, and what is kept of a call over a restart.

Spans and columns show the position. What is kept lets conversations continue after a restart: the
room of conversations makes and reads it (:mod:`telemetry.conversations.saved_calls`), the store
holds it (:mod:`telemetry.store.kept_calls`), and neither needs to know what the other knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence


class ConversationForm(StrEnum):
    """How spans show conversations."""

    RUNS = "runs"
    """A run is one trace: an AGENT span with its calls, and a TOOL span for each result."""
    LINKS = "links"
    """Each call stays in its own trace. Session, metadata and span links show the rest."""
    OFF = "off"
    """Conversations are not looked for."""


class ConversationPosition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The position of a call.

    Attributes:
        conversation: the number of the conversation.
        turn: which message of the user's the call answers, from 1.
        call: the number of calls from the first one of the conversation to this one, both included.
        rule: the rule by which the call is known to continue another one; ``None`` for the first
            call of a conversation.
        session: ``session.id`` of the conversation.
        source: where the session comes from: ``header``, ``body``, or ``inferred``.
        has_session: the call's span shows the session.
        before: trace and span id of the call that this one continues or repeats.
        relation: what that call is to this one: ``previous_call``; ``previous_turn``; ``fork``, if
            another call continued it before; ``compacted``, if the history was cut; ``retry``.
        new_items: how many texts, tool calls and results are new in this call.
        system_changed: the system messages differ from those of the call before.
        run: the number of the call's run; ``None`` for a call outside any run.
        parent: the id of our span that is its parent: the AGENT of its run, or the TOOL whose
            sub-agent it is.
        trace_id: the trace of its run, or else its own.
        usage: how its prompt compares with that of the call before
            (:mod:`telemetry.conversations.run_usage`).
        is_sampled: the conversation is recorded.
        sent_context: the trace and span id that the upstream received, if the call is recorded in
            another trace.
        kept: what the store keeps, so that later calls find this one after a restart.
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
    new_items: int = 0
    system_changed: bool = False
    run: int | None = None
    parent: str | None = None
    trace_id: str
    usage: Mapping[str, object] = {}
    is_sampled: bool = True
    sent_context: tuple[str, str] | None = None
    kept: bytes | None = None


class KeptCall(NamedTuple):
    """What is kept of one call.

    If the row is damaged, a value may have any type.

    Attributes:
        span_id: the id of its span, as it was recorded.
        trace_id: the trace of its span, as it was recorded.
        session: ``session.id`` of its span; ``None`` if the span has none.
        data: bytes that the room of conversations made.
    """

    span_id: str
    trace_id: str
    session: str | None
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCalls:
    """What a store returns at a start.

    Attributes:
        key: the key of all digests. It is as old as the store, and is never exported.
        calls: what is kept of the newest calls, oldest first.
        open_runs: the bytes of each run that was not over, by its number.
        span_ids: the ids of the newest spans, oldest first, also of spans of which nothing is kept.
    """

    key: bytes = field(repr=False)
    calls: Sequence[KeptCall] = ()
    open_runs: Mapping[int, bytes] = field(default_factory=dict)
    span_ids: Sequence[str] = ()
