"""What the players of images, speech and transcriptions share: OpenAI's errors, and its events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codec.dialects import play_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.apis.player import Performance, Script
    from codec.asked import Asked
    from codec.dialects import Dialect
    from codec.generator import Answer
    from codec.text.jsontext import JsonObject

__all__ = ("FAILURE", "EventPlayer", "list_words", "write_event")

FAILURE: Final[JsonObject] = {
    "error": {
        "message": "The demo model was asked to fail, and did.",
        "type": "server_error",
        "param": None,
        "code": "server_error",
    }
}
"""The error that the failing model of the demo answers with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPlayer:
    """Plays one of OpenAI's APIs whose streams are events with types.

    Attributes:
        find_fault: finds the error body for the first thing wrong with a request.
        perform: begins an answer.
    """

    find_fault: Callable[[JsonObject], JsonObject | None]
    perform: Callable[[Asked, Script], Performance]

    def write_error(self, error: JsonObject, dialect: Dialect) -> bytes:
        """Write the body of an error, in a dialect."""
        return play_error(dialect, error)

    def play(self, asked: Asked, script: Script, _: Dialect) -> Performance:
        """Begin an answer."""
        return self.perform(asked, script)


def write_event(kind: str, members: JsonObject, *, is_named: bool = True) -> bytes:
    """Write an event; OpenAI leaves out the names of some events."""
    data = json.dumps({"type": kind, **members}, ensure_ascii=False, separators=(",", ":"))
    name = f"event: {kind}\n" if is_named else ""
    return f"{name}data: {data}\n\n".encode()


def list_words(answer: Answer) -> list[str]:
    """The words that an answer says."""
    words = (delta.content or delta.refusal for delta in answer.deltas)
    return [word for word in words if word]
