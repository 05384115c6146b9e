"""The text of a choice, wherever it stands (``seeds.md`` S3.2)."""

from __future__ import annotations

from typing import Any

__all__ = ("text_of_choice",)


def text_of_choice(choice: Any) -> str | None:
    """Return the delta's content, else the message's, else the text; ``None`` without any.

    Args:
        choice: an entry of ``choices``, of any JSON type.
    """
    if not isinstance(choice, dict):
        return None
    for name in ("delta", "message"):
        member = choice.get(name)
        content = member.get("content") if isinstance(member, dict) else None
        if isinstance(content, str):
            return content
    text = choice.get("text")
    return text if isinstance(text, str) else None
