"""The place of a call in its conversation, as spans and columns tell it, and what is kept of it.

What is kept lets conversations go on after a restart. The room of conversations makes and reads it
(:mod:`telemetry.conversations.saved_calls`), the store keeps it (:mod:`telemetry.store.links`), and
neither looks into what the other knows.
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
    """How conversations are told."""

    RUNS = "runs"
    """A run is one trace: an AGENT span with its calls, and a TOOL span for each result."""
    LINKS = "links"
    """Each call stays in its own trace: session, metadata and span links tell the rest."""
    OFF = "off"
    """Conversations are not looked for."""


class ConversationPosition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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
        new_items: how many texts, calls and results are new in it.
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

    Of a damaged row a value may have any type.

    Attributes:
        span_id: of its span, as it was recorded; so are the next two.
        trace_id: of its span.
        session: ``session.id``, ``None`` where the span has none.
        data: bytes that the room of conversations made.
    """

    span_id: str
    trace_id: str
    session: str | None
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCalls:
    """What a store gives at a start.

    Attributes:
        key: of all digests; it is as old as the store, and leaves it for no other place.
        calls: the newest ones, oldest first.
        open_runs: by number, the bytes of each run that was not over.
        span_ids: of the newest spans, oldest first, whether something is kept of them or not.
    """

    key: bytes = field(repr=False)
    calls: Sequence[KeptCall] = ()
    open_runs: Mapping[int, bytes] = field(default_factory=dict)
    span_ids: Sequence[str] = ()
