"""Remembered calls as bytes, so that conversations go on after a restart.

Rules (``docs/contract/conversations.md#what-is-remembered``, C6):

1. What is kept is what a stranger's call is found by (:mod:`telemetry.conversations.match`),
   and what the link of a later call needs. The digest of a caller is not: a call that comes back
   has a caller that cannot be told.
2. Trace, span and session are not in the bytes: they come from the row of the span, where what is
   hidden is hidden.
3. Bytes of another version, and a row that is not what was written, are passed over and counted.
4. A call has :data:`MAX_SAVED_BYTES` of keys at most (R5). One without a key is not kept.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from zlib import crc32

import msgspec

from telemetry.conversations.keys import (
    SCOPE_BYTES,
    add_scope,
    choose_for_strangers,
    cut_scope,
)
from telemetry.conversations.memory import Origin, RememberedCall

if TYPE_CHECKING:
    from collections.abc import Iterable

    from telemetry.conversation_position import KeptCall
    from telemetry.conversations.memory import Memory

VERSION: Final = 1
"""The first byte: of the form of the others, and of all that goes into a digest."""

MAX_SAVED_BYTES: Final = 4_096
"""Keys of one call; that of an agent with three calls of tools has 200. What comes later in an
answer with hundreds of calls is not found."""

MAX_NUMBER: Final = 1 << 53
"""A greater number of a call is none."""

_VERSION: Final = bytes([VERSION])

_CHECKSUM_BYTES: Final = 4

_SPAN_ID: Final = re.compile("[0-9a-f]{16}").fullmatch
_TRACE_ID: Final = re.compile("[0-9a-f]{32}").fullmatch


class _Saved(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A call: the members of :class:`RememberedCall`, keys without their scope.

    Attributes:
        before: the number of the call that it goes on from, 0 for none.
        run: the number of its run, 0 for none.
        unmarked_ns: when it ended, where its span has no session; else 0.
        scope: of all keys that have one.
    """

    number: int
    conversation: int
    turn: int
    depth: int
    before: int
    run: int
    unmarked_ns: int
    words: int
    gave_ids: bool
    source: str
    system: bytes
    scope: bytes
    keys: tuple[bytes, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Saved).decode


def save_call(call: RememberedCall, before: int | None, strangers: bytes) -> bytes | None:
    """Write a call as bytes; ``None`` where no later one could find it (rule 4).

    Args:
        call: as it is remembered.
        before: the number of the call that it goes on from.
        strangers: the scope in which it counts when it comes back.
    """
    keys: list[bytes] = []
    room = MAX_SAVED_BYTES
    for key in choose_for_strangers(call.keys):
        room -= len(key)
        if room < 0:
            break
        keys.append(cut_scope(key))
    if not keys:
        return None
    saved = _Saved(
        number=call.number,
        conversation=call.conversation,
        turn=call.turn,
        depth=call.depth,
        before=before or 0,
        run=call.run or 0,
        unmarked_ns=call.unmarked_ns or 0,
        words=call.words,
        gave_ids=call.gave_ids,
        source=call.origin.source,
        system=call.system,
        scope=strangers,
        keys=tuple(keys),
    )
    data = _VERSION + _encode(saved)
    return data + crc32(data).to_bytes(_CHECKSUM_BYTES)


def load_call(link: KeptCall) -> tuple[RememberedCall, int] | None:
    """Read a call, and the number of the one before it; ``None`` for other bytes (rule 3)."""
    data = link.data
    if data[:1] != _VERSION or int.from_bytes(data[-_CHECKSUM_BYTES:]) != crc32(
        memoryview(data)[:-_CHECKSUM_BYTES]
    ):
        return None
    if not _is_whole(link):
        return None
    try:
        saved = _decode(memoryview(data)[1:-_CHECKSUM_BYTES])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    least = min(saved.number, saved.conversation, saved.turn, saved.depth)
    most = max(saved.number, saved.conversation, saved.turn, saved.depth)
    scope = saved.scope
    if not 0 < least <= most < MAX_NUMBER or len(scope) != SCOPE_BYTES:
        return None
    call = RememberedCall(
        number=saved.number,
        conversation=saved.conversation,
        turn=saved.turn,
        depth=saved.depth,
        origin=Origin(link.trace_id, link.span_id, link.session, saved.source),
        system=saved.system,
        failed_ns=None,
        sketch=b"",
        keys=tuple([add_scope(key, scope) for key in saved.keys]),
        run=saved.run or None,
        unmarked_ns=saved.unmarked_ns or None,
        words=saved.words,
        gave_ids=saved.gave_ids,
        is_stranger=True,
    )
    return call, saved.before


def _is_whole(link: KeptCall) -> bool:
    """Tell whether ids and session have the form that they were recorded in."""
    return (
        type(link.span_id) is type(link.trace_id) is str
        and _SPAN_ID(link.span_id) is not None
        and _TRACE_ID(link.trace_id) is not None
        and (link.session is None or type(link.session) is str)
    )


def refill(memory: Memory, links: Iterable[KeptCall]) -> tuple[int, int]:
    """Remember the calls of a former process, oldest first.

    Returns:
        The greatest number among them, 0 where there is none; and how many cannot be read.
    """
    known: dict[int, RememberedCall] = {}
    systems: dict[bytes, bytes] = {}
    unreadable = 0
    for link in links:
        if (loaded := load_call(link)) is None:
            unreadable += 1
            continue
        call, before = loaded
        call.system = systems.setdefault(call.system, call.system)  # the same for all of a program
        known[call.number] = call
        if (continued := known.get(before)) is not None:
            continued.is_continued = True
            continued.unmarked_ns = None
        memory.add(call)
    return max(known, default=0), unreadable
