"""Finds the call that another one continues, and remembers each call for later ones.

This happens once, in the order in which calls end. A call that ends after its successor is not
found any more (C3). :mod:`telemetry.conversations.matcher` has the rules.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from codec.history_items import (
    MAX_HISTORY_ITEMS,
    USER,
    ItemKind,
    list_history_items,
    read_history_items,
)
from codec.history_states import START, Digests
from codec.observations import PROMPT_FOR_PLAN, find_own_prompt, read_observations, repeat_answer
from telemetry.conversations.answer_keys import MAX_TOOL_CALLS, AnswerKeys
from telemetry.conversations.continuation import Continuation, Rule
from telemetry.conversations.keys import (
    BEGAN_WITH,
    CALL_ID,
    NO_SCOPE,
    REQUEST,
    WINDOW,
    encode_id,
    find_scope,
    is_strong,
    name_message,
    name_response,
)
from telemetry.conversations.match import (
    adopt,
    choose,
    count_distinctive,
    have_other_names,
    make_stranger,
)
from telemetry.conversations.matcher import ComparableRequest, Matcher
from telemetry.conversations.memory import Memory, Origin, RememberedCall
from telemetry.conversations.sketch import make_sketch
from telemetry.conversations.steps import find_code_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.asked import Asked
    from codec.history_items import HistoryItem
    from codec.said import Said
    from telemetry.conversations.match import Match
    from telemetry.observing.agent_ids import AgentIds

MAX_CHOICES: Final = 8
"""How many choices of an answer a client may continue."""

MAX_SYSTEMS: Final = 1_024
"""How many digests of system messages are shared between calls."""


class ContinuationFinder:
    """Finds the call that another one continues. Not safe for concurrent calls.

    Args:
        key: the key of all digests (:class:`codec.history_states.Digests`).
        memory: the remembered calls; none where not given.

    Attributes:
        memory: the remembered calls.
        remembered: the call that was remembered last.
    """

    def __init__(self, key: bytes, memory: Memory | None = None) -> None:
        self._digests = Digests(key)
        self._answers = AnswerKeys(self._digests)
        self._systems: dict[bytes, bytes] = {}
        self.memory = Memory() if memory is None else memory
        self._matcher = Matcher(self.memory, self._digests)
        self.remembered: RememberedCall | None = None

    def find(
        self,
        number: int,
        asked: Asked,
        said: Said | None,
        *,
        origin: Origin,
        scope: bytes | None = None,
        strangers: bytes | None = None,
        start_ns: int,
        end_ns: int,
        failed: bool = False,
        request: ComparableRequest | None = None,
        ids: AgentIds | None = None,
        is_aside: bool = False,
    ) -> Continuation:
        """Find what a call that has ended continues, and remember the call.

        Args:
            number: the number of the call, greater than all before.
            asked: what was asked.
            said: what was answered, as far as it came.
            origin: what the call's span says.
            scope: see :meth:`read_request`.
            strangers: see :meth:`read_request`.
            start_ns: when the call began.
            end_ns: when it ended.
            failed: it broke off or has an error, so that the same request again is a retry.
            request: the request, if :meth:`read_request` has read it already.
            ids: what the program says of its agent.
            is_aside: it is a helper call, so the call before will be continued once more.
        """
        request = self.read_request(asked, scope, strangers) if request is None else request
        if request is None:
            return Continuation(rule=Rule.NEW, call=number, conversation=number, origin=origin)
        before = None if ids is None else ids.before
        match = self._matcher.match(asked, request, origin, start_ns, before)
        call, is_ambiguous = (None, False) if match is None else choose(match, origin)
        if match is None or call is None:
            continuation = Continuation(
                rule=Rule.NEW,
                call=number,
                conversation=number,
                origin=origin,
                is_ambiguous=is_ambiguous,
                new_items=len(request.history),
            )
        else:
            continuation = _continue(number, origin, match, call, request)
        if call is None or have_other_names(call.origin, origin):
            more_keys = self._list_others_ids(request)
        else:
            # The step after a plan continues from where the plan did.
            is_aside = is_aside or (
                request.has_text_tools and find_own_prompt(request.parsed) == PROMPT_FOR_PLAN
            )
            more_keys = self._note_successor(call, request, failed=failed or is_aside)
        failed_ns = end_ns if failed else None
        if before is not None and said is not None and said.id is not None:
            more_keys = [*more_keys, name_message(said.id, request.scope)]
        self._remember(
            continuation, request, asked, said, call, more_keys=more_keys, failed_ns=failed_ns
        )
        return continuation

    def keep_turn(self, continuation: Continuation) -> Continuation:
        """Return the continuation of the call that was remembered last, without a new turn."""
        turn = continuation.turn - 1
        call = self.remembered
        if call is not None and call.number == continuation.call:
            call.turn = turn
        return replace(continuation, begins_turn=False, turn=turn)

    def read_request(
        self,
        asked: Asked,
        scope: bytes | None,
        strangers: bytes | None = None,
        *,
        is_whole: bool = False,
    ) -> ComparableRequest | None:
        """Read a request in the form in which it is compared; ``None`` if it is not compared.

        Args:
            asked: what was asked.
            scope: a digest of caller and upstream, of
                :data:`~telemetry.conversations.keys.SCOPE_BYTES` bytes; ``None`` for an unknown
                caller.
            strangers: a digest of the upstream, of as many bytes: the scope of all unknown callers;
                ``None`` if the call is not compared with theirs.
            is_whole: it has what was said before, even if it names an answer that it continues.
        """
        messages = asked.read_messages()
        if len(messages) > MAX_HISTORY_ITEMS or (scope is None and strangers is None):
            return None
        messages = [*messages]  # read once, for all uses
        parsed = read_observations(messages)
        items = read_history_items(parsed)
        if items is None:
            return None
        start = START if is_whole else self._find_start(asked)
        states = self._digests.go_on(start, items.history)
        system = self._digests.make_of_text(items.system)
        if len(self._systems) >= MAX_SYSTEMS:
            self._systems.clear()
        # All calls of a program share one object.
        system = self._systems.setdefault(system, system)
        scope = scope or NO_SCOPE
        return ComparableRequest(
            scope, strangers, system, messages, parsed, items, states, is_whole
        )

    def _find_start(self, asked: Asked) -> tuple[bytes, bytes]:
        """Find the states before a history.

        If the provider adds what was said before, the states begin with the name of that. So the
        content is compared only with requests that name the same.
        """
        if not asked.names_answers:  # as most APIs
            return START
        response, conversation = asked.references.get("previous_response_id"), asked.conversation_id
        if response is None and conversation is None:
            return START
        state = self._digests.make_of_text(f"{response or ''}\0{conversation or ''}")
        return state, state

    def _note_successor(
        self, call: RememberedCall, request: ComparableRequest, *, failed: bool
    ) -> list[bytes]:
        """Note that a call was continued, so that its end is no longer the conversation's end.

        A successor that `failed`, or a plan, does not count yet: its client will continue from
        there once more, with the same request or a shorter one.

        Returns:
            The windows by which the call is no longer found.
        """
        is_here = find_scope(call.keys) in {request.strangers, NO_SCOPE}  # not another upstream's
        if call.is_stranger and is_here and request.scope is not NO_SCOPE:
            adopt(self.memory, call, request.scope)
        call.is_continued = call.is_continued or not failed or call.failed_ns is not None
        if not failed and call.root is not None:
            call.root.is_continued = True
        call.unmarked_ns = None
        self.memory.keep(call)
        windows = [key for key in call.keys if key.startswith(WINDOW)]
        self.memory.drop(call, windows)
        return windows

    def _list_others_ids(self, request: ComparableRequest) -> list[bytes]:
        """List keys of tool calls that other conversations made and this one begins with."""
        if request.states.with_ids is request.states.without_ids:
            return []  # there are no ids
        ids = [item.id for item in request.history[-MAX_TOOL_CALLS:] if item.id is not None]
        given = [encode_id(one) for one in ids if is_strong(one)]
        return [BEGAN_WITH + one for one in given if self.memory.find(CALL_ID + one)]

    def _remember(
        self,
        continuation: Continuation,
        request: ComparableRequest,
        asked: Asked,
        said: Said | None,
        before: RememberedCall | None,
        *,
        more_keys: Sequence[bytes],
        failed_ns: int | None,
    ) -> None:
        answers = [] if said is None else _list_answers(asked, said, request)
        history, states, scope = request.history, request.states, request.scope
        keys = [REQUEST + scope + states.with_ids[-1]] if history else []
        if answers and asked.names_answers and said is not None and said.id is not None:
            keys.append(name_response(said.id, scope))
        for items in answers:
            if items:
                keys += self._answers.list_keys(items, history, states, scope)
            if items and request.has_text_tools:
                keys += self._answers.list_failed_keys(items, states, scope)
        if more_keys:
            said_nothing = not any(answers)  # perhaps the history was too long, and is cut next
            keys += [key for key in more_keys if said_nothing or not key.startswith(WINDOW)]
        self.remembered = call = RememberedCall(
            number=continuation.call,
            conversation=continuation.conversation,
            turn=continuation.turn,
            depth=continuation.depth,
            origin=continuation.origin,
            system=request.system,
            failed_ns=failed_ns,
            sketch=make_sketch(chain.from_iterable(answers)),
            called=b"".join(map(self._answers.digest_calls, answers)),
            keys=tuple(dict.fromkeys(keys)),
        )
        if failed_ns is not None and before is not None:
            call.root = before if before.failed_ns is None else before.root
        count_distinctive(call, before)
        if scope is NO_SCOPE and request.strangers is not None:
            make_stranger(call, request.strangers)
        self.memory.add(call)


def _continue(
    number: int, origin: Origin, match: Match, call: RememberedCall, request: ComparableRequest
) -> Continuation:
    """Make the continuation of a call that was found."""
    new = request.history[match.depth :]
    asks = any(map(_is_users, new))
    run = None if have_other_names(call.origin, origin) else call.run
    if origin.session is None:  # then it is the conversation's, named after its first span
        before = call.origin
        session = before.session or f"conv-{before.span_id}"
        origin = origin._replace(session=session, source=before.source)
    return Continuation(
        rule=match.rule,
        call=number,
        conversation=call.conversation,
        turn=call.turn + asks,
        depth=call.depth + (match.rule is not Rule.RETRY),
        origin=origin,
        predecessor=call.number,
        before=call.origin,
        begins_turn=asks,
        is_fork=call.is_continued,
        system_changed=call.system != request.system,
        run=run,
        unmarked_ns=call.unmarked_ns,
        is_sampled=call.is_sampled,
        new_items=len(new),
    )


def _list_answers(asked: Asked, said: Said, request: ComparableRequest) -> list[list[HistoryItem]]:
    """List the items of each choice of an answer: a client continues one of them."""
    answers = said.answers
    if len(answers) == 1:  # as most of the time
        message = answers[0].message
        if request.has_text_tools:
            call = find_code_call(asked, request.parsed, said)
            message = repeat_answer(message, *([] if call is None else [call]))
        return [list_history_items(message)]
    choices = said.choices_of_answers
    if len(choices) == 1:  # in several messages, as the Responses API has them
        return [[item for answer in answers for item in list_history_items(answer.message)]]
    return [list_history_items(choice.message) for choice in choices[:MAX_CHOICES]]


def _is_users(item: HistoryItem) -> bool:
    return item.role == USER and item.kind == ItemKind.TEXT
