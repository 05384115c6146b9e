"""States: equal where histories are, and nowhere else (C5)."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from codec.history_items import HistoryItem, ItemKind
from codec.history_states import SLICE_CHARS, START, STATE_BYTES, Digests

DIGESTS = Digests(b"k" * 32)

TEXTS = st.text(st.sampled_from('ab\0:1"'), max_size=4)
UNITS = st.builds(
    HistoryItem,
    st.sampled_from([ItemKind.TEXT, ItemKind.CALL, ItemKind.RESULT]),
    TEXTS,
    st.none() | TEXTS,
    TEXTS,
)
HISTORIES = st.lists(UNITS, max_size=5)


@given(HISTORIES, HISTORIES)
def test_states_are_equal_where_histories_are(
    one: list[HistoryItem], other: list[HistoryItem]
) -> None:
    """Whatever characters stand at the bounds of its parts; without ids by the second chain."""
    states, others = DIGESTS.go_on(START, one), DIGESTS.go_on(START, other)
    assert (states.last[0] == others.last[0]) == (one == other)
    bare, others_bare = ([item._replace(id=None) for item in items] for items in (one, other))
    assert (states.last[1] == others.last[1]) == (bare == others_bare)


@given(HISTORIES, st.integers(0, 5))
def test_a_history_goes_on_from_any_beginning(items: list[HistoryItem], at: int) -> None:
    """The states of what is before and of what follows are those of the whole."""
    whole = DIGESTS.go_on(START, items)
    begun = DIGESTS.go_on(START, items[:at])
    rest = DIGESTS.go_on(begun.last, items[at:])
    assert whole.with_ids == begun.with_ids + rest.with_ids[1:]
    assert whole.without_ids == begun.without_ids + rest.without_ids[1:]
    assert {len(state) for state in whole.with_ids + whole.without_ids} == {STATE_BYTES}


@given(HISTORIES)
def test_the_second_chain_is_that_of_a_history_without_ids(items: list[HistoryItem]) -> None:
    """And the first one as well, up to the first id."""
    bare = DIGESTS.go_on(START, [item._replace(id=None) for item in items])
    states = DIGESTS.go_on(START, items)
    assert bare.with_ids == bare.without_ids == states.without_ids
    if all(item.id is None for item in items):
        assert states.with_ids == states.without_ids


@given(HISTORIES.filter(bool))
def test_another_key_has_other_states(items: list[HistoryItem]) -> None:
    """What is known of one store's states tells nothing of another's."""
    assert Digests(b"x" * 32).go_on(START, items).last[0] != DIGESTS.go_on(START, items).last[0]


@given(st.integers(-2, 2), st.sampled_from(["a", "é", "語", "\ud83d\ude00", "😀"]))
def test_a_long_text_read_in_slices_is_the_same_text(more: int, letter: str) -> None:
    """R5: whatever stands at the bounds of a slice."""
    text = letter * (SLICE_CHARS + more)
    item = HistoryItem(ItemKind.TEXT, "user", None, text)
    whole = f"{ItemKind.TEXT}4:user{text}".encode("utf-8", "surrogatepass")
    plain = hashlib.blake2b(whole, digest_size=STATE_BYTES, key=b"k" * 32)
    assert DIGESTS.make_of_item(item) == plain.digest()
