"""``telemetry.metrics.label_limit``: label values that others choose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.metrics.label_limit import MAX_LABEL_CHARS, OTHER, LabelLimit


def test_the_first_values_are_admitted_for_good() -> None:
    """What was admitted stays; what comes when the label is full is ``_other``, and counted."""
    overflows: list[None] = []
    limit = LabelLimit(2, lambda: overflows.append(None))
    assert [limit.admit(text) for text in ("a", "b", "a", "c", "d", "b", "c")] == [
        *("a", "b", "a"),
        *(OTHER, OTHER),
        *("b", OTHER),
    ]
    assert len(overflows) == 3


@pytest.mark.parametrize("text", [None, ""])
def test_no_text_is_no_value(text: str | None) -> None:
    """It is absent, and takes no place."""
    limit = LabelLimit(0, lambda: pytest.fail("nothing overflows"))
    assert limit.admit(text) == ""


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("x" * 200, "x" * MAX_LABEL_CHARS),
        ("a\nb\x00c", "a?b?c"),
        ("a\ud800", "a?"),
        ("modèle-é/7:free", "modèle-é/7:free"),
    ],
)
def test_a_value_can_be_shown(text: str, label: str) -> None:
    """It is cut, and what cannot be printed or encoded becomes a question mark."""
    limit = LabelLimit(1, lambda: pytest.fail("one value is one place"))
    assert limit.admit(text) == label
    assert limit.admit(text) == label


@given(st.lists(st.text(st.characters(codec=None), max_size=140)), st.integers(0, 5))
def test_the_number_of_values_is_bounded(texts: list[str], max_values: int) -> None:
    """Whatever comes, there are no more values than allowed and the two special ones."""
    limit = LabelLimit(max_values, lambda: None)
    labels = {limit.admit(text) for text in texts}
    assert len(labels - {OTHER, ""}) <= max_values
    for label in labels:
        assert len(label.encode()) <= 4 * MAX_LABEL_CHARS
        assert label.isprintable()
