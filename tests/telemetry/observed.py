"""What an observer makes of the frames of one exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.chat.answer import ChatResponse
from telemetry.observing.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from telemetry.frames.frame import Frame
    from telemetry.observing.exchange import Exchange


def observe(frames: Iterable[Frame], observer: Observer | None = None) -> Exchange:
    """The one record of one exchange's frames."""
    if observer is None:
        observer = Observer()
    records = [record for frame in frames if (record := observer.feed(frame)) is not None]
    assert len(records) == 1
    return records[0]


def chat_answer(exchange: Exchange) -> ChatResponse:
    """The answer of a chat or a legacy completion, as the chat's own values."""
    assert isinstance(exchange.response, ChatResponse)
    return exchange.response


def content(exchange: Exchange) -> str | None:
    """The text of the first choice."""
    return chat_answer(exchange).choices[0].message.content
