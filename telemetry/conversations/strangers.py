"""Strangers: calls whose callers cannot be told apart.

What tells callers apart is in memory alone (C6), so after a restart nobody knows whose the calls
are that were recorded before it, nor those that waited in the spool.

Rules (``docs/contract/conversations.md#strangers``):

1. A stranger's call is found by what two callers do not share: a strong id of a tool's call, with
   the same name and arguments; a strong id of a response; or a state that is telling. Never by its
   request, by a window or as a retry.
2. A state is telling where the answers of the conversation have :data:`MIN_TELLING_WORDS` words, or
   a strong id, if ids are compared. Two callers get the same short answers; and what a client alone
   has said, such as examples, counts nothing.
3. A stranger's call is never chosen among several. One that nobody went on from keeps others from
   being chosen: the caller's own of the same state may be another chat that is alike
   (:mod:`telemetry.conversations.match`).
4. A state that is not telling, found alone, leaves the call without a predecessor: what is less
   deep would be another's.
5. Once a call whose caller is known goes on from a stranger's, that one is its caller's, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telemetry.conversations.keys import CALL_ID, choose_for_strangers, move_key
from telemetry.conversations.link import Rule
from telemetry.conversations.sketch import WORD_BYTES

if TYPE_CHECKING:
    from telemetry.conversations.memory import Memory, RememberedCall

MIN_TELLING_WORDS: Final = 16
"""Words of answers by which a conversation is told from others: as many as a sketch has. A greeting
has seven."""

MAX_COUNTED_WORDS: Final = 255

_BY_STRONG_IDS: Final = frozenset({Rule.RESPONSE_ID, Rule.TOOL_ID})


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


def is_telling(call: RememberedCall, rule: Rule) -> bool:
    """Tell whether a call that a rule found cannot be one that is alike (rules 1 and 2)."""
    if rule in _BY_STRONG_IDS:
        return True
    return call.words >= MIN_TELLING_WORDS or (call.gave_ids and rule is Rule.STATE)


def adopt(memory: Memory, call: RememberedCall, scope: bytes) -> None:
    """Remember a stranger's call as one of a caller that is known (rule 5)."""
    memory.adopt(call, tuple([move_key(key, scope) for key in call.keys]))
