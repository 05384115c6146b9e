"""Remembered calls as bytes, so that conversations continue after a restart.

The bytes have what is needed to find a stranger's call (:mod:`telemetry.conversations.match`), and
what a later call needs to continue it (``docs/contract/conversations.md#what-is-remembered``). They
do not have the digest of the caller (C6): a call that comes back has an unknown caller. Trace, span
and session are not in the bytes either. They come from the row of the span, where hidden values are
hidden.

Bytes of another version, and rows that differ from what was written, are left out and counted.
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
"""The first byte: the version of the form of the other bytes, and of all that is digested."""

MAX_SAVED_BYTES: Final = 4_096
"""The most bytes of keys of one call (R5); an agent's call with three tool calls has 200. If an
answer has hundreds of tool calls, the later ones are not found."""

MAX_NUMBER: Final = 1 << 53
"""Greater numbers are not numbers of calls."""

_VERSION: Final = bytes([VERSION])

_CHECKSUM_BYTES: Final = 4

_SPAN_ID: Final = re.compile("[0-9a-f]{16}").fullmatch
_TRACE_ID: Final = re.compile("[0-9a-f]{32}").fullmatch


class _Saved(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A call: the members of :class:`RememberedCall`, with keys that lack their scope.

    Attributes:
        before: the number of the call that it continues; 0 for none.
        run: the number of its run; 0 for none.
        unmarked_ns: when it ended, if its span has no session; else 0.
        scope: the scope of all keys that have one.
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
    """Write a call as bytes; ``None`` for one without keys, which no later call could find.

    Args:
        call: the remembered call.
        before: the number of the call that it continues.
        strangers: the scope in which the call counts when it comes back.
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


def load_call(kept: KeptCall) -> tuple[RememberedCall, int] | None:
    """Read a call and the number of the call before it; ``None`` for bytes that are no call."""
    data = kept.data
    if data[:1] != _VERSION or int.from_bytes(data[-_CHECKSUM_BYTES:]) != crc32(
        memoryview(data)[:-_CHECKSUM_BYTES]
    ):
        return None
    if not _is_whole(kept):
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
        origin=Origin(kept.trace_id, kept.span_id, kept.session, saved.source),
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


def _is_whole(kept: KeptCall) -> bool:
    """Tell whether ids and session have the form in which they were recorded."""
    return (
        type(kept.span_id) is type(kept.trace_id) is str
        and _SPAN_ID(kept.span_id) is not None
        and _TRACE_ID(kept.trace_id) is not None
        and (kept.session is None or type(kept.session) is str)
    )


def refill(memory: Memory, calls: Iterable[KeptCall]) -> tuple[int, int]:
    """Remember the calls of an earlier process, oldest first.

    Returns:
        The greatest number of a call, 0 if there is none; and how many calls cannot be read.
    """
    known: dict[int, RememberedCall] = {}
    systems: dict[bytes, bytes] = {}
    unreadable = 0
    for kept in calls:
        if (loaded := load_call(kept)) is None:
            unreadable += 1
            continue
        call, before = loaded
        # All calls of a program share one object.
        call.system = systems.setdefault(call.system, call.system)
        known[call.number] = call
        if (continued := known.get(before)) is not None:
            continued.is_continued = True
            continued.unmarked_ns = None
        memory.add(call)
    return max(known, default=0), unreadable
