"""What is cut from events that are alike, beside each event looked at alone."""

from __future__ import annotations

from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.text.event_frame import EventFrame

BEFORE, BEHIND = b"data: <", b">\n\n"
FRAME = EventFrame(BEFORE, BEHIND)
events = st.one_of(
    st.sampled_from([b"", b"word", b"<", b">", b"><", b"\r", b"\x00"]).map(
        lambda piece: BEFORE + piece + BEHIND
    ),
    st.sampled_from([b"data: x\n\n", b"data: <a>\n", b"\n", b": hi\n\n", b"data: <a>\n\n\n"]),
)


def cut_one_by_one(run: list[bytes]) -> list[bytes]:
    """The slow way."""
    pieces = (
        event[len(BEFORE) : -len(BEHIND)]
        if event.startswith(BEFORE) and event.endswith(BEHIND) and len(event) >= 10
        else None
        for event in run
    )
    return [
        piece for piece in takewhile(lambda piece: piece is not None, pieces) if piece is not None
    ]


@given(st.lists(events, max_size=9))
def test_a_run_is_cut_as_its_events_are_one_by_one(run: list[bytes]) -> None:
    """Up to the first that is another, wherever that stands."""
    assert FRAME.cut_run(run) == cut_one_by_one(run)


@given(st.lists(events, max_size=9), st.integers(0, 40))
def test_a_read_is_cut_as_its_events_are_one_by_one(run: list[bytes], cut: int) -> None:
    """Of bytes that end anywhere."""
    data = b"".join(run)[: -cut or None]
    alone = [event + b"\n\n" for event in data.split(b"\n\n")[:-1]]
    pieces = FRAME.cut_read(data)
    assert pieces == cut_one_by_one(alone)
    assert data.startswith(b"".join(BEFORE + piece + BEHIND for piece in pieces))
    assert FRAME.size_bytes(pieces) == sum(map(len, alone[: len(pieces)]))


@pytest.mark.parametrize(
    ("before", "behind"), [(b"event: a\ndata: <", b">\n\n"), (b"<", b">"), (b"<", b">\n")]
)
def test_what_is_not_one_line_is_cut_from_no_read(before: bytes, behind: bytes) -> None:
    """Rows of a read are known to be events where an event is a line and a blank one."""
    assert EventFrame(before, behind).cut_read((before + b"a" + behind) * 3) == []
    assert EventFrame(before, behind).cut_run([before + b"a" + behind] * 3) == [b"a"] * 3


def test_the_two_parts_of_a_frame_do_not_overlap() -> None:
    """An event that is shorter than its frame is another, though it begins and ends like it."""
    frame = EventFrame(b"aXa", b"aYa\n\n")
    assert frame.cut(b"aXaYa\n\n") is None
    assert frame.cut_run([b"aXaYa\n\n"]) == []
    assert frame.cut_read(b"aXaYa\n\n") == []
