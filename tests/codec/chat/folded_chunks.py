"""Chunks made by hand, and the answer they fold into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.chat.accumulator import Accumulator

if TYPE_CHECKING:
    from codec.chat.answer import ChatResponse

USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def fold(*chunks: Any) -> ChatResponse:
    """Fold chunks into an answer."""
    accumulator = Accumulator()
    for chunk in chunks:
        accumulator.feed(chunk)
    return accumulator.response()


def delta(content: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    """A chunk with one choice; `more` are members of the choice."""
    members = {} if content is None else {"content": content}
    return {"choices": [{"index": index, "delta": members, **more}]}


def contents(response: ChatResponse) -> dict[int, str | None]:
    """The text of each choice."""
    return {choice.index: choice.message.content for choice in response.choices}
