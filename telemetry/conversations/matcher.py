"""Matching: the rules by which the call is found that another one goes on from.

Rules (``docs/contract/conversations.md#rules``):

1. The deepest match wins: the one that covers most of the history. Of equally deep ones a state is
   better than a tool's call, that better than a state without ids, and a request is the last.
2. Content is compared within a scope alone: the same caller and upstream (C6). The id of a response
   may cross scopes where it is nobody else's. Of callers that cannot be told apart only what is
   strong is compared (:mod:`telemetry.conversations.match`).
3. Of several calls that may be meant, those that nobody continued are taken; where not one alone is
   left, none is: never a coin toss. Where clients name conversations, one of the same name comes
   first; what has another name is gone on from only where it cannot be one that is alike, and
   never in its run (:mod:`telemetry.conversations.match`).
4. A tool's call counts where its id is strong (:func:`~telemetry.conversations.keys.is_strong`) and
   one answer alone gave it out, with that name and these arguments; where its result came alone, by
   its id.
5. An earlier request counts where the calls of tools follow it that the answer made, whatever was
   said beside them: clients take thoughts out that came as text. Else an assistant's item has to
   follow that is like the answer (:mod:`telemetry.conversations.sketch`). In the place of an answer
   that failed within :data:`MAX_RETRY_NS`, and that nobody continued, there may be anything.
6. The same request again, begun within :data:`MAX_RETRY_NS` of the end of one that failed, is a
   retry of it, if that one alone may be meant, and nobody sent it since. A request without a
   history is nobody's.
7. What is alike, the ids left aside, is not meant where one of :data:`MAX_LOOKED_BACK` items has a
   strong id that answers of other conversations alone gave out, or that began with it, whoever
   asked: clients with several keys ask the same by each. A state with its ids counts all the same.
8. Of a request to which the provider adds what was said before, content is compared with those
   alone that name the same: their states go on from that name.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from codec.history_items import ASSISTANT, USER, ItemKind
from codec.history_states import STATE_BYTES
from telemetry.conversations.answer_keys import WINDOW_ITEMS, AnswerKeys
from telemetry.conversations.continuation import Rule
from telemetry.conversations.keys import (
    AFTER,
    AFTER_BARE,
    BEGAN_WITH,
    CALL,
    CALL_ID,
    REQUEST,
    encode_id,
    find_scope,
    is_strong,
    name_response,
)
from telemetry.conversations.match import Match, have_one_name, leave_out_names
from telemetry.conversations.memory import MAX_CANDIDATES
from telemetry.conversations.sketch import is_alike, make_sketch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.call import Asked, Message
    from codec.history_items import HistoryItem, RequestItems
    from codec.history_states import Digests, States
    from telemetry.conversations.memory import Memory, Origin, RememberedCall

MAX_RETRY_NS: Final = 600_000_000_000
"""SDKs and people try again within seconds, or some minutes; who asks the same a day later begins
anew."""

MAX_LOOKED_BACK: Final = 16
"""Items at the end of a request among which a window is looked for: what follows it is new. As many
are looked at for ids, which results have as well as calls."""

_WITHOUT_IDS: Final = frozenset({Rule.STATE_NO_IDS, Rule.PREFIX, Rule.WINDOW})
"""Rules that do not look at the ids of calls."""


class ComparableRequest(NamedTuple):
    """A request as it is compared.

    Attributes:
        scope: of the call.
        strangers: the scope of the same upstream's callers that cannot be told apart; ``None``
            where nothing is looked for in it.
        system: a digest of its system messages.
        messages: its messages.
        items: of these.
        states: of its history.
    """

    scope: bytes
    strangers: bytes | None
    system: bytes
    messages: Sequence[Message]
    items: RequestItems
    states: States

    @property
    def history(self) -> Sequence[HistoryItem]:
        """All but the system messages."""
        return self.items.history


class Matcher:
    """Finds what requests go on from.

    Args:
        memory: the calls that are remembered.
        digests: by which they are.
    """

    def __init__(self, memory: Memory, digests: Digests) -> None:
        self._memory = memory
        self._digests = digests
        self._answers = AnswerKeys(digests)

    def match(
        self, asked: Asked, request: ComparableRequest, origin: Origin, start_ns: int
    ) -> Match | None:
        """Find what a request goes on from: the deepest match (rule 1); ``None`` for nothing.

        Args:
            asked: what was asked.
            request: the same, as it is compared.
            origin: of the call, with the name that its client gives.
            start_ns: when the call began.
        """
        history = request.history
        if history and (again := self._find_failed(request, origin, start_ns)) is not None:
            return again
        if (calls := self._find_named(asked, request)) or not history:
            return Match(0, Rule.RESPONSE_ID, calls) if calls else None
        if len(history) < WINDOW_ITEMS and all(map(_is_said_by_user, history)):
            # A first question: no answer is in it, and no window.
            return self._find_request(request, origin, start_ns, None)
        if not self._memory.strangers:  # as most of the time
            request = request._replace(strangers=None)
        found = self._find_state(Rule.STATE, AFTER, request, request.states.with_ids, None)
        found = self._find_call(request, found)
        bare = request.states.without_ids
        found = self._find_state(Rule.STATE_NO_IDS, AFTER_BARE, request, bare, found)
        if bare is not request.states.with_ids:
            # A client may have given ids to an answer that had none.
            found = self._find_state(Rule.STATE_NO_IDS, AFTER, request, bare, found)
        found = self._find_request(request, origin, start_ns, found)
        found = found or self._find_window(request, origin)
        return None if found is None else self._leave_out_others(found, request)

    def _find_named(self, asked: Asked, request: ComparableRequest) -> Sequence[RememberedCall]:
        """Find the call whose answer the request names; a stranger's only where those count."""
        if not asked.names_answers:  # as most APIs
            return ()
        named = asked.references.get("previous_response_id")
        calls = () if named is None else self._memory.find(name_response(named, request.scope))
        return [call for call in calls if request.strangers is not None or not call.is_stranger]

    def _find_failed(
        self, request: ComparableRequest, origin: Origin, start_ns: int
    ) -> Match | None:
        """Find the same request, if it failed and nobody asked again since (rule 6)."""
        calls = self._memory.find(REQUEST + request.scope + request.states.with_ids[-1])
        if not calls:
            return None
        last = next((call for call in reversed(calls) if have_one_name(call.origin, origin)), None)
        if last is None or last.failed_ns is None:  # as most of the time
            return None
        calls = [call for call in calls if have_one_name(call.origin, origin)]
        failed = [call for call in calls if _has_failed(call, start_ns) and not call.is_continued]
        if failed != [last] or last.system != request.system:
            return None
        return Match(len(request.history), Rule.RETRY, failed)

    def _find_state(
        self,
        rule: Rule,
        kind: bytes,
        request: ComparableRequest,
        states: Sequence[bytes],
        found: Match | None,
    ) -> Match | None:
        """Find the longest beginning that is all that was said up to the end of a call.

        Args:
            rule: by which it is found.
            kind: of the keys.
            request: the request.
            states: of its history, by one of the chains.
            found: the deepest match so far, which stays where none is deeper.
        """
        memory, prefix, strangers = self._memory, kind + request.scope, request.strangers
        known = 0 if found is None else found.depth
        for depth in range(len(states) - 1, known, -1):
            calls = memory.find(prefix + states[depth])
            if strangers is not None:
                calls = (*calls, *memory.find(kind + strangers + states[depth]))
            if calls:
                return Match(depth, rule, calls)
        return found

    def _find_call(self, request: ComparableRequest, found: Match | None) -> Match | None:
        """Find the answer that made the deepest call (rule 4), if it is deeper than what is found.

        It covers the history up to that call. Where results alone came, as after a response that is
        named, it covers what is before them.
        """
        history = request.history
        if request.states.with_ids is request.states.without_ids:
            return found  # there are no ids
        called = {item.id for item in history if item.kind == ItemKind.CALL}
        known = -1 if found is None else found.depth
        for depth in range(len(history), max(known, 0), -1):
            item = history[depth - 1]
            if item.id is None or not is_strong(item.id):
                continue
            if item.kind == ItemKind.CALL:
                calls, covered = self._find_answer(request, self._answers.key_of_call(item)), depth
            elif item.id not in called:
                calls, covered = self._find_id(request, item.id), depth - 1
            else:
                continue
            if len(calls) == 1 and covered > known:
                return Match(covered, Rule.TOOL_ID, calls)
        return found

    def _find_answer(self, request: ComparableRequest, call: bytes) -> Sequence[RememberedCall]:
        """Find the answers that made a call, strangers' among them."""
        calls = self._memory.find(CALL + request.scope + call)
        if request.strangers is None:
            return calls
        return (*calls, *self._memory.find(CALL + request.strangers + call))

    def _find_id(self, request: ComparableRequest, call_id: str) -> Sequence[RememberedCall]:
        """Find the answers that gave out an id, likewise."""
        scopes = {request.scope, request.strangers}
        calls = self._memory.find(CALL_ID + encode_id(call_id))
        return [call for call in calls if find_scope(call.keys) in scopes]

    def _find_request(
        self, request: ComparableRequest, origin: Origin, start_ns: int, found: Match | None
    ) -> Match | None:
        """Find the longest beginning that is an earlier request (rule 5), deeper than the rest.

        None that is shorter is looked for where an answer follows that is none of those to it.
        """
        history, prefix = request.history, REQUEST + request.scope
        known = 0 if found is None else found.depth
        for depth in range(len(history) - 1, known, -1):
            has_answer = history[depth].role == ASSISTANT
            if not has_answer and history[depth - 1].role == ASSISTANT:
                continue  # no request ends with an answer
            calls = self._memory.find(prefix + request.states.with_ids[depth])
            if not calls or not (calls := leave_out_names(calls, origin)):
                continue
            meant = self._choose_answered(calls, history[depth:]) if has_answer else ()
            if not meant:
                failed = [call for call in calls if _has_no_answer(call, start_ns)]
                meant = [call for call in failed if has_answer or call.failed_ns is not None]
            if meant:
                return Match(depth, Rule.PREFIX, meant)
            if has_answer:
                return found
        return found

    def _choose_answered(
        self, calls: Sequence[RememberedCall], rest: Sequence[HistoryItem]
    ) -> Sequence[RememberedCall]:
        """Choose the calls, all of one request, whose answer is what follows it."""
        called = {*self._answers.list_calls([*takewhile(_is_answered, rest)])}
        if same := [call for call in calls if called.intersection(_split(call.called))]:
            return same
        said = make_sketch(takewhile(_is_assistants, rest))
        return [call for call in calls if call.sketch and is_alike(call.sketch, said)]

    def _find_window(self, request: ComparableRequest, origin: Origin) -> Match | None:
        """Find a conversation of which something said lately comes again, the latest first."""
        history = request.history[-MAX_LOOKED_BACK:]
        items = [*map(self._digests.make_of_item, history)]
        before = len(request.history) - len(history)
        for at in range(len(items) - WINDOW_ITEMS, -1, -1):
            calls = self._memory.find(self._answers.key_of_window(items, at, request.scope))
            if calls and (calls := leave_out_names(calls, origin)):
                return Match(before + at + WINDOW_ITEMS, Rule.WINDOW, calls)
        return None

    def _leave_out_others(self, found: Match, request: ComparableRequest) -> Match:
        """Leave out calls of which the history says that they are another conversation's (rule 7).

        Where a request comes again, the answers behind it say so; what is in the request says
        nothing of who sent it.
        """
        if found.rule not in _WITHOUT_IDS:
            return found
        if found.rule is Rule.PREFIX:
            items = request.history[found.depth : found.depth + MAX_LOOKED_BACK]
        else:
            items = request.history[: -MAX_LOOKED_BACK - 1 : -1]
        for item in items:
            if item.id is not None and is_strong(item.id):
                call_id = encode_id(item.id)
                gave = self._memory.find(CALL_ID + call_id)
                if 0 < len(gave) < MAX_CANDIDATES:  # with more not all are known
                    calls = (*gave, *self._memory.find(BEGAN_WITH + call_id))
                    theirs = {call.conversation for call in calls}
                    left = [call for call in found.calls if call.conversation in theirs]
                    return found._replace(calls=left)
        return found


def _has_failed(call: RememberedCall, start_ns: int) -> bool:
    """Tell whether a call failed shortly before another one began."""
    return call.failed_ns is not None and 0 <= start_ns - call.failed_ns <= MAX_RETRY_NS


def _has_no_answer(call: RememberedCall, start_ns: int) -> bool:
    """Tell whether another answer may stand in the place of a call's: nobody continued it."""
    if call.failed_ns is None:
        return not call.sketch and not call.is_continued
    return start_ns - call.failed_ns <= MAX_RETRY_NS and not call.is_continued


def _split(digests: bytes) -> Iterator[bytes]:
    return (digests[at : at + STATE_BYTES] for at in range(0, len(digests), STATE_BYTES))


def _is_said_by_user(item: HistoryItem) -> bool:
    return item.role == USER


def _is_assistants(item: HistoryItem) -> bool:
    return item.role == ASSISTANT


def _is_answered(item: HistoryItem) -> bool:
    """Tell whether an item is an assistant's, or stands between its calls."""
    return item.role == ASSISTANT or item.kind == ItemKind.RESULT
