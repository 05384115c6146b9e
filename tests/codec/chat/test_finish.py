"""Finish reasons, normalised."""

from __future__ import annotations

import pytest

from codec.chat.finish import normalise_finish_reason


@pytest.mark.parametrize(
    ("wire", "alone", "beside_calls"),
    [
        ("stop", "complete", "tool_use"),
        ("length", "length", "length"),
        ("tool_calls", "tool_use", "tool_use"),
        ("function_call", "tool_use", "tool_use"),
        ("content_filter", "content_filter", "content_filter"),
        ("sensitive", "sensitive", "sensitive"),
        ("", "", ""),
        (None, None, None),
    ],
)
def test_a_known_reason_has_a_class_and_another_stands_for_itself(
    wire: str | None, alone: str | None, beside_calls: str | None
) -> None:
    """``docs/contract/wire.md#finish-reasons``: ``stop`` beside calls says that they are to be run.

    See ``docs/contract/sources.md#s4-12``.
    """
    assert normalise_finish_reason(wire) == alone
    assert normalise_finish_reason(wire, has_calls=True) == beside_calls
