"""A match: the calls that a rule found, and the choice of the one that is meant.

Strangers are calls whose callers are unknown. What tells callers apart is in memory alone (C6). So
after a restart nobody knows the callers of the calls that were recorded before, nor of those that
waited in the spool. Strangers' calls need stronger evidence
(``docs/contract/conversations.md#strangers``), because two callers may ask the same and get the
same short answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry.conversations.continuation import Rule
from telemetry.conversations.keys import CALL_ID, choose_for_strangers, move_key
from telemetry.conversations.sketch import WORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telemetry.conversations.memory import Memory, Origin, RememberedCall

MIN_DISTINCTIVE_WORDS: Final = 16
"""How many words of answers make a conversation distinctive: as many as a sketch has. A greeting
has seven."""

MAX_COUNTED_WORDS: Final = 255

_BY_STRONG_IDS: Final = frozenset({Rule.RESPONSE_ID, Rule.TOOL_ID})


class Match(NamedTuple):
    """What a rule found.

    Attributes:
        depth: how many items of the history the rule covers.
        rule: the rule.
        calls: the calls that may be meant.
    """

    depth: int
    rule: Rule
    calls: Sequence[RememberedCall]


def choose(match: Match, origin: Origin) -> tuple[RememberedCall | None, bool]:
    """Choose the call that is meant, never by a coin toss.

    Calls whose conversation has the name that the client gives this one, or none as well, come
    first. Of several calls the one is meant that nobody continued yet, if it is the only such call
    and the caller's own. A stranger's call is never chosen among several. One that nobody continued
    keeps the others from being chosen, because the caller's own call with the same state may belong
    to another chat that looks the same.

    A stranger's call that is found alone must be distinctive, and so must a call whose conversation
    has another name. If it is not, the request continues nothing: a match that covers less would
    be a match with somebody else.

    Args:
        match: what was found.
        origin: that of the call that continues, with the name that its client gives.

    Returns:
        The call, ``None`` for none; and whether several calls may be meant.
    """
    calls = leave_out_names(match.calls, origin)
    if not calls:
        calls = [call for call in match.calls if _is_distinctive(call, match.rule)]
    calls = [call for call in calls if have_one_name(call.origin, origin)] or calls
    if not calls:
        return None, False
    if len(calls) == 1:
        is_meant = not calls[0].is_stranger or _is_distinctive(calls[0], match.rule)
        return (calls[0] if is_meant else None), False
    left = [call for call in calls if not call.is_continued]
    if len(left) == 1 and not left[0].is_stranger:
        return left[0], False
    return None, True


def leave_out_names(calls: Sequence[RememberedCall], origin: Origin) -> list[RememberedCall]:
    """Leave out calls of conversations with another name than the client gives this one."""
    return [call for call in calls if not have_other_names(call.origin, origin)]


def have_other_names(one: Origin, other: Origin) -> bool:
    """Tell whether clients give the conversations of both calls different names."""
    return not have_one_name(one, other) and None not in {_find_name(one), _find_name(other)}


def have_one_name(one: Origin, other: Origin) -> bool:
    """Tell whether clients give both conversations the same name, or give neither one."""
    return _find_name(one) == _find_name(other)


def _find_name(origin: Origin) -> str | None:
    """Find how the client names the conversation of a call."""
    return None if origin.source == "inferred" else origin.session


def count_distinctive(call: RememberedCall, before: RememberedCall | None) -> None:
    """Count what makes the answers of a conversation distinctive, up to that of a call.

    What only a client said, such as examples, counts nothing.
    """
    words = len(call.sketch) // WORD_BYTES
    call.gave_ids = CALL_ID in [key[:1] for key in call.keys]
    if before is not None:
        words += before.words
        call.gave_ids = call.gave_ids or before.gave_ids
    call.words = min(words, MAX_COUNTED_WORDS)


def make_stranger(call: RememberedCall, strangers: bytes) -> None:
    """Mark a call that is not remembered yet as a stranger's, and leave it only strong keys.

    A stranger's call is never found by its request, by a window or as a retry.
    """
    call.is_stranger = True
    call.keys = tuple([move_key(key, strangers) for key in choose_for_strangers(call.keys)])


def _is_distinctive(call: RememberedCall, rule: Rule) -> bool:
    """Tell whether a call cannot be confused with one that looks the same.

    The answers of its conversation have :data:`MIN_DISTINCTIVE_WORDS` words, or strong ids where
    ids are compared.
    """
    if rule in _BY_STRONG_IDS:
        return True
    return call.words >= MIN_DISTINCTIVE_WORDS or (call.gave_ids and rule is Rule.STATE)


def adopt(memory: Memory, call: RememberedCall, scope: bytes) -> None:
    """Make a stranger's call that of a known caller, because a call of that caller continues it."""
    memory.adopt(call, tuple([move_key(key, scope) for key in call.keys]))
