"""``codec.bodies``: what is a text in a form and something else in JSON."""

from __future__ import annotations

from typing import Any

import pytest

from codec.bodies import FormRequest


@pytest.mark.parametrize(
    ("value", "streams"),
    [(True, True), ("true", True), ("True", True), ("false", False), ("1", False), (1, False)],
)
def test_a_stream_is_asked_for_by_truth(value: Any, *, streams: bool) -> None:
    """In JSON or in words."""
    request = FormRequest({"stream": value})
    assert request.stream is streams
    assert request.options["stream"] is streams


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2", 2),
        ("-1", -1),
        ("0.25", 0.25),
        (3, 3),
        ("", ""),
        ("two", "two"),
        ("1e9", "1e9"),
        ("9" * 40, "9" * 40),
        (None, None),
    ],
)
def test_numbers_are_numbers(text: Any, number: Any) -> None:
    """What is none stays what it is, and so does the body."""
    request = FormRequest({"n": text, "temperature": text, "voice": text})
    assert request.options == {"n": number, "temperature": number, "voice": text, "stream": False}
    assert request.body == {"n": text, "temperature": text, "voice": text}


def test_nothing_is_made_up() -> None:
    """Of a request that says nothing."""
    assert FormRequest({}).options == {"stream": False}
