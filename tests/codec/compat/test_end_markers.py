"""End markers in the text."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.compat import end_markers as module
from codec.compat.end_markers import EndMarkerFilter, cut_end_markers
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
    """S3.3: the last one overrides the reason; one in the middle is text."""
    assert cut_end_markers(text, StopReason.OUT_OF_TOKENS) == (cut, stop)


@given(
    st.lists(st.sampled_from(["<|eot_id|>", "<|eom_id|>", "<|e", "ot_id|>", "a", "<", "|>", ""]))
)
def test_a_stream_is_cut_as_the_whole_text_is(pieces: list[str]) -> None:
    """S3.3: a marker that is a piece of its own is swallowed, one that is cut as well."""
    markers = EndMarkerFilter()
    text = "".join(map(markers.feed, pieces)) + markers.finish()
    assert (text, markers.stop) == cut_end_markers("".join(pieces), None)


def test_the_example_is_true() -> None:
    """What the docstring shows."""
    assert doctest.testmod(module).attempted
    assert not doctest.testmod(module).failed
