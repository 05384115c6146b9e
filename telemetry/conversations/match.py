"""A match: what a rule found, and which of the calls is meant; strangers' calls need more.

Strangers are calls whose callers cannot be told apart. What tells callers apart is in memory alone
(C6), so after a restart nobody knows whose the calls are that were recorded before it, nor those
that waited in the spool.

Rules (``docs/contract/conversations.md#strangers``):

1. A stranger's call is found by what two callers do not share: a strong id of a tool's call, with
   the same name and arguments; a strong id of a response; or a state that is telling. Never by its
   request, by a window or as a retry.
2. A state is telling where the answers of the conversation have :data:`MIN_TELLING_WORDS` words, or
   a strong id, if ids are compared. Two callers get the same short answers; and what a client alone
   has said, such as examples, counts nothing.
3. A stranger's call is never chosen among several. One that nobody went on from keeps others from
   being chosen: the caller's own of the same state may be another chat that is alike.
4. A state that is not telling, found alone, leaves the call without a predecessor: what is less
   deep would be another's.
5. Once a call whose caller is known goes on from a stranger's, that one is its caller's, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry.conversations.continuation import Rule
from telemetry.conversations.keys import CALL_ID, choose_for_strangers, move_key
from telemetry.conversations.sketch import WORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telemetry.conversations.memory import Memory, Origin, RememberedCall

MIN_TELLING_WORDS: Final = 16
"""Words of answers by which a conversation is told from others: as many as a sketch has. A greeting
has seven."""

MAX_COUNTED_WORDS: Final = 255

_BY_STRONG_IDS: Final = frozenset({Rule.RESPONSE_ID, Rule.TOOL_ID})


class Match(NamedTuple):
    """What a rule found.

    Attributes:
        depth: how many items of the history it covers.
        rule: which one.
        calls: those that may be meant.
    """

    depth: int
    rule: Rule
    calls: Sequence[RememberedCall]


def choose(match: Match, origin: Origin) -> tuple[RememberedCall | None, bool]:
    """Choose the call that is meant, never by a coin toss; tell whether several may be.

    Of several it is the one that nobody continued yet, if that is one alone, and the caller's own.
    A stranger's that is found alone has to be telling, and so has one whose conversation has
    another name. Those come first whose conversation has the name that the client gives this one,
    or none as well.

    Args:
        match: what was found.
        origin: of the call that goes on, with the name that its client gives.
    """
    calls = leave_out_names(match.calls, origin)
    if not calls:
        calls = [call for call in match.calls if _is_telling(call, match.rule)]
    calls = [call for call in calls if have_one_name(call.origin, origin)] or calls
    if not calls:
        return None, False
    if len(calls) == 1:
        is_meant = not calls[0].is_stranger or _is_telling(calls[0], match.rule)
        return (calls[0] if is_meant else None), False
    left = [call for call in calls if not call.is_continued]
    if len(left) == 1 and not left[0].is_stranger:
        return left[0], False
    return None, True


def leave_out_names(calls: Sequence[RememberedCall], origin: Origin) -> list[RememberedCall]:
    """Leave out the calls whose conversation has another name than the client gives this one."""
    return [call for call in calls if not have_other_names(call.origin, origin)]


def have_other_names(one: Origin, other: Origin) -> bool:
    """Tell whether clients name the conversations of both calls, and not alike."""
    return not have_one_name(one, other) and None not in {_find_name(one), _find_name(other)}


def have_one_name(one: Origin, other: Origin) -> bool:
    """Tell whether clients give the conversations of both calls one name, or none."""
    return _find_name(one) == _find_name(other)


def _find_name(origin: Origin) -> str | None:
    """Find how the client names the conversation of a call."""
    return None if origin.source == "inferred" else origin.session


def count_told(call: RememberedCall, before: RememberedCall | None) -> None:
    """Count what the answers of a conversation have that is telling, up to that of a call."""
    words = len(call.sketch) // WORD_BYTES
    call.gave_ids = CALL_ID in [key[:1] for key in call.keys]
    if before is not None:
        words += before.words
        call.gave_ids = call.gave_ids or before.gave_ids
    call.words = min(words, MAX_COUNTED_WORDS)


def make_stranger(call: RememberedCall, strangers: bytes) -> None:
    """Leave a call, not yet remembered, the keys that count for a stranger's (rule 1)."""
    call.is_stranger = True
    call.keys = tuple([move_key(key, strangers) for key in choose_for_strangers(call.keys)])


def _is_telling(call: RememberedCall, rule: Rule) -> bool:
    """Tell whether a call that a rule found cannot be one that is alike (rules 1 and 2)."""
    if rule in _BY_STRONG_IDS:
        return True
    return call.words >= MIN_TELLING_WORDS or (call.gave_ids and rule is Rule.STATE)


def adopt(memory: Memory, call: RememberedCall, scope: bytes) -> None:
    """Remember a stranger's call as one of a caller that is known (rule 5)."""
    memory.adopt(call, tuple([move_key(key, scope) for key in call.keys]))
