"""Finish reasons as stop reasons."""

from __future__ import annotations

import pytest

from codec.compat.stop_reasons import stop_reason_of_chat, stop_reason_of_completion


@pytest.mark.parametrize(
    ("word", "completion", "chat"),
    [
        ("stop", "end_of_turn", "end_of_turn"),
        ("eos", "end_of_turn", "end_of_turn"),
        ("eos_token", "end_of_turn", "end_of_turn"),
        ("eom", "end_of_message", "end_of_turn"),
        ("length", "out_of_tokens", "out_of_tokens"),
        ("tool_calls", "out_of_tokens", "end_of_message"),
        ("unheard_of", "out_of_tokens", "end_of_turn"),
    ],
)
def test_each_api_has_its_map(word: str, completion: str, chat: str) -> None:
    """An unknown word is a cut for one, an end for another (``docs/contract/sources.md#s3-1``)."""
    assert stop_reason_of_completion(word) == completion
    assert stop_reason_of_chat(word) == chat


def test_null_says_nothing() -> None:
    """There it overwrites what was known; here there is nothing to overwrite with."""
    assert stop_reason_of_completion(None) is None
    assert stop_reason_of_chat(None) is None
    assert stop_reason_of_chat("") is stop_reason_of_completion("") is None
