"""Words that the demo's calls share: those they ask with, and those they tell an answer in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

INSTRUCTIONS = "You are a friendly guide. Answer in one short sentence."
"""Instructions that the model gets before any question."""


def ask_user(question: str) -> list[JsonObject]:
    """Put a question as a list of messages."""
    return [{"role": "user", "content": question}]


def tell(said: str, *facts: object) -> str:
    """Tell an answer in one line: the facts first, for a narrow terminal cuts the end."""
    return f'{", ".join(map(str, facts))}: "{said}"'
