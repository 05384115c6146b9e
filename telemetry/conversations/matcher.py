"""Matching: the rules by which the call is found that another one continues.

``docs/contract/conversations.md#rules`` has the rules that users rely on; the methods here say how
each one works. The deepest match wins, that is the one that covers most of the history. Of equally
deep matches, a state with ids comes first, then a tool call, then a state without ids, and last a
request.

Content is compared only within a scope: the calls of one caller and one upstream (C6). The id of a
response may cross scopes if nobody else has that id. Among unknown callers only strong evidence is
compared (:mod:`telemetry.conversations.match`).

A match that leaves ids out may find a call that only looks the same, for example because a client
with several keys asks the same question with each. So it does not count if one of
:data:`MAX_LOOKED_BACK` items has a strong id that only answers of other conversations gave out, or
with which another conversation began.
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
    AFTER_FAILED,
    BEGAN_WITH,
    CALL,
    CALL_ID,
    REQUEST,
    encode_id,
    find_scope,
    is_strong,
    name_message,
    name_response,
)
from telemetry.conversations.match import Match, have_one_name, leave_out_names
from telemetry.conversations.memory import MAX_CANDIDATES
from telemetry.conversations.sketch import is_alike, make_sketch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.asked import Asked
    from codec.history_items import HistoryItem, RequestItems
    from codec.history_states import Digests, States
    from codec.parts import Message
    from telemetry.conversations.memory import Memory, Origin, RememberedCall

MAX_RETRY_NS: Final = 600_000_000_000
"""SDKs and people try again within seconds, or some minutes. The same question a day later begins a
new conversation."""

MAX_LOOKED_BACK: Final = 16
"""How many items at the end of a request are searched for a window; what follows it is new. As many
are searched for ids, which results have as well as calls."""

_WITHOUT_IDS: Final = frozenset({Rule.STATE_NO_IDS, Rule.PREFIX, Rule.WINDOW})
"""Rules that leave out the ids of tool calls."""


class ComparableRequest(NamedTuple):
    """A request in the form in which it is compared.

    Attributes:
        scope: the call's scope.
        strangers: the scope of unknown callers of the same upstream; ``None`` if it is not
            searched.
        system: a digest of the system messages.
        messages: the messages of the request.
        parsed: the same, with the calls and results in their texts parsed
            (:mod:`codec.observations`); `messages` itself if there are none.
        items: the items of these messages.
        states: the states of the history.
        is_whole: it has what was said before, even if it names an answer that it continues.
    """

    scope: bytes
    strangers: bytes | None
    system: bytes
    messages: Sequence[Message]
    parsed: Sequence[Message]
    items: RequestItems
    states: States
    is_whole: bool = False

    @property
    def has_text_tools(self) -> bool:
        """Whether there are such calls or results in the texts."""
        return self.parsed is not self.messages

    @property
    def history(self) -> Sequence[HistoryItem]:
        """All but the system messages."""
        return self.items.history


class Matcher:
    """Finds the calls that requests continue.

    Args:
        memory: the calls that are remembered.
        digests: makes the digests that their keys consist of.
    """

    def __init__(self, memory: Memory, digests: Digests) -> None:
        self._memory = memory
        self._digests = digests
        self._answers = AnswerKeys(digests)

    def match(
        self,
        asked: Asked,
        request: ComparableRequest,
        origin: Origin,
        start_ns: int,
        before: str | None = None,
    ) -> Match | None:
        """Find the deepest match of a request; ``None`` for nothing.

        A request without a history continues nothing, unless it names an answer.

        Args:
            asked: what was asked.
            request: the same, in the form in which it is compared.
            origin: that of the call, with the name that its client gives.
            start_ns: when the call began.
            before: the id of the answer that it continues, by the word of its program.
        """
        found = self._match(asked, request, origin, start_ns)
        if found is not None and found.rule is Rule.RETRY:
            return found
        calls = self._memory.find(name_message(before, request.scope)) if before else ()
        named = self._find_named(asked, request) if request.is_whole and not calls else ()
        calls = calls or named
        if not calls:
            return found
        both = [] if found is None else [call for call in found.calls if call in calls]
        if found is None or not both:
            return Match(0, Rule.RESPONSE_ID, calls)
        # Words say what is new. That it is this call, only the id can say of a stranger's.
        is_stranger = bool(named) and both[0].is_stranger
        return found._replace(calls=both, rule=Rule.RESPONSE_ID if is_stranger else found.rule)

    def _match(
        self, asked: Asked, request: ComparableRequest, origin: Origin, start_ns: int
    ) -> Match | None:
        history = request.history
        if history and (again := self._find_failed(request, origin, start_ns)) is not None:
            return again
        if not request.is_whole and (calls := self._find_named(asked, request)):
            return Match(0, Rule.RESPONSE_ID, calls)
        if not history:
            return None
        if len(history) < WINDOW_ITEMS and all(map(_is_said_by_user, history)):
            # A first question has no answer in it, and no window.
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
        if request.has_text_tools:
            found = self._find_failed_step(request, found)
        found = found or self._find_window(request, origin)
        return None if found is None else self._leave_out_others(found, request)

    def _find_named(self, asked: Asked, request: ComparableRequest) -> Sequence[RememberedCall]:
        """Find the call whose answer the request names; a stranger's only if those count."""
        if not asked.names_answers:  # as most APIs
            return ()
        named = asked.references.get("previous_response_id")
        calls = () if named is None else self._memory.find(name_response(named, request.scope))
        return [call for call in calls if request.strangers is not None or not call.is_stranger]

    def _find_failed(
        self, request: ComparableRequest, origin: Origin, start_ns: int
    ) -> Match | None:
        """Find the same request, if it failed and was not sent again since.

        It failed at most :data:`MAX_RETRY_NS` before this one began.
        """
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
        """Find the longest beginning that is everything that was said up to the end of a call.

        Args:
            rule: the rule of this match.
            kind: the kind of keys that are searched.
            request: the request.
            states: the states of its history, with ids or without.
            found: the deepest match so far. It is returned if no match is deeper.
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
        """Find the answer that made the deepest tool call, if that is deeper than `found`.

        The id must be strong, and only one answer may have made the call, with that name and these
        arguments. The match covers the history up to that call. If the results came alone, as after
        a response that is named, the id is enough, and the match covers what is before the results.
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
        """Find the answers that made a tool call, strangers' included."""
        calls = self._memory.find(CALL + request.scope + call)
        if request.strangers is None:
            return calls
        return (*calls, *self._memory.find(CALL + request.strangers + call))

    def _find_id(self, request: ComparableRequest, call_id: str) -> Sequence[RememberedCall]:
        """Find the answers that gave out the id of a tool call, strangers' included."""
        scopes = {request.scope, request.strangers}
        calls = self._memory.find(CALL_ID + encode_id(call_id))
        return [call for call in calls if find_scope(call.keys) in scopes]

    def _find_request(
        self, request: ComparableRequest, origin: Origin, start_ns: int, found: Match | None
    ) -> Match | None:
        """Find the longest beginning that is an earlier request and deeper than `found`.

        What follows it must be that call's answer, perhaps rewritten. If the call failed within
        :data:`MAX_RETRY_NS`, and nobody continued it, anything may follow. The search ends at a
        request whose answers all differ from the one that follows.
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

    def _find_failed_step(self, request: ComparableRequest, found: Match | None) -> Match | None:
        """Find the answer whose tool failed, if that is deeper than `found`.

        smolagents repeats what the answer said, without its calls, and the error follows.
        """
        history, states = request.history, request.states.with_ids
        known = 0 if found is None else found.depth
        for depth in range(len(history) - 1, known, -1):
            if history[depth].kind != ItemKind.RESULT or history[depth].id is not None:
                continue
            calls = self._memory.find(AFTER_FAILED + request.scope + states[depth])
            if request.strangers is not None:
                strangers = AFTER_FAILED + request.strangers + states[depth]
                calls = (*calls, *self._memory.find(strangers))
            if calls:
                return Match(depth, Rule.PREFIX, calls)
        return found

    def _choose_answered(
        self, calls: Sequence[RememberedCall], rest: Sequence[HistoryItem]
    ) -> Sequence[RememberedCall]:
        """Choose those calls of one request whose answer is what follows the request.

        The tool calls that the answer made are enough, whatever was said beside them: clients take
        out thoughts that came as text. Else the text must resemble the answer
        (:mod:`telemetry.conversations.sketch`).
        """
        called = {*self._answers.list_calls([*takewhile(_is_answered, rest)])}
        if same := [call for call in calls if called.intersection(_split(call.called))]:
            return same
        said = make_sketch(takewhile(_is_assistants, rest))
        return [call for call in calls if call.sketch and is_alike(call.sketch, said)]

    def _find_window(self, request: ComparableRequest, origin: Origin) -> Match | None:
        """Find a conversation of which something that was said lately comes again, latest first."""
        history = request.history[-MAX_LOOKED_BACK:]
        items = [*map(self._digests.make_of_item, history)]
        before = len(request.history) - len(history)
        for at in range(len(items) - WINDOW_ITEMS, -1, -1):
            calls = self._memory.find(self._answers.key_of_window(items, at, request.scope))
            if calls and (calls := leave_out_names(calls, origin)):
                return Match(before + at + WINDOW_ITEMS, Rule.WINDOW, calls)
        return None

    def _leave_out_others(self, found: Match, request: ComparableRequest) -> Match:
        """Leave out calls that the ids in the history show to be of another conversation.

        If an earlier request comes again, only the answers after it count: what is in the request
        says nothing about its sender.
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
                if 0 < len(gave) < MAX_CANDIDATES:  # if there are more, some are not known
                    calls = (*gave, *self._memory.find(BEGAN_WITH + call_id))
                    theirs = {call.conversation for call in calls}
                    left = [call for call in found.calls if call.conversation in theirs]
                    return found._replace(calls=left)
        return found


def _has_failed(call: RememberedCall, start_ns: int) -> bool:
    """Tell whether a call failed shortly before another one began."""
    return call.failed_ns is not None and 0 <= start_ns - call.failed_ns <= MAX_RETRY_NS


def _has_no_answer(call: RememberedCall, start_ns: int) -> bool:
    """Tell whether another answer may replace that of a call, which nobody continued."""
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
    """Tell whether an item is an assistant's, or a result between its tool calls."""
    return item.role == ASSISTANT or item.kind == ItemKind.RESULT
