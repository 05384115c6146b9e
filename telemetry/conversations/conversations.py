"""Conversations: the place of each call in one, found when it has ended.

Rules (``docs/contract/conversations.md#where-it-is-found`` and
``docs/contract/conversations.md#spans``):

1. The place is found here, in the one process that sees all calls: the relay learns nothing new and
   waits for nothing.
2. The caller is told by a keyed digest of the credentials that it sent, which is in memory alone,
   and so is its key: after a restart, and of calls from the spool, whose credentials nobody can
   open, the caller cannot be told (:mod:`telemetry.conversations.match`).
3. Numbers of conversations rise, also over restarts.
4. Calls are followed in the order in which they ended: a successor begins when its predecessor has
   answered. A call is followed once, however often its frames come: those of the last
   :data:`MAX_KNOWN_SPANS` spans are known, over restarts too (R8).
5. What later calls need is kept with the span (:mod:`telemetry.conversations.saved_calls`), and
   read once, at the first commit or call. Digests of content are made with the store's key, so that
   they stay comparable. Of a call nothing is kept whose client wants no content recorded, nor where
   anything is hidden from spans: that is in memory alone. A call whose client wants no content
   recorded does not go on from a stranger's either.
6. A session that the client names is that of its call, and of those that go on from it and name
   none; calls of one name are one conversation. Else the first call's span gives the conversation
   its session (C12); a sub-agent has that of the run that called it.
7. A conversation is recorded or not as a whole, by what the sampler said of its first call; where a
   caller decided, it stays so (C14).
8. A first call whose span has no session is marked once somebody goes on from it (C12).
"""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from codec.apis.api import Content
from codec.history_states import KEY_BYTES, Digests
from telemetry.conversation_position import ConversationPosition, KeptCalls
from telemetry.conversations.continuation import CONTINUING_RULES, Rule
from telemetry.conversations.continuation_finder import ContinuationFinder
from telemetry.conversations.keys import SCOPE_BYTES
from telemetry.conversations.memory import (
    MAX_CALLS,
    MAX_KNOWN_SPANS,
    Memory,
    NamedConversations,
    SeenSpans,
)
from telemetry.conversations.positions import find_origin, is_sampled, make_position
from telemetry.conversations.runs import NO_STEP, Runs
from telemetry.conversations.saved_calls import refill, save_call
from telemetry.errors import StoreError
from telemetry.observing.exchange import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.conversations.continuation import Continuation
    from telemetry.conversations.matcher import ComparableRequest
    from telemetry.conversations.memory import RememberedCall
    from telemetry.conversations.runs import RunStep
    from telemetry.observing.exchange import Exchange
    from telemetry.privacy.credentials import Credentials

MAX_KEPT_SCOPES: Final = 64
"""Heads whose scopes are kept: as many as the observer knows."""

REREAD_SECONDS: Final = 10
"""The time between two tries to read what is kept: one of 50,000 calls takes a second."""

_log = logging.getLogger("spantap.telemetry")

_LEFT: Final = frozenset({Outcome.CLIENT_DISCONNECTED, Outcome.CANCELLED})


def read_nothing(**_: int) -> KeptCalls:
    """Give what a new store gives."""
    return KeptCalls(key=os.urandom(KEY_BYTES))


class Unmarked(NamedTuple):
    """A call whose span has no session, and that others go on from after all (rule 8)."""

    trace_id: str
    span_id: str
    end_ns: int


class Followed(NamedTuple):
    """What was found out of a call.

    Attributes:
        position: where it stands in its conversation.
        step: what it means for runs.
        caller: a digest of who calls; empty for a caller that cannot be told.
        unmarked: the call before it, where that is to be marked.
        request: the request, as it was compared.
        keeps: what is derived from its content may be kept (rule 5).
    """

    position: ConversationPosition
    step: RunStep = NO_STEP
    caller: bytes = b""
    unmarked: Unmarked | None = None
    request: ComparableRequest | None = None
    keeps: bool = True


class Conversations:
    """Finds the place of each call. Not safe for concurrent calls.

    Args:
        find_last: finds the greatest number of a conversation so far, when it is first needed.
        read_kept: reads what is kept of `max_links` calls and the ids of `max_spans` spans, then,
            too (:meth:`telemetry.store.store.Store.read_links`).
        max_calls: how many calls are remembered.
        run_idle_ns: after how long without a call a run is over; ``None`` looks for no runs.
        steady_ns: nanoseconds since the epoch, by a clock that never steps.
        keeps: something may be kept of calls (rule 5).

    Attributes:
        continuations: how many calls each rule found to continue another; any thread may ask.
        ambiguous: calls that may go on from several others, and so begin a conversation.
        runs: those that are open; none before :meth:`begin`.
        unreadable: calls and open runs of a former process that could not be read, and are not
            remembered.
    """

    def __init__(
        self,
        find_last: Callable[[], int] = lambda: 0,
        read_kept: Callable[..., KeptCalls] = read_nothing,
        *,
        max_calls: int = MAX_CALLS,
        run_idle_ns: int | None = None,
        steady_ns: Callable[[], int] = lambda: 0,
        keeps: bool = True,
    ) -> None:
        self.runs = Runs(run_idle_ns or 0, steady_ns)
        self._has_runs = run_idle_ns is not None
        self._scope_key = os.urandom(KEY_BYTES)
        self._max_calls = max_calls
        self._keeps = keeps
        self._finder: ContinuationFinder | None = None
        # The observer knows a head by its credentials: they are the very same for its next call.
        self._find_scope = lru_cache(maxsize=MAX_KEPT_SCOPES)(self._make_scope)
        self._find_caller = lru_cache(maxsize=MAX_KEPT_SCOPES)(self._make_caller)
        self._find_strangers = lru_cache(maxsize=MAX_KEPT_SCOPES)(_make_strangers)
        self._find_last = find_last
        self._read_kept = read_kept
        self._steady_ns = steady_ns
        self._reads_at_ns: int | None = None  # after a read that failed
        self._last = 0
        self._seen = SeenSpans()
        self._named = NamedConversations()
        self.continuations = dict.fromkeys(CONTINUING_RULES, 0)
        self.ambiguous = 0
        self.unreadable = 0

    @property
    def remembered(self) -> int:
        """The number of calls that are remembered; any thread may ask."""
        finder = self._finder
        return 0 if finder is None else len(finder.memory)

    def begin(self) -> ContinuationFinder | None:
        """Read what is kept, once; ``None`` while it cannot be read.

        With 50,000 calls it takes some 0.8 s, for which the first frames wait. A read that fails is
        tried again after :data:`REREAD_SECONDS`: calls are recorded meanwhile, without a place.
        """
        if self._finder is not None:
            return self._finder
        now_ns = self._steady_ns()
        if self._reads_at_ns is not None and now_ns < self._reads_at_ns:
            return None
        try:
            self._finder = self._read()
        except StoreError as error:
            self._reads_at_ns = now_ns + REREAD_SECONDS * 1_000_000_000
            _log.error(
                "calls have no conversations for now, for those before cannot be read: %s", error
            )
        return self._finder

    def _read(self) -> ContinuationFinder:
        """Make a linker that remembers what is kept.

        Raises:
            StoreError: it cannot be read.
        """
        kept = self._read_kept(max_links=self._max_calls, max_spans=MAX_KNOWN_SPANS)
        last = self._find_last()
        finder = ContinuationFinder(kept.key, Memory(self._max_calls))
        newest, unreadable = refill(finder.memory, kept.calls)
        unreadable += self.runs.begin(Digests(kept.key), kept.open_runs)
        if unreadable:
            _log.warning(
                "%d calls of a former run cannot be read: what goes on from them begins anew",
                unreadable,
            )
        self.unreadable = unreadable
        self._last = max(last, newest)
        self._seen.note(*kept.span_ids)
        return finder

    def follow(self, exchange: Exchange) -> Followed | None:
        """Find the place of an exchange that has ended.

        ``None`` for one without messages, for one that was followed before (rule 4), and while
        those before cannot be read.
        """
        asked, said = exchange.request, exchange.response
        if asked is None or exchange.api.content is not Content.MESSAGES:
            return None
        finder = self.begin()
        if finder is None:
            return None
        if not self._seen.note(exchange.identity.span_id):
            return None
        self._last += 1
        strangers = self._find_strangers(exchange.upstream)
        scope = self._find_scope(exchange.credentials, exchange.upstream)
        request = finder.read_request(asked, scope, None if exchange.hides_content else strangers)
        failed = exchange.error_type is not None or exchange.outcome in _LEFT
        continuation = finder.find(
            self._last,
            asked,
            said,
            request=request,
            origin=find_origin(exchange),
            start_ns=exchange.start_ns,
            end_ns=exchange.end_ns,
            failed=failed,
        )
        caller = self._find_caller(exchange.credentials)
        continuation = self._take_name(continuation, exchange, caller)
        self.ambiguous += continuation.is_ambiguous
        if continuation.rule is not Rule.NEW:
            self.continuations[continuation.rule] += 1
        sampled = is_sampled(exchange, continuation)
        step = NO_STEP
        if self._has_runs and sampled:
            messages = asked.read_messages() if request is None else request.messages
            step = self.runs.take(exchange, continuation, caller, messages=messages, failed=failed)
        position = make_position(exchange, continuation, step, sampled=sampled)
        call = finder.remembered
        if call is not None and call.number == continuation.call:
            call.conversation = continuation.conversation
            _note(call, exchange, position, step)
        keeps = self._keeps and not exchange.hides_content
        kept = self._save(continuation, call, strangers) if keeps else None
        if kept is not None and exchange.credentials.may_be_in(kept):
            kept = None  # a model called a tool with one as its id
        position = replace(position, kept=kept)
        return Followed(position, step, caller, _find_unmarked(continuation), request, keeps)

    def _take_name(
        self, continuation: Continuation, exchange: Exchange, caller: bytes
    ) -> Continuation:
        """Return a link in the conversation that the client names (rule 6)."""
        name, before = exchange.context.session_id, continuation.before
        if name is None:
            return continuation
        if before is not None and (before.session == name or before.source == "inferred"):
            self._named.note(caller, name, continuation.conversation)
            return continuation
        known = self._named.find(caller, name)
        number = continuation.call if known is None else known
        self._named.note(caller, name, number)
        if before is not None:  # somebody went on under another name
            return replace(continuation, conversation=number)
        if known is None:
            return continuation
        return replace(continuation, conversation=known, rule=Rule(continuation.origin.source))

    def _save(
        self, continuation: Continuation, call: RememberedCall | None, strangers: bytes
    ) -> bytes | None:
        """Write what is to be kept of a call that was linked; ``None`` for nothing (rule 5)."""
        if call is None or call.number != continuation.call:
            return None  # it is not remembered
        return save_call(call, continuation.predecessor, strangers)

    def _make_caller(self, credentials: Credentials) -> bytes:
        """Tell callers apart, whatever the upstream; empty for one that cannot be told."""
        if credentials.are_sealed:
            return b""
        told = credentials.digest(self._scope_key)
        return blake2b(told, digest_size=SCOPE_BYTES, key=self._scope_key).digest()

    def _make_scope(self, credentials: Credentials, upstream: str) -> bytes | None:
        """Tell callers and upstreams apart (rule 2); ``None`` for a caller that cannot be told."""
        if credentials.are_sealed:
            return None
        told = credentials.digest(self._scope_key) + upstream.encode("utf-8", "replace")
        return blake2b(told, digest_size=SCOPE_BYTES, key=self._scope_key).digest()


def _make_strangers(upstream: str) -> bytes:
    """Tell upstreams apart, by their names in the settings."""
    return blake2b(upstream.encode("utf-8", "replace"), digest_size=SCOPE_BYTES).digest()


def _note(
    call: RememberedCall, exchange: Exchange, position: ConversationPosition, step: RunStep
) -> None:
    """Remember of a call what its place says: its span's trace, its run, its session."""
    call.is_sampled = position.is_sampled
    call.run = None if step.run is None else step.run.number
    if call.origin.trace_id != position.trace_id:
        call.origin = call.origin._replace(trace_id=position.trace_id)
    if position.parent is not None and call.origin.session is None:
        call.origin = call.origin._replace(session=position.session)
    if exchange.identity.is_root and position.is_sampled and not position.has_session:
        call.unmarked_ns = exchange.end_ns


def _find_unmarked(continuation: Continuation) -> Unmarked | None:
    """Find the call before, where its span lacks the session that there is now (rule 8)."""
    before = continuation.before
    if before is None or continuation.unmarked_ns is None or continuation.rule is Rule.RETRY:
        return None
    return Unmarked(before.trace_id, before.span_id, continuation.unmarked_ns)
