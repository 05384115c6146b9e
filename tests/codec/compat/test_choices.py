"""The text of a choice."""

from __future__ import annotations

from typing import Any

import pytest

from codec.compat.choices import text_of_choice


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ({"delta": {"content": "a"}, "message": {"content": "b"}, "text": "c"}, "a"),
        ({"delta": {"content": None}, "message": {"content": "b"}, "text": "c"}, "b"),
        ({"delta": {}, "text": "c"}, "c"),
        ({"delta": {"content": ""}, "text": "c"}, ""),
        ({"text": 5}, None),
        ({}, None),
        ("odd", None),
    ],
)
def test_the_first_place_that_has_text_counts(choice: Any, text: str | None) -> None:
    """Delta, message, text, in this order (``docs/contract/sources.md#s3-2``)."""
    assert text_of_choice(choice) == text
