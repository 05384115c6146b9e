"""Memory: bounded, in calls and in bytes, and without a trace of what was forgotten."""

from __future__ import annotations

import os
import sys
import tracemalloc
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.history_items import HistoryItem, ItemKind
from telemetry.conversations.continuation import Rule
from telemetry.conversations.keys import (
    CALL_ID,
    MAX_ID_CHARS,
    MAX_PLAIN_ID_BYTES,
    encode_id,
    is_strong,
)
from telemetry.conversations.memory import (
    BYTES_PER_CALL,
    MAX_CANDIDATES,
    Memory,
    Origin,
    RememberedCall,
)
from telemetry.conversations.sketch import MAX_SKETCH_WORDS, is_alike, make_sketch
from tests.telemetry.conversations.talks import Talk, answer, calls, result, user


def make_call(number: int, *keys: bytes, session: str | None = None) -> RememberedCall:
    """A call with these keys."""
    return RememberedCall(
        number=number,
        conversation=number,
        turn=1,
        depth=1,
        origin=Origin("0" * 32, "0" * 16, session),
        system=b"",
        failed_ns=None,
        sketch=b"",
        keys=keys,
    )


def find(memory: Memory, key: bytes) -> list[int]:
    """The numbers of the calls that have a key."""
    return [call.number for call in memory.find(key)]


def test_the_oldest_call_is_forgotten_unless_it_was_continued() -> None:
    """With its keys; a key that others have, too, is theirs alone then."""
    memory = Memory(2)
    first, second, third = make_call(1, b"a", b"all"), make_call(2, b"all"), make_call(3, b"all")
    memory.add(first)
    memory.add(second)
    assert find(memory, b"all") == [1, 2]
    memory.keep(first)
    memory.add(third)
    assert (find(memory, b"a"), find(memory, b"all"), len(memory)) == ([1], [1, 3], 2)
    memory.add(make_call(4))
    assert (find(memory, b"a"), find(memory, b"all")) == ([1], [1])
    memory.add(make_call(5))
    assert (find(memory, b"a"), find(memory, b"all"), len(memory)) == ([], [], 2)


def test_keys_and_names_take_memory_of_other_calls() -> None:
    """An answer with a thousand calls, and a long session, cost others their place, and no more."""
    memory = Memory(4)
    memory.add(make_call(1, b"a"))
    memory.add(make_call(2, *(b"%d" % n for n in range(4 * BYTES_PER_CALL // 180))))
    assert (find(memory, b"a"), find(memory, b"7"), len(memory)) == ([], [2], 1)
    memory.add(make_call(3, *(b"%d" % n for n in range(4 * BYTES_PER_CALL // 150))))
    assert (find(memory, b"7"), len(memory)) == ([], 0)
    for number in range(4, 20):
        memory.add(make_call(number, b"s%d" % number, session="s" * BYTES_PER_CALL))
    assert (find(memory, b"s19"), find(memory, b"s16"), len(memory)) == ([19], [], 2)


def test_what_is_held_is_given_back() -> None:
    """Calls that lost keys, or were adopted, take nothing once they are forgotten."""
    memory = Memory(2)
    for number in range(20):
        call = make_call(number, b"a%d" % number, b"b%d" % number)
        call.is_stranger = True
        memory.add(call)
        memory.drop(call, [b"a%d" % number])
        memory.adopt(call, (b"c%d" % number, b"d%d" % number))
    assert memory._held_bytes == sum(call.held_bytes for call in memory._calls)
    assert len(memory) == 2


@pytest.mark.parametrize("keys", [2, 8])
def test_calls_take_the_memory_that_is_said(keys: int) -> None:
    """A plain chat's call and an agent's, as Python counts: the limit is not far off."""
    tracemalloc.start()
    try:
        memory = Memory(4_000)
        for number in range(4_000):
            made = [b"%d" % one + os.urandom(24) for one in range(keys)]
            call = make_call(number, *made)
            call.origin = Origin(f"{number:032x}", f"{number:016x}", None)
            call.sketch, call.called = os.urandom(64), os.urandom(16)
            memory.add(call)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(memory) == 4_000
    assert 0.6 * memory._held_bytes < taken < 1.4 * memory._held_bytes


def test_the_table_of_keys_does_not_grow_as_calls_come_and_go() -> None:
    """Ten times as many calls later it is as large as when it was full, and finds the same."""
    memory = Memory(2_000)
    for number in range(2_000):
        memory.add(make_call(number, b"a%d" % number, b"r%d" % number))
    full_bytes = sys.getsizeof(memory._found)
    sizes = set()
    for number in range(2_000, 20_000):
        memory.add(make_call(number, b"a%d" % number, b"r%d" % number))
        sizes.add(sys.getsizeof(memory._found))
    assert max(sizes) <= full_bytes
    assert (find(memory, b"a17999"), find(memory, b"r18000")) == ([], [18_000])


def test_of_many_calls_with_one_key_the_newest_are_found() -> None:
    """A hundred equal calls are linked to none, and take no more than a few places."""
    memory = Memory()
    for number in range(1, 101):
        memory.add(make_call(number, b"same"))
    assert find(memory, b"same") == [*range(101 - MAX_CANDIDATES, 101)]


def test_dropped_keys_are_not_found() -> None:
    """Those of others are, and dropping what is forgotten does nothing."""
    memory = Memory(1)
    call = make_call(1, b"a", b"b")
    memory.add(call)
    memory.drop(call, [b"a"])
    assert (find(memory, b"a"), find(memory, b"b"), call.keys) == ([], [1], (b"b",))
    memory.add(make_call(2, b"b"))
    memory.drop(call, [b"b"])
    assert find(memory, b"b") == [2]


KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])


@given(st.lists(st.frozensets(KEYS), max_size=20), st.integers(1, 4))
def test_what_is_found_is_what_a_list_would_have(added: list[frozenset[bytes]], most: int) -> None:
    """The slow, plain way: the last calls, and their keys."""
    memory = Memory(most)
    kept: deque[tuple[int, frozenset[bytes]]] = deque(maxlen=most)
    for number, keys in enumerate(added):
        memory.add(make_call(number, *sorted(keys)))
        kept.append((number, keys))
        for key in (b"a", b"b", b"c", b"d"):
            assert find(memory, key) == [one for one, its in kept if key in its]


def test_hostile_answers_take_a_bounded_number_of_keys() -> None:
    """Ids of any length, a thousand calls, eight choices: as much as plain ones, or less."""
    talk = Talk(max_calls=10)
    for number in range(30):
        ids = [f"{number:03d}{n:04d}abcdefghij0123456789" for n in range(200)]
        talk.ask(user(f"question {number}"), said=calls(*ids))
    assert sum(map(len, all_keys(talk.memory))) <= 10 * BYTES_PER_CALL
    assert not is_strong("abcdefghij0123456789" * MAX_ID_CHARS)


def test_long_ids_are_remembered_by_digests() -> None:
    """They are found again, and take no more memory than others."""
    wide = "".join(chr(code) for code in range(0x20000, 0x20000 + MAX_ID_CHARS))
    talk = Talk()
    talk.ask(user("hi"), said=calls(wide))
    keys = [key for key in all_keys(talk.memory) if key[:1] == CALL_ID]
    assert [len(key) <= 1 + MAX_PLAIN_ID_BYTES for key in keys] == [True]
    found = talk.ask(user("ho"), calls(wide), result(wide), said=answer("!"))
    assert (found.rule, found.predecessor) == (Rule.TOOL_ID, 1)
    assert encode_id("call_0") == b"call_0"
    assert encode_id(wide) != encode_id(wide[:-1])


def all_keys(memory: Memory) -> list[bytes]:
    """Every key that finds something."""
    found: dict[bytes, Any] = memory._found
    return [*found]


def sketch(text: str) -> bytes:
    """The sketch of an answer."""
    return make_sketch([HistoryItem(ItemKind.TEXT, "assistant", None, text)])


def test_sketches_have_a_size() -> None:
    """However long the answer; half of the words are enough, whatever their order."""
    words = [f"wording{n}" for n in range(100)]
    long = sketch(" ".join(words))
    assert len(long) == 4 * MAX_SKETCH_WORDS
    assert is_alike(long, sketch(" ".join(reversed(words))))
    assert not is_alike(long, sketch("another matter altogether"))
    assert not is_alike(long, b"")
    assert is_alike(b"", long)
