"""End markers in the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.compat.end_markers import MAX_MARKERS, EndMarkerFilter, cut_end_markers
from codec.compat.stop_reasons import StopReason

TURN, MESSAGE = StopReason.END_OF_TURN, StopReason.END_OF_MESSAGE


@pytest.mark.parametrize(
    ("text", "cut", "stop"),
    [
        ("Aye<|eot_id|>", "Aye", TURN),
        ("Aye<|eom_id|>", "Aye", MESSAGE),
        ("Aye<|eom_id|><|eot_id|>", "Aye", TURN),
        ("<|eot_id|> Aye", "<|eot_id|> Aye", StopReason.OUT_OF_TOKENS),
        ("", "", StopReason.OUT_OF_TOKENS),
    ],
)
def test_markers_at_the_end_are_cut(text: str, cut: str, stop: StopReason) -> None:
    """The last one is the reason; within text it is text (``docs/contract/sources.md#s3-3``)."""
    assert cut_end_markers(text, StopReason.OUT_OF_TOKENS) == (cut, stop)


@given(
    st.lists(st.sampled_from(["<|eot_id|>", "<|eom_id|>", "<|e", "ot_id|>", "a", "<", "|>", ""]))
)
def test_a_stream_is_cut_as_the_whole_text_is(pieces: list[str]) -> None:
    """A marker that is a piece of its own is swallowed, one that is cut as well."""
    markers = EndMarkerFilter()
    text = "".join(map(markers.feed, pieces)) + markers.finish()
    assert (text, markers.stop) == cut_end_markers("".join(pieces), None)


def test_markers_without_end_are_not_held() -> None:
    """So many are cut, the others are text; what is held does not grow."""
    marker = "<|eot_id|>"
    markers = EndMarkerFilter()
    text = "".join(markers.feed(marker) for _ in range(MAX_MARKERS + 9)) + markers.finish()
    assert text == marker * 9
    assert cut_end_markers(marker * (MAX_MARKERS + 9), None) == (text, TURN)
