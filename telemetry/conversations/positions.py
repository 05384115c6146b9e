"""Positions: what is known of a call's conversation, in the words of its span."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from telemetry.conversation_position import ConversationPosition
from telemetry.conversations.continuation import Rule
from telemetry.conversations.memory import Origin
from telemetry.observing.client_context import add_body_context
from telemetry.observing.exchange import ClientContext, ReadMessages

if TYPE_CHECKING:
    from telemetry.conversations.continuation import Continuation
    from telemetry.conversations.matcher import ComparableRequest
    from telemetry.conversations.runs import RunStep
    from telemetry.observing.exchange import Exchange


def find_origin(exchange: Exchange) -> Origin:
    """Find what the span of a call says, with the session that its client names."""
    identity, session = exchange.identity, exchange.context.session_id
    return Origin(identity.trace_id, identity.span_id, session, _find_source(exchange))


def _find_source(exchange: Exchange) -> str:
    """Find who names the session: for most calls nobody does."""
    session = exchange.context.session_id
    if session is None:
        return "inferred"
    in_body = add_body_context(exchange.request, ClientContext()).session_id
    return "body" if session == in_body else "header"


def is_sampled(exchange: Exchange, continuation: Continuation) -> bool:
    """Tell whether a call's conversation is recorded (C14).

    It is recorded or not as a whole, by what the sampler said of its first call. Where a caller
    decided, that decision holds.
    """
    identity = exchange.identity
    if identity.is_root and continuation.before is not None:
        return continuation.is_sampled
    return identity.sampled


def make_position(
    exchange: Exchange, continuation: Continuation, step: RunStep, *, sampled: bool
) -> ConversationPosition:
    """Make the position of a call.

    Its session is the one that its client names, else that of the call that it continues, else that
    of the run whose sub-agent it is. A first call without any of these gives the conversation a
    session that is named after its own span (C12).
    """
    own, before, identity = continuation.origin, continuation.before, exchange.identity
    run, session, parent, trace_id = step.run, own.session, None, identity.trace_id
    if step.parent is not None:
        run, parent = step.run or step.parent[0], step.parent[1]
        session = session or step.parent[0].session
    if step.run is not None:
        parent = step.run.agent_id
    if run is not None:
        trace_id = run.trace_id
    sent_context = None
    if trace_id != identity.trace_id:
        sent_context = (identity.trace_id, identity.span_id)
    return ConversationPosition(
        conversation=continuation.conversation,
        turn=continuation.turn,
        call=continuation.depth,
        rule=None if continuation.rule is Rule.NEW else continuation.rule.value,
        session=session or f"conv-{identity.span_id}",
        source=own.source,
        has_session=_has_session(exchange, is_alone=before is None and parent is None),
        before=None if before is None else (before.trace_id, before.span_id),
        relation=None if before is None else _name_relation(continuation),
        new_items=continuation.new_items,
        system_changed=continuation.system_changed,
        run=None if step.run is None else step.run.number,
        parent=parent,
        trace_id=trace_id,
        is_sampled=sampled,
        sent_context=sent_context,
    )


def _has_session(exchange: Exchange, *, is_alone: bool) -> bool:
    """Tell whether the span of a call has a session.

    A lone question has none, or a batch would be a thousand sessions of one call. Neither has a
    first call whose answer calls only tools that the provider ran, nor one whose tool call was
    forced: no client comes back with results for those.
    """
    if exchange.context.session_id is not None or not is_alone:
        return True
    asked, said = exchange.request, exchange.response
    if asked is None or said is None or asked.forces_tool:
        return False
    return any(call.is_clients for call in said.tool_calls)


def _name_relation(continuation: Continuation) -> str:
    if continuation.rule is Rule.RETRY:
        return "retry"
    if continuation.is_fork:
        return "fork"
    if continuation.rule is Rule.WINDOW:
        return "compacted"
    return "previous_turn" if continuation.begins_turn else "previous_call"


def with_position(
    exchange: Exchange, position: ConversationPosition, request: ComparableRequest | None = None
) -> Exchange:
    """Return an exchange with its position, and with the session where it has one (C12).

    A call of a run is recorded in the run's trace, under its own span id.

    Args:
        exchange: the call.
        position: where it stands.
        request: as it was compared, so that it is not read again.
    """
    identity, context, read = exchange.identity, exchange.context, exchange.read
    if position.parent is not None:
        identity = replace(identity, trace_id=position.trace_id, parent_span_id=position.parent)
    if position.is_sampled is not identity.sampled:
        identity = identity.as_sampled(sampled=position.is_sampled)
    if context.session_id is None and position.has_session:
        context = replace(context, session_id=position.session)
    if request is not None and exchange.request is not None:
        read = ReadMessages(exchange.request, request.messages, request.parsed)
    return replace(exchange, identity=identity, context=context, position=position, read=read)
