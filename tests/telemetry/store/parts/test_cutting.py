"""``telemetry.store.parts.cutting``: calls of one conversation are cut alike."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.store.parts.cutting import LONG_PIECE_BYTES, MIN_PIECE_BYTES, find_end
from tests.telemetry.turns import make_turn, make_turns, make_words

if TYPE_CHECKING:
    from collections.abc import Callable


def cut(data: bytes) -> list[bytes]:
    """All pieces."""
    pieces, at = [], 0
    while at < len(data):
        end = find_end(data, at)
        assert end > at
        pieces.append(data[at:end])
        at = end
    return pieces


@given(st.lists(st.sampled_from([b"a" * 300, b"},", b'" : "x', b"\n", b"ppp\n", b" ", b"J"])))
def test_pieces_end_to_end_are_the_span(fragments: list[bytes]) -> None:
    """And each but the last is one."""
    data = b"".join(fragments)
    assert b"".join(cut(data)) == data


def measure_new(before: bytes, after: bytes) -> int:
    """How many bytes of a call are in no piece of another one."""
    known = {*cut(before)}
    return sum(len(piece) for piece in cut(after) if piece not in known)


def test_the_next_call_has_the_pieces_of_the_one_before() -> None:
    """But for what is new, and the pieces around it."""
    rows = make_turns(20, 3_000)
    for before, after in pairwise(rows):
        assert measure_new(before.span, after.span) < 15_000


def make_line(dice: random.Random, size: int) -> str:
    """A text without an end of a line."""
    return make_words(dice, size).replace("\n", " ")


@pytest.mark.parametrize("make_text", [make_words, make_line])
def test_behind_a_change_the_cuts_are_soon_the_same(
    make_text: Callable[[random.Random, int], str],
) -> None:
    """A clock in the system prompt, of another length each time, costs some pieces of each text."""
    text = make_text(random.Random(1), 60_000)
    spans = [
        make_turn(1, [{"role": "system", "content": f"It is {clock}. {text}"}]).span
        for clock in ("noon", "half past seven in the evening")
    ]
    assert measure_new(*spans) < 12_000


def test_a_long_text_without_a_place_is_a_piece_of_its_own() -> None:
    """Whatever is before it: a picture comes again whole."""
    picture = "iVBORw0KGgo" * LONG_PIECE_BYTES
    spans = [
        make_turn(1, [{"role": "user", "content": picture}], own=own).span for own in ("a", "bcd")
    ]
    assert measure_new(*spans) < 3_000
    assert all(len(piece) >= MIN_PIECE_BYTES for piece in cut(b"ppp\n" * 10_000)[:-1])
