"""Conversations: the place of each call in one, found when it has ended.

Rules (``page-and-conversations.md`` 1.2, 1.5 and 1.6):

1. The place is found here, in the one process that sees all calls: the relay learns nothing new and
   waits for nothing.
2. The caller is told by a keyed digest of the credentials that it sent, which is in memory alone,
   and so is its key: after a restart, and of calls from the spool, whose credentials nobody can
   open, the caller cannot be told (:mod:`telemetry.conversations.strangers`).
3. Numbers of conversations rise, also over restarts.
4. Calls are followed in the order in which they ended: a successor begins when its predecessor has
   answered. A call is followed once, however often its frames come: those of the last
   :data:`MAX_KNOWN_SPANS` spans are known, over restarts too (R8).
5. What later calls need is kept with the span (:mod:`telemetry.conversations.saved_calls`), and
   read when the first call is followed. Digests of content are made with the store's key, so that
   they stay comparable. Of a call nothing is kept whose client wants no content recorded, nor where
   anything is hidden from spans: that is in memory alone. Nor does the former go on from a
   stranger's.
6. A session that the client names is that of its call, and of those that go on from it and name
   none. Else the first call's span gives the conversation its session (C12).
"""

from __future__ import annotations

import dataclasses
import logging
import os
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from codec.apis.api import Content
from codec.history_states import KEY_BYTES
from telemetry.call_links import KeptLinks
from telemetry.call_place import CallPlace
from telemetry.conversations.keys import SCOPE_BYTES
from telemetry.conversations.link import LINKING, Rule
from telemetry.conversations.linker import Linker
from telemetry.conversations.memory import MAX_CALLS, Memory, Origin
from telemetry.conversations.saved_calls import refill, save_call
from telemetry.conversations.seen_spans import MAX_KNOWN_SPANS, SeenSpans
from telemetry.observing.client_context import add_body_context
from telemetry.observing.exchange import ClientContext, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.conversations.link import Link
    from telemetry.conversations.memory import RememberedCall
    from telemetry.observing.exchange import Exchange
    from telemetry.privacy.credentials import Credentials

__all__ = ("MAX_KEPT_SCOPES", "Conversations", "give_place")

MAX_KEPT_SCOPES: Final = 64
"""Heads whose scopes are kept: as many as the observer knows."""

_log = logging.getLogger("spantap.telemetry")

_LEFT: Final = frozenset({Outcome.CLIENT_DISCONNECTED, Outcome.CANCELLED})


def read_nothing(**_: int) -> KeptLinks:
    """Give what a new store gives."""
    return KeptLinks(key=os.urandom(KEY_BYTES))


class Conversations:
    """Finds the place of each call. Not safe for concurrent calls.

    Args:
        find_last: finds the greatest number of a conversation so far, when it is first needed.
        read_kept: reads what is kept of `max_links` calls and the ids of `max_spans` spans, then,
            too (:meth:`telemetry.store.store.Store.read_links`).
        max_calls: how many calls are remembered.
        keeps: something may be kept of calls (rule 5).

    Attributes:
        links: how many calls each rule linked; any thread may ask.
        ambiguous: calls that may go on from several others, and so begin a conversation.
        unreadable: calls of a former process that could not be read, and are not remembered.
    """

    def __init__(
        self,
        find_last: Callable[[], int] = lambda: 0,
        read_kept: Callable[..., KeptLinks] = read_nothing,
        *,
        max_calls: int = MAX_CALLS,
        keeps: bool = True,
    ) -> None:
        self._scope_key = os.urandom(KEY_BYTES)
        self._max_calls = max_calls
        self._keeps = keeps
        self._linker: Linker | None = None
        # The observer knows a head by its credentials: they are the very same for its next call.
        self._find_scope = lru_cache(maxsize=MAX_KEPT_SCOPES)(self._make_scope)
        self._find_strangers = lru_cache(maxsize=MAX_KEPT_SCOPES)(_make_strangers)
        self._find_last = find_last
        self._read_kept = read_kept
        self._last = 0
        self._seen = SeenSpans()
        self.links = dict.fromkeys(LINKING, 0)
        self.ambiguous = 0
        self.unreadable = 0

    @property
    def remembered(self) -> int:
        """The number of calls that are remembered; any thread may ask."""
        linker = self._linker
        return 0 if linker is None else len(linker.memory)

    def begin(self) -> Linker:
        """Read what is kept, once; a read that fails is tried again with the next call.

        With 50,000 calls it takes some 0.8 s, for which the first frames wait.

        Raises:
            StoreError: it cannot be read.
        """
        if self._linker is None:
            kept = self._read_kept(max_links=self._max_calls, max_spans=MAX_KNOWN_SPANS)
            last = self._find_last()
            linker = Linker(kept.key, Memory(self._max_calls))
            newest, self.unreadable = refill(linker.memory, kept.links)
            if self.unreadable:
                _log.warning(
                    "%d calls of a former run cannot be read: what goes on from them begins anew",
                    self.unreadable,
                )
            self._last = max(last, newest)
            self._seen.note(*kept.span_ids)
            self._linker = linker
        return self._linker

    def follow(self, exchange: Exchange) -> CallPlace | None:
        """Find the place of an exchange that has ended.

        ``None`` for one without messages, and for one that was followed before (rule 4).
        """
        asked, said = exchange.request, exchange.response
        if asked is None or exchange.api.content is not Content.MESSAGES:
            return None
        linker = self.begin()
        if not self._seen.note(exchange.identity.span_id):
            return None
        self._last += 1
        strangers = self._find_strangers(exchange.upstream)
        link = linker.link(
            self._last,
            asked,
            said,
            origin=_find_origin(exchange),
            scope=self._find_scope(exchange.credentials, exchange.upstream),
            strangers=None if exchange.hides_content else strangers,
            start_ns=exchange.start_ns,
            end_ns=exchange.end_ns,
            failed=exchange.error_type is not None or exchange.outcome in _LEFT,
        )
        self.ambiguous += link.is_ambiguous
        if link.rule in self.links:
            self.links[link.rule] += 1
        place = _make_place(exchange, link)
        return replace(place, kept=self._save(exchange, link, linker.remembered, strangers))

    def _save(
        self, exchange: Exchange, link: Link, call: RememberedCall | None, strangers: bytes
    ) -> bytes | None:
        """Write what is to be kept of a call that was linked; ``None`` for nothing (rule 5)."""
        if not self._keeps or exchange.hides_content:
            return None
        if call is None or call.number != link.call:
            return None  # it is not remembered
        return save_call(call, link.predecessor, strangers)

    def _make_scope(self, credentials: Credentials, upstream: str) -> bytes | None:
        """Tell callers and upstreams apart (rule 2); ``None`` for a caller that cannot be told."""
        if credentials.are_sealed:
            return None
        told = credentials.digest(self._scope_key) + upstream.encode("utf-8", "replace")
        return blake2b(told, digest_size=SCOPE_BYTES, key=self._scope_key).digest()


def _make_strangers(upstream: str) -> bytes:
    """Tell upstreams apart, by their names in the settings."""
    return blake2b(upstream.encode("utf-8", "replace"), digest_size=SCOPE_BYTES).digest()


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
    """Tell a link in the words of spans (rule 6)."""
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
