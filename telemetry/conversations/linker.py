"""Linking: the rules by which the call is found that another one goes on from.

Rules (``page-and-conversations.md`` 1.4):

1. The deepest match wins: the one that covers most of the history. Of equally deep ones a state is
   better than a tool's call, that better than a state without ids, and a request is the last.
2. Content is compared within a scope alone: the same caller and upstream (C6). The id of a response
   may cross scopes where it is nobody else's. Of callers that cannot be told apart only what is
   strong is compared (:mod:`telemetry.conversations.strangers`).
3. Of several calls that may be meant, those that nobody continued are taken; where not one alone is
   left, none is: never a coin toss. Where clients name conversations, one of the same name comes
   first; what has another name is never gone on from because it is alike, nor in its run.
4. A tool's call counts where its id is strong (:func:`~telemetry.conversations.keys.is_strong`) and
   one answer alone gave it out, with that name and these arguments.
5. An earlier request counts where an assistant's unit follows it that is like the answer
   (:mod:`telemetry.conversations.sketch`).
6. The same request again, begun within :data:`MAX_RETRY_NS` of the end of one that failed, is a
   retry of it. A request without a history is nobody's.
7. What was linked stays: a call that comes later than its successor is not found.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from codec.history_states import START, Digests
from codec.units import ASSISTANT, MAX_UNITS, USER, UnitKind, list_units, read_units
from telemetry.conversations.answer_keys import WINDOW_UNITS, AnswerKeys
from telemetry.conversations.keys import (
    AFTER,
    AFTER_BARE,
    CALL,
    CALL_ID,
    NO_SCOPE,
    REQUEST,
    WINDOW,
    encode_id,
    is_strong,
    name_response,
)
from telemetry.conversations.link import Link, Rule
from telemetry.conversations.match import Match, choose, have_other_names
from telemetry.conversations.memory import Memory, Origin, RememberedCall
from telemetry.conversations.sketch import is_alike, make_sketch
from telemetry.conversations.strangers import adopt, count_told, make_stranger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.call import Asked, Message, Said
    from codec.history_states import States
    from codec.units import Unit, Units

__all__ = ("Linker", "Told")

MAX_CHOICES: Final = 8
"""Choices of an answer that a client may go on with."""

MAX_RETRY_NS: Final = 600_000_000_000
"""SDKs and people try again within seconds, or some minutes; who asks the same a day later begins
anew."""

MAX_SYSTEMS: Final = 1_024
"""Digests of system messages that are kept once."""

MAX_LOOKED_BACK: Final = 16
"""Units at the end of a request among which a window is looked for: what follows it is new."""


class Told(NamedTuple):
    """A request as it is compared.

    Attributes:
        scope: of the call.
        strangers: the scope of the same upstream's callers that cannot be told apart; ``None``
            where nothing is looked for in it.
        system: a digest of its system messages.
        messages: its messages.
        units: of these.
        states: of its history.
    """

    scope: bytes
    strangers: bytes | None
    system: bytes
    messages: Sequence[Message]
    units: Units
    states: States

    @property
    def history(self) -> Sequence[Unit]:
        """All but the system messages."""
        return self.units.history


class Linker:
    """Finds the call that another one goes on from, and remembers each for those that come.

    Args:
        key: of all digests (:class:`codec.history_states.Digests`).
        memory: what is remembered.

    Attributes:
        memory: the same; an own one where none was given.
        remembered: the call that was remembered last.
    """

    def __init__(self, key: bytes, memory: Memory | None = None) -> None:
        self._digests = Digests(key)
        self._answers = AnswerKeys(self._digests)
        self._systems: dict[bytes, bytes] = {}
        self.memory = Memory() if memory is None else memory
        self.remembered: RememberedCall | None = None

    def link(
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
        told: Told | None = None,
    ) -> Link:
        """Link a call that has ended, and remember it.

        Args:
            number: of the call, greater than those before it.
            asked: what was asked.
            said: what was said, as far as it came.
            origin: what spans tell of the call.
            scope: as :meth:`tell` has it, and so are the strangers.
            strangers: likewise.
            start_ns: when the call began.
            end_ns: when it ended.
            failed: it broke off, or has an error: the same request again is a retry of it.
            told: the request, where :meth:`tell` has read it already.
        """
        told = self.tell(asked, scope, strangers) if told is None else told
        if told is None:
            return Link(rule=Rule.NEW, call=number, conversation=number, origin=origin)
        windows: list[bytes] = []
        match = self._match(asked, told, start_ns)
        call, is_ambiguous = (None, False) if match is None else choose(match, origin)
        if match is None or call is None:
            link = Link(
                rule=Rule.NEW,
                call=number,
                conversation=number,
                origin=origin,
                is_ambiguous=is_ambiguous,
                new_units=len(told.history),
            )
        else:
            link = _go_on(number, origin, match, call, told)
            if not have_other_names(call.origin, origin):
                windows = self._note_successor(call, told)
        failed_ns = end_ns if failed else None
        self._remember(link, told, asked, said, call, windows=windows, failed_ns=failed_ns)
        return link

    def tell(
        self, asked: Asked, scope: bytes | None, strangers: bytes | None = None
    ) -> Told | None:
        """Read a request as it is compared; ``None`` for one that is not to be compared.

        Args:
            asked: what was asked.
            scope: caller and upstream, in :data:`~telemetry.conversations.keys.SCOPE_BYTES`
                (rule 2); ``None`` where the caller cannot be told.
            strangers: the upstream alone, likewise: the scope of all whose caller cannot be told;
                ``None`` where the call has nothing to do with them.
        """
        messages = asked.read_messages()
        if len(messages) > MAX_UNITS or (scope is None and strangers is None):
            return None
        messages = [*messages]  # read once, for all who ask
        units = read_units(messages)
        if units is None:
            return None
        states = self._digests.go_on(START, units.history)
        system = self._digests.make_of_text(units.system)
        if len(self._systems) >= MAX_SYSTEMS:
            self._systems.clear()
        # The same object for all calls of a program.
        system = self._systems.setdefault(system, system)
        return Told(scope or NO_SCOPE, strangers, system, messages, units, states)

    def _match(self, asked: Asked, told: Told, start_ns: int) -> Match | None:
        """Find what a request goes on from: the deepest match (rule 1)."""
        named = asked.references.get("previous_response_id")
        if named is not None and (calls := self.memory.find(name_response(named, told.scope))):
            return Match(0, Rule.RESPONSE_ID, calls)
        history = told.history
        if not history:
            return None
        if (again := self._find_failed(told, start_ns)) is not None:
            return again
        if len(history) < WINDOW_UNITS and all(map(_is_said_by_user, history)):
            return None  # a first question: no answer is in it, and no window
        if not self.memory.strangers:  # as most of the time
            told = told._replace(strangers=None)
        found = self._find_state(Rule.STATE, AFTER, told, told.states.with_ids, None)
        found = self._find_call(told, found)
        bare = told.states.without_ids
        found = self._find_state(Rule.STATE_NO_IDS, AFTER_BARE, told, bare, found)
        if bare is not told.states.with_ids:  # an answer without ids, to which a client gave some
            found = self._find_state(Rule.STATE_NO_IDS, AFTER, told, bare, found)
        return self._find_request(told, found) or self._find_window(told)

    def _find_failed(self, told: Told, start_ns: int) -> Match | None:
        """Find the same request, if it failed and nobody asked again since (rule 6)."""
        calls = self.memory.find(REQUEST + told.scope + told.states.with_ids[-1])
        last = calls[-1] if calls else None
        if last is None or last.failed_ns is None or last.system != told.system:
            return None
        if not 0 <= start_ns - last.failed_ns <= MAX_RETRY_NS:
            return None
        return Match(len(told.history), Rule.RETRY, (last,))

    def _find_state(
        self,
        rule: Rule,
        kind: bytes,
        told: Told,
        states: Sequence[bytes],
        found: Match | None,
    ) -> Match | None:
        """Find the longest beginning that is all that was said up to the end of a call.

        Args:
            rule: by which it is found.
            kind: of the keys.
            told: the request.
            states: of its history, by one of the chains.
            found: the deepest match so far, which stays where none is deeper.
        """
        memory, prefix, strangers = self.memory, kind + told.scope, told.strangers
        known = 0 if found is None else found.depth
        for depth in range(len(states) - 1, known, -1):
            calls = memory.find(prefix + states[depth])
            if strangers is not None:
                calls = (*calls, *memory.find(kind + strangers + states[depth]))
            if calls:
                return Match(depth, rule, calls)
        return found

    def _find_call(self, told: Told, found: Match | None) -> Match | None:
        """Find the answer that made the deepest call (rule 4), if it is deeper than what is found.

        It covers the history up to that call. Where results alone came, as after a response that is
        named, it covers what is before them.
        """
        history = told.history
        if told.states.with_ids is told.states.without_ids:
            return found  # there are no ids
        called = {unit.id for unit in history if unit.kind == UnitKind.CALL}
        known = -1 if found is None else found.depth
        for depth in range(len(history), max(known, 0), -1):
            unit = history[depth - 1]
            if unit.id is None or not is_strong(unit.id):
                continue
            if unit.kind == UnitKind.CALL:
                calls, covered = (
                    self._find_answer(CALL, told, self._answers.key_of_call(unit)),
                    depth,
                )
            elif unit.id not in called:
                calls = self._find_answer(CALL_ID, told, encode_id(unit.id))
                covered = depth - 1
            else:
                continue
            if len(calls) == 1 and covered > known:
                return Match(covered, Rule.TOOL_ID, calls)
        return found

    def _find_answer(self, kind: bytes, told: Told, call: bytes) -> Sequence[RememberedCall]:
        """Find the answers that made a call; those of strangers where no other did."""
        calls = self.memory.find(kind + told.scope + call)
        if not calls and told.strangers is not None:
            calls = self.memory.find(kind + told.strangers + call)
        return calls

    def _find_request(self, told: Told, found: Match | None) -> Match | None:
        """Find the longest beginning that is an earlier request (rule 5), deeper than the rest."""
        history, prefix = told.history, REQUEST + told.scope
        known = 0 if found is None else found.depth
        for depth in range(len(history) - 1, known, -1):
            if history[depth].role != ASSISTANT:
                continue
            if calls := self.memory.find(prefix + told.states.with_ids[depth]):
                said = make_sketch(takewhile(_is_assistants, history[depth:]))
                # In the place of an answer that failed there can be one other.
                left = [call for call in calls if call.sketch or not call.is_continued]
                alike = [call for call in left if is_alike(call.sketch, said)]
                return Match(depth, Rule.PREFIX, alike) if alike else found
        return found

    def _find_window(self, told: Told) -> Match | None:
        """Find a conversation of which something said lately comes again, the latest first."""
        history = told.history[-MAX_LOOKED_BACK:]
        units = [*map(self._digests.make_of_unit, history)]
        before = len(told.history) - len(history)
        for at in range(len(units) - WINDOW_UNITS, -1, -1):
            if calls := self.memory.find(self._answers.key_of_window(units, at, told.scope)):
                return Match(before + at + WINDOW_UNITS, Rule.WINDOW, calls)
        return None

    def _note_successor(self, call: RememberedCall, told: Told) -> list[bytes]:
        """Note that a call was continued: its end is no longer that of its conversation.

        Returns the windows by which it is found no longer.
        """
        if call.is_stranger and told.scope is not NO_SCOPE:
            adopt(self.memory, call, told.scope)
        call.is_continued = True
        call.unmarked_ns = None
        self.memory.keep(call)
        windows = [key for key in call.keys if key.startswith(WINDOW)]
        self.memory.drop(call, windows)
        return windows

    def _remember(
        self,
        link: Link,
        told: Told,
        asked: Asked,
        said: Said | None,
        before: RememberedCall | None,
        *,
        windows: Sequence[bytes],
        failed_ns: int | None,
    ) -> None:
        answers = [] if said is None else _list_answers(said)
        history, states, scope = told.history, told.states, told.scope
        keys = [REQUEST + scope + states.with_ids[-1]] if history else []
        if answers and asked.names_answers and said is not None and said.id is not None:
            keys.append(name_response(said.id, scope))
        for units in answers:
            if units:
                keys += self._answers.list_keys(units, history, states, scope)
        if not any(answers):
            keys += windows  # the history was too long, perhaps, and is cut now
        self.remembered = call = RememberedCall(
            number=link.call,
            conversation=link.conversation,
            turn=link.turn,
            depth=link.depth,
            origin=link.origin,
            system=told.system,
            failed_ns=failed_ns,
            sketch=make_sketch([unit for units in answers for unit in units]),
            keys=tuple(dict.fromkeys(keys)),
        )
        count_told(call, before)
        if scope is NO_SCOPE and told.strangers is not None:
            make_stranger(call, told.strangers)
        self.memory.add(call)


def _go_on(number: int, origin: Origin, match: Match, call: RememberedCall, told: Told) -> Link:
    """Link a call to the one that it goes on from."""
    new = told.history[match.depth :]
    asks = any(map(_is_users, new))
    run = None if have_other_names(call.origin, origin) else call.run
    if origin.session is None:  # it is that of the conversation, named after its first span
        before = call.origin
        session = before.session or f"conv-{before.span_id}"
        origin = origin._replace(session=session, source=before.source)
    return Link(
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
        system_changed=call.system != told.system,
        run=run,
        unmarked_ns=call.unmarked_ns,
        is_sampled=call.is_sampled,
        new_units=len(new),
    )


def _list_answers(said: Said) -> list[list[Unit]]:
    """List the units of each choice of an answer: a client goes on with one of them."""
    answers = said.answers
    if len(answers) == 1:  # as most of the time
        return [list_units(answers[0].message)]
    choices = said.choices_of_answers
    if len(choices) == 1:  # in several messages, as items are
        return [[unit for answer in answers for unit in list_units(answer.message)]]
    return [list_units(choice.message) for choice in choices[:MAX_CHOICES]]


def _is_users(unit: Unit) -> bool:
    return unit.role == USER and unit.kind == UnitKind.TEXT


def _is_said_by_user(unit: Unit) -> bool:
    return unit.role == USER


def _is_assistants(unit: Unit) -> bool:
    return unit.role == ASSISTANT
