"""Conversations: finds the position of each call in its conversation, once it has ended.

``docs/contract/conversations.md`` has what spans and users rely on. In short: calls are followed in
the order in which they ended, because a successor begins when its predecessor has answered. The
numbers of conversations rise, also over restarts.

What later calls need is kept with the span (:mod:`telemetry.conversations.saved_calls`), and read
once, at the first commit or call. Digests of content are made with the store's key, so that they
stay comparable. Nothing is kept of a call whose client wants no content recorded, nor of any call
while something is hidden from spans: that is in memory alone. A call whose client wants no content
recorded does not continue a stranger's either.
"""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from codec.apis.api import Content
from codec.history_items import USER, ItemKind
from codec.history_states import KEY_BYTES, Digests
from telemetry.conversation_position import ConversationPosition, KeptCalls
from telemetry.conversations.continuation import CONTINUING_RULES, Rule
from telemetry.conversations.continuation_finder import ContinuationFinder
from telemetry.conversations.keys import SCOPE_BYTES
from telemetry.conversations.launches import is_notice, make_agent_keys, narrow_scope
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
from telemetry.observing.exchange import INPUT_PARTIAL, Outcome
from telemetry.observing.purposes import find_purpose
from telemetry.semconv import WEBSOCKET

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.asked import Asked
    from telemetry.conversations.continuation import Continuation
    from telemetry.conversations.launches import AgentKeys
    from telemetry.conversations.matcher import ComparableRequest
    from telemetry.conversations.memory import RememberedCall
    from telemetry.conversations.runs import RunStep
    from telemetry.observing.agent_ids import AgentIds
    from telemetry.observing.exchange import Exchange
    from telemetry.privacy.credentials import Credentials

MAX_KEPT_SCOPES: Final = 64
"""How many heads of requests keep their scopes: as many as the observer knows."""

REREAD_SECONDS: Final = 10
"""The time between two tries to read what is kept: reading 50,000 calls takes a second."""

_log = logging.getLogger("spantap.telemetry")

_LEFT: Final = frozenset({Outcome.CLIENT_DISCONNECTED, Outcome.CANCELLED})


def read_nothing(**_: int) -> KeptCalls:
    """Return what a new store returns."""
    return KeptCalls(key=os.urandom(KEY_BYTES))


class Unmarked(NamedTuple):
    """A call whose span has no session, although a later call continues it.

    A marker span then adds the session (C12).
    """

    trace_id: str
    span_id: str
    end_ns: int


class Followed(NamedTuple):
    """What is known of a call.

    Attributes:
        position: where it stands in its conversation.
        step: what the call means for runs.
        caller: a digest of the caller's credentials; empty for an unknown caller.
        unmarked: the call before it, if that one needs a marker span.
        request: the request in the form in which it was compared.
        keeps: what is derived from its content may be kept in the store.
    """

    position: ConversationPosition
    step: RunStep = NO_STEP
    caller: bytes = b""
    unmarked: Unmarked | None = None
    request: ComparableRequest | None = None
    keeps: bool = True


class Conversations:
    """Finds the position of each call. Not safe for concurrent calls.

    Args:
        find_last: returns the greatest number of a conversation so far. It is asked when the
            number is first needed.
        read_kept: returns what is kept of the newest `max_calls` calls and the ids of the newest
            `max_spans` spans (:meth:`telemetry.store.store.Store.read_kept_calls`). It is asked at
            the same time.
        max_calls: how many calls are remembered.
        run_idle_ns: how long a run rests before it is over; ``None`` looks for no runs.
        steady_ns: nanoseconds since the epoch, by a clock that never steps.
        keeps: the store may keep something of calls.

    Attributes:
        continuations: how many calls were found to continue another one, by rule; any thread may
            ask.
        ambiguous: how many calls could continue several others, and so began a conversation.
        runs: the open runs; none before :meth:`begin`.
        unreadable: how many calls and open runs of an earlier process could not be read.
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
        # The observer keeps one object for the credentials of a head: these caches find it again.
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
        """Read what is kept, once; return ``None`` while it cannot be read.

        With 50,000 calls this takes some 0.8 s, for which the first frames wait. A read that fails
        is tried again after :data:`REREAD_SECONDS`. Meanwhile calls are recorded without a
        position.
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
        """Make a finder that remembers what is kept.

        Raises:
            StoreError: it cannot be read.
        """
        kept = self._read_kept(max_calls=self._max_calls, max_spans=MAX_KNOWN_SPANS)
        last = self._find_last()
        finder = ContinuationFinder(kept.key, Memory(self._max_calls))
        newest, unreadable = refill(finder.memory, kept.calls)
        unreadable += self.runs.begin(Digests(kept.key), kept.open_runs)
        if unreadable:
            _log.warning(
                "%d calls from before the restart cannot be read: "
                "a call that continues one of them begins a new conversation",
                unreadable,
            )
        self.unreadable = unreadable
        self._last = max(last, newest)
        self._seen.note(*kept.span_ids)
        return finder

    def follow(self, exchange: Exchange) -> Followed | None:
        """Find the position of an exchange that has ended.

        Returns:
            ``None`` for an exchange without messages, for one that was followed before, and while
            the calls before cannot be read. An exchange comes twice when frames are sent again
            after a kill: the last :data:`MAX_KNOWN_SPANS` spans are known, over restarts too (R8).
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
        caller = self._find_caller(exchange.credentials)
        ids, keys = exchange.agent_ids, None
        if ids is not None:
            if ids.is_child and ids.agent:
                strangers = narrow_scope(strangers, ids)
                scope = None if scope is None else narrow_scope(scope, ids)
            if caller and (ids.session or ids.agent):
                keys = make_agent_keys(ids, caller, exchange.launch, self._scope_key)
        request = finder.read_request(
            asked,
            scope,
            None if exchange.hides_content else strangers,
            is_whole=exchange.protocol == WEBSOCKET and INPUT_PARTIAL not in exchange.anomalies,
        )
        is_aside = ids is not None and _is_aside(ids, asked, request)
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
            ids=ids,
            is_aside=is_aside,
        )
        if continuation.begins_turn and (
            is_aside or (keys is not None and self._goes_on(keys, continuation, request))
        ):
            continuation = finder.keep_turn(continuation)
        continuation = self._take_name(continuation, exchange, caller)
        self.ambiguous += continuation.is_ambiguous
        if continuation.rule is not Rule.NEW:
            self.continuations[continuation.rule] += 1
        sampled = is_sampled(exchange, continuation)
        step = NO_STEP
        if self._has_runs and sampled:
            step = self.runs.take(
                exchange,
                continuation,
                caller,
                request=request,
                failed=failed,
                keys=keys,
                is_aside=is_aside,
            )
        position = make_position(exchange, continuation, step, sampled=sampled)
        call = finder.remembered
        if call is not None and call.number == continuation.call:
            call.conversation = continuation.conversation
            _note(call, exchange, position, step)
        keeps = self._keeps and not exchange.hides_content
        kept = self._save(continuation, call, strangers) if keeps else None
        if kept is not None and exchange.credentials.may_be_in(kept):
            kept = None  # a model gave a tool call a credential as its id
        position = replace(position, kept=kept)
        return Followed(position, step, caller, _find_unmarked(continuation), request, keeps)

    def _goes_on(
        self, keys: AgentKeys, continuation: Continuation, request: ComparableRequest | None
    ) -> bool:
        """Tell whether what is new in a request is no new message of the user's.

        Programs also send what they have to say themselves as the user's text: that a sub-agent is
        done, or what was said before a compaction.
        """
        if request is None:
            return False
        new = request.history[len(request.history) - continuation.new_items :]
        texts = [item.text for item in new if item.role == USER and item.kind == ItemKind.TEXT]
        return all(is_notice(keys.ids, text) for text in texts) or (
            self.runs.launches.is_same_prompt(keys, continuation.run)
        )

    def _take_name(
        self, continuation: Continuation, exchange: Exchange, caller: bytes
    ) -> Continuation:
        """Put a continuation into the conversation that the client names.

        Calls of one name are one conversation. Calls that continue them and name none join it. A
        sub-agent that names itself has a separate conversation.
        """
        name, before, ids = exchange.context.session_id, continuation.before, exchange.agent_ids
        if name is None:
            return continuation
        full = name if ids is None or not ids.is_child else f"{name}\0{ids.agent}"
        if before is not None and (before.session == name or before.source == "inferred"):
            self._named.note(caller, full, continuation.conversation)
            return continuation
        known = self._named.find(caller, full)
        number = continuation.call if known is None else known
        self._named.note(caller, full, number)
        if before is not None:  # the conversation continues under another name
            return replace(continuation, conversation=number)
        if known is None:
            return continuation
        return replace(continuation, conversation=known, rule=Rule(continuation.origin.source))

    def _save(
        self, continuation: Continuation, call: RememberedCall | None, strangers: bytes
    ) -> bytes | None:
        """Write what the store keeps of a call; ``None`` for nothing."""
        if call is None or call.number != continuation.call:
            return None  # it is not remembered
        return save_call(call, continuation.predecessor, strangers)

    def _make_caller(self, credentials: Credentials) -> bytes:
        """Make a digest of a caller, the same for all upstreams; empty for an unknown caller.

        The digest and its key are in memory alone. So a caller is unknown after a restart, and for
        calls from the spool, whose credentials nobody can open
        (:mod:`telemetry.conversations.match`).
        """
        if credentials.are_unreadable:
            return b""
        digest = credentials.digest(self._scope_key)
        return blake2b(digest, digest_size=SCOPE_BYTES, key=self._scope_key).digest()

    def _make_scope(self, credentials: Credentials, upstream: str) -> bytes | None:
        """Make a digest of a caller and an upstream; ``None`` for an unknown caller."""
        if credentials.are_unreadable:
            return None
        digest = credentials.digest(self._scope_key) + upstream.encode("utf-8", "replace")
        return blake2b(digest, digest_size=SCOPE_BYTES, key=self._scope_key).digest()


def _is_aside(ids: AgentIds, asked: Asked, request: ComparableRequest | None) -> bool:
    """Tell whether a call is a helper's, such as one that asks for a title."""
    if request is None or not request.messages:
        return ids.purpose is not None
    return find_purpose(asked, ids.purpose, request.messages) is not None


def _make_strangers(upstream: str) -> bytes:
    """Make a digest of an upstream, by its name in the settings."""
    return blake2b(upstream.encode("utf-8", "replace"), digest_size=SCOPE_BYTES).digest()


def _note(
    call: RememberedCall, exchange: Exchange, position: ConversationPosition, step: RunStep
) -> None:
    """Remember what the position of a call adds: the trace of its span, its run, its session."""
    call.is_sampled = position.is_sampled
    call.run = None if step.run is None else step.run.number
    if call.origin.trace_id != position.trace_id:
        call.origin = call.origin._replace(trace_id=position.trace_id)
    if position.parent is not None and call.origin.session is None:
        call.origin = call.origin._replace(session=position.session)
    if exchange.identity.is_root and position.is_sampled and not position.has_session:
        call.unmarked_ns = exchange.end_ns


def _find_unmarked(continuation: Continuation) -> Unmarked | None:
    """Find the call before, if its span lacks the session that there is now."""
    before = continuation.before
    if before is None or continuation.unmarked_ns is None or continuation.rule is Rule.RETRY:
        return None
    return Unmarked(before.trace_id, before.span_id, continuation.unmarked_ns)
