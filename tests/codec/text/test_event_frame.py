"""What is cut from events that are alike, beside each event looked at alone."""

from __future__ import annotations

from itertools import takewhile

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


def test_the_two_parts_of_a_frame_do_not_overlap() -> None:
    """An event that is shorter than its frame is another, though it begins and ends like it."""
    frame = EventFrame(b"aXa", b"aYa\n\n")
    assert frame.cut(b"aXaYa\n\n") is None
    assert frame.cut_run([b"aXaYa\n\n"]) == []
