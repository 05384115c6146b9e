"""``telemetry.conversations.saved_calls``: calls as bytes, and back."""

from __future__ import annotations

import random
from dataclasses import fields
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from telemetry.conversation_position import KeptCall
from telemetry.conversations.keys import (
    AFTER,
    AFTER_BARE,
    CALL,
    CALL_ID,
    REQUEST,
    RESPONSE,
    SCOPE_BYTES,
    WEAK_RESPONSE,
    WINDOW,
)
from telemetry.conversations.memory import Memory, Origin, RememberedCall
from telemetry.conversations.saved_calls import (
    MAX_SAVED_BYTES,
    VERSION,
    load_call,
    refill,
    save_call,
)

SCOPE, STRANGERS = b"caller-1", b"upstream"
STRONG = b"call_9aX2pQr7Lm4Tz8Wb"
TRACE_ID, SPAN_ID = "ab" * 16, "cd" * 8

NUMBERS = st.integers(1, 1 << 40)
KEYS = st.one_of(
    st.builds(
        lambda kind, rest: kind + SCOPE + rest,
        st.sampled_from([AFTER, AFTER_BARE, CALL, REQUEST, WINDOW, WEAK_RESPONSE]),
        st.binary(min_size=1, max_size=40),
    ),
    st.sampled_from([RESPONSE + b"resp_" + STRONG, CALL_ID + STRONG]),
)
CALLS = st.builds(
    RememberedCall,
    number=NUMBERS,
    conversation=NUMBERS,
    turn=NUMBERS,
    depth=NUMBERS,
    origin=st.builds(
        Origin,
        st.just(TRACE_ID),
        st.just(SPAN_ID),
        st.none() | st.text(max_size=20),
        st.sampled_from(["inferred", "header", "body"]),
    ),
    system=st.binary(min_size=16, max_size=16),
    failed_ns=st.none() | NUMBERS,
    sketch=st.binary(max_size=64),
    keys=st.lists(KEYS, max_size=9).map(tuple),
    words=st.integers(0, 255),
    gave_ids=st.booleans(),
)


def make_call(number: int, *keys: bytes) -> RememberedCall:
    """A call with these keys."""
    return RememberedCall(
        number=number,
        conversation=number,
        turn=1,
        depth=1,
        origin=Origin(TRACE_ID, SPAN_ID),
        system=b"s" * 16,
        failed_ns=None,
        sketch=b"",
        keys=keys,
    )


def keep(call: RememberedCall, before: int | None = None) -> KeptCall:
    """What a store would give of a call, which is kept."""
    data = save_call(call, before, STRANGERS)
    assert data is not None
    return KeptCall(call.origin.span_id, call.origin.trace_id, call.origin.session, data)


def made(number: int) -> KeptCall:
    """A call by itself."""
    return keep(make_call(number, AFTER + SCOPE + b"%016d" % number))


@given(CALLS, st.none() | NUMBERS)
def test_what_comes_back_is_what_was_kept(call: RememberedCall, before: int | None) -> None:
    """All but the caller, and what is found by its caller alone."""
    data = save_call(call, before, STRANGERS)
    told = [key for key in call.keys if key[:1] not in {REQUEST, WINDOW, WEAK_RESPONSE}]
    if not told:
        assert data is None
        return
    assert data is not None
    assert SCOPE not in data
    loaded = load_call(KeptCall(SPAN_ID, TRACE_ID, call.origin.session, data))
    assert loaded is not None
    again, its_before = loaded
    assert its_before == (before or 0)
    everywhere = {RESPONSE, CALL_ID}
    moved = tuple(
        key if key[:1] in everywhere else key[:1] + STRANGERS + key[1 + SCOPE_BYTES :]
        for key in told
    )
    assert (again.keys, again.is_stranger) == (moved, True)
    assert (again.failed_ns, again.sketch) == (None, b"")
    changed = {"keys", "is_stranger", "failed_ns", "sketch"}
    for name in {field.name for field in fields(RememberedCall)} - changed:
        assert getattr(again, name) == getattr(call, name), name


def test_what_the_span_tells_is_not_in_the_bytes() -> None:
    """Session and ids come from its row, where they may be hidden."""
    call = make_call(1, AFTER + SCOPE + b"state")
    call.origin = Origin(TRACE_ID, SPAN_ID, "ann@example.com", "header")
    data = keep(call).data
    assert not [told for told in (b"ann@", TRACE_ID.encode(), SPAN_ID.encode()) if told in data]


@given(st.integers(0, 10_000), st.integers(1, 255), st.sampled_from(["flip", "cut", "longer"]))
def test_damaged_bytes_are_passed_over(place: int, change: int, how: str) -> None:
    """Wherever the damage is; the others come back."""
    [first, second, third] = [made(number) for number in (1, 2, 3)]
    data = bytearray(second.data)
    place %= len(data)
    if how == "flip":
        data[place] ^= change
    elif how == "cut":
        del data[place:]
    else:
        data += bytes([change])
    memory = Memory()
    damaged = second._replace(data=bytes(data))
    assert refill(memory, [first, damaged, third]) == (3, 1)
    assert len(memory) == 2


def test_bytes_of_another_version_or_form_are_passed_over() -> None:
    """However whole they are."""

    def seal(data: bytes) -> KeptCall:
        return KeptCall(SPAN_ID, TRACE_ID, None, data + crc32(data).to_bytes(4, "big"))

    whole = made(7).data[:-4]
    assert refill(Memory(), [seal(whole)]) == (7, 0)
    older, other = bytes([VERSION + 1]) + whole[1:], bytes([VERSION]) + b"\x93\x01\x02\x03"
    no_text = whole.replace(b"inferred", b"\xff" * 8)
    others = [*map(seal, (older, other, no_text, b"")), KeptCall("", "", None, b"")]
    assert refill(Memory(), others) == (0, 5)


def test_a_call_has_a_limit() -> None:
    """What comes first stays; a request that failed is not kept at all."""
    keys = [AFTER + SCOPE + b"state", *(CALL_ID + b"%0255d" % n for n in range(128))]
    kept = keep(make_call(1, *keys))
    assert MAX_SAVED_BYTES - 300 < len(kept.data) < MAX_SAVED_BYTES + 300
    memory = Memory()
    refill(memory, [kept])
    assert memory.find(AFTER + STRANGERS + b"state")
    assert save_call(make_call(1, REQUEST + SCOPE + b"state"), None, STRANGERS) is None


def test_who_was_gone_on_from_is_known_again() -> None:
    """So that another successor is a fork; and numbers go on behind the greatest."""
    memory = Memory()
    first = make_call(5, AFTER + SCOPE + b"one")
    second = make_call(9, AFTER + SCOPE + b"two")
    assert refill(memory, [keep(first), keep(second, before=5), keep(second, before=77)]) == (9, 0)
    [again] = memory.find(AFTER + STRANGERS + b"one")
    assert again.is_continued
    assert not any(call.is_continued for call in memory.find(AFTER + STRANGERS + b"two"))
    assert memory.strangers == 3


def test_memory_keeps_its_limit_when_it_is_refilled() -> None:
    """The newest stay, and strangers are counted as they go."""
    memory = Memory(10)
    refill(memory, [made(number) for number in range(1, 31)])
    assert (len(memory), memory.strangers) == (10, 10)
    for number in random.sample(range(100, 200), 10):
        memory.add(make_call(number, AFTER + SCOPE + b"%d" % number))
    assert (len(memory), memory.strangers) == (10, 0)


SAVED = bytes.fromhex(
    "019d0703020406050015c3a8696e666572726564c410000102030405060708090a0b0c0d0e0fc408757073747265"
    "616d95c41161000102030405060708090a0b0c0d0e0fc41162101112131415161718191a1b1c1d1e1fc416746361"
    "6c6c5f39615832705172374c6d34547a385762c41163202122232425262728292a2b2c2d2e2fc41669726573705f"
    "39615832705172374c6d34547a3857620cbea6f7"
)
"""A call as a store has it: whoever changes what a key is of, or how it is written, has to count
the version on."""


def test_what_older_processes_kept_is_read() -> None:
    """Byte by byte."""
    loaded = load_call(KeptCall(SPAN_ID, TRACE_ID, "conv-1", SAVED))
    assert loaded is not None
    call, before = loaded
    assert (call.number, call.conversation, call.turn, call.depth) == (7, 3, 2, 4)
    assert (call.run, call.words, call.gave_ids, before) == (5, 21, True, 6)
    assert call.system == bytes(range(16))
    assert call.keys == (
        AFTER + b"upstream" + bytes(range(16)),
        AFTER_BARE + b"upstream" + bytes(range(16, 32)),
        CALL_ID + STRONG,
        CALL + b"upstream" + bytes(range(32, 48)),
        RESPONSE + b"resp_9aX2pQr7Lm4Tz8Wb",
    )
    assert save_call(call, before, b"upstream") == SAVED
