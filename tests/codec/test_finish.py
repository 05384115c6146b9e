"""Finish reasons, normalised."""

from __future__ import annotations

import pytest

from codec.finish import normalise_finish_reason


@pytest.mark.parametrize(
    ("wire", "normal"),
    [
        ("stop", "complete"),
        ("length", "length"),
        ("tool_calls", "tool_use"),
        ("function_call", "tool_use"),
        ("content_filter", "content_filter"),
        ("sensitive", "sensitive"),
        ("", ""),
        (None, None),
    ],
)
def test_a_known_reason_has_a_class_and_another_stands_for_itself(
    wire: str | None, normal: str | None
) -> None:
    """S4.12: stop, length and calls are normalised; what is new or absent stays what it is."""
    assert normalise_finish_reason(wire) == normal


@pytest.mark.parametrize(
    ("wire", "normal"),
    [("stop", "tool_use"), ("tool_calls", "tool_use"), ("length", "length"), (None, None)],
)
def test_stop_beside_calls_says_that_they_are_to_be_run(
    wire: str | None, normal: str | None
) -> None:
    """``dialects.md`` 1.5; what was cut, filtered or never finished stays so."""
    assert normalise_finish_reason(wire, has_calls=True) == normal
