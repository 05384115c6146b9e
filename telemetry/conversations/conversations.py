"""Conversations: the place of each call in one, found when it has ended.

Rules (``page-and-conversations.md`` 1.2, 1.5 and 1.6):

1. The place is found here, in the one process that sees all calls: the relay learns nothing new and
   waits for nothing.
2. The caller is told by a keyed digest of the credentials that it sent, which is in memory alone,
   as are all digests of content: the key is made with the object. After a restart conversations
   begin anew.
3. Numbers of conversations rise, also over restarts.
4. Calls are followed in the order in which they ended: a successor begins when its predecessor has
   answered.
5. A session that the client names is that of its call, and of those that go on from it and name
   none. Else the first call's span gives the conversation its session (C12).
"""

from __future__ import annotations

import dataclasses
import os
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from codec.apis.api import Content
from codec.history_states import KEY_BYTES
from telemetry.call_place import CallPlace
from telemetry.conversations.link import LINKING, Rule
from telemetry.conversations.linker import Linker
from telemetry.conversations.memory import MAX_CALLS, Memory, Origin
from telemetry.observing.client_context import add_body_context
from telemetry.observing.exchange import ClientContext, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.conversations.link import Link
    from telemetry.observing.exchange import Exchange
    from telemetry.privacy.credentials import Credentials

__all__ = ("MAX_KEPT_SCOPES", "SCOPE_BYTES", "Conversations", "give_place")

SCOPE_BYTES: Final = 8
"""Callers and upstreams that are told apart: of a million, two are taken for one by one chance in
40 million."""

MAX_KEPT_SCOPES: Final = 64
"""Heads whose scopes are kept: as many as the observer knows."""

_LEFT: Final = frozenset({Outcome.CLIENT_DISCONNECTED, Outcome.CANCELLED})


class Conversations:
    """Finds the place of each call. Not safe for concurrent calls.

    Args:
        find_last: finds the greatest number of a conversation so far, when it is first needed.
        max_calls: how many calls are remembered.

    Attributes:
        links: how many calls each rule linked; any thread may ask.
        ambiguous: calls that may go on from several others, and so begin a conversation.
    """

    def __init__(
        self, find_last: Callable[[], int] = lambda: 0, *, max_calls: int = MAX_CALLS
    ) -> None:
        self._key = os.urandom(KEY_BYTES)
        self._linker = Linker(self._key, Memory(max_calls))
        # The observer knows a head by its credentials: they are the very same for its next call.
        self._find_scope = lru_cache(maxsize=MAX_KEPT_SCOPES)(self._make_scope)
        self._find_last = find_last
        self._last: int | None = None
        self.links = dict.fromkeys(LINKING, 0)
        self.ambiguous = 0

    @property
    def remembered(self) -> int:
        """The number of calls that are remembered; any thread may ask."""
        return len(self._linker.memory)

    def follow(self, exchange: Exchange) -> CallPlace | None:
        """Find the place of an exchange that has ended; ``None`` for one without messages."""
        asked, said = exchange.request, exchange.response
        if asked is None or exchange.api.content is not Content.MESSAGES:
            return None
        if self._last is None:
            self._last = self._find_last()
        self._last += 1
        link = self._linker.link(
            self._last,
            asked,
            said,
            origin=_find_origin(exchange),
            scope=self._find_scope(exchange.credentials, exchange.upstream),
            start_ns=exchange.start_ns,
            end_ns=exchange.end_ns,
            failed=exchange.error_type is not None or exchange.outcome in _LEFT,
        )
        self.ambiguous += link.is_ambiguous
        if link.rule in self.links:
            self.links[link.rule] += 1
        return _make_place(exchange, link)

    def _make_scope(self, credentials: Credentials, upstream: str) -> bytes:
        """Tell callers and upstreams apart (rule 2)."""
        told = credentials.digest(self._key) + upstream.encode("utf-8", "replace")
        return blake2b(told, digest_size=SCOPE_BYTES, key=self._key).digest()


def give_place(exchange: Exchange, place: CallPlace) -> Exchange:
    """Return an exchange with its place, and with the session where it has one (C12).

    A lone question has none, or a batch would be a thousand sessions of one call.
    """
    if exchange.context.session_id is not None:
        return replace(exchange, place=place)
    said = exchange.response
    if place.before is None and not (said is not None and said.tool_calls):
        return replace(exchange, place=place)
    context = dataclasses.replace(exchange.context, session_id=place.session)
    return replace(exchange, place=place, context=context)


def _find_origin(exchange: Exchange) -> Origin:
    identity, session = exchange.identity, exchange.context.session_id
    return Origin(identity.trace_id, identity.span_id, session, _find_source(exchange))


def _find_source(exchange: Exchange) -> str:
    """Tell who names the session; nobody does of most calls."""
    session = exchange.context.session_id
    if session is None:
        return "inferred"
    in_body = add_body_context(exchange.request, ClientContext()).session_id
    return "body" if session == in_body else "header"


def _make_place(exchange: Exchange, link: Link) -> CallPlace:
    """Tell a link in the words of spans (rule 5)."""
    own, before = link.origin, link.before
    return CallPlace(
        conversation=link.conversation,
        turn=link.turn,
        call=link.depth,
        rule=None if link.rule is Rule.NEW else link.rule.value,
        session=own.session or f"conv-{exchange.identity.span_id}",
        source=own.source,
        before=None if before is None else (before.trace_id, before.span_id),
        relation=None if before is None else _name_relation(link),
        new_units=link.new_units,
        system_changed=link.system_changed,
    )


def _name_relation(link: Link) -> str:
    if link.rule is Rule.RETRY:
        return "retry"
    if link.is_fork:
        return "fork"
    return "previous_turn" if link.begins_turn else "previous_call"
