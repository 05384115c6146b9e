"""What an answer says is read once, however many ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from codec.apis.gemini.said import read_answer
from codec.apis.messages import said as messages
from codec.apis.responses.said import read_response
from codec.chat.response import decode_response
from codec.text.jsontext import encode_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.said import Said

CALL = {"name": "add", "args": {"a": 1}}
ANSWERS: dict[str, tuple[Callable[[bytes], Said], dict[str, Any]]] = {
    "chat": (
        decode_response,
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}}]},
    ),
    "gemini": (
        read_answer,
        {
            "candidates": [
                {
                    "content": {"role": "model", "parts": [{"functionCall": CALL}]},
                    "finishReason": "STOP",
                }
            ],
            "usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 1},
        },
    ),
    "messages": (
        messages.read_answer,
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
    ),
    "responses": (
        read_response,
        {"object": "response", "output": [{"type": "message", "role": "assistant", "content": []}]},
    ),
}


@pytest.mark.parametrize("api", ANSWERS)
def test_an_answer_is_read_once(api: str) -> None:
    """Whoever asks again gets the same; another answer is read anew, and equality sees none."""
    read, body = ANSWERS[api]
    said, other = read(encode_json(body).encode()), read(encode_json(body).encode())
    assert said.answers
    assert said.answers is said.answers
    assert said == other
    changed = replace(said, id="another")
    assert changed.answers is not said.answers
    assert changed.answers == said.answers


def test_candidates_are_read_once() -> None:
    """Also where they were judged before the answer was made."""
    read, body = ANSWERS["gemini"]
    said: Any = read(encode_json(body).encode())
    assert "candidates" in vars(said)
    assert said.candidates is said.candidates
